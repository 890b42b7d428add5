"""The network driver `ovn`: networks, routers and filters between any number of hosts, by OVN."""
