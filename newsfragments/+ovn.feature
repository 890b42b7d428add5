The network driver `ovn`: networks, routers, floating addresses, security groups, trunks, DHCP and limits of bandwidth by
an OVN, over any number of hosts. It writes to the northbound database and mends what others changed there
(`docs/clusters.md`).
