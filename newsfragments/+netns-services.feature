The network driver for one Linux machine forwards ports, marks packets (DSCP), limits packets, and holds floating IPs and gateways to their policies.
Routers follow the protocols of conntrack helpers.
