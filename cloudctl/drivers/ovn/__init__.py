"""The network driver `ovn`: networks, routers and filters across any number of hosts, by OVN."""
