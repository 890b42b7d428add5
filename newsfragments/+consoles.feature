Consoles of servers can be opened: `[compute] console_listen` names the endpoint, `openstack console url show` gives the
URL of a WebSocket with a token of one use. Serial consoles of real guests and of the fake ones, VNC of real ones;
docs/consoles.md.
