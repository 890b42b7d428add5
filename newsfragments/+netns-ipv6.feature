The network driver `netns` tells guests of IPv6: routers advertise themselves and the prefixes of subnets with an
`ipv6_ra_mode`, DHCPv6 gives addresses where the mode says so, and extra DHCP options of ports are told.
NDP proxies of routers work.
