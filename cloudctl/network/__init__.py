"""Networking: networks, subnets, ports with their addresses, security groups, routers, floating IPs, as API v2.0.

`tables` defines what is stored. The domain: `networks`, `subnets`, `ports`, `security_groups`, `rules` (of groups);
`addresses` and `ipam` find and give back addresses, `segments` gives a network its VXLAN id, `standard` and `tags` are
what all records share; `owned` reads them, and `shares` decides who else may use one. `routers` have
`router_interfaces`, `router_gateways` and `extra_routes`; `router_ports` is what other modules may query about their
ports. `qos_policies` and their `qos_rules` are for networks and ports. `floating_ips` lead to ports by `associations`,
or single ports of theirs do by `port_forwardings`. `subnet_pools` in `address_scopes` give subnets their addresses,
`trunks` let a port carry others, and `agents` are the parts of the driver. `devices` looks up what servers have through
many ports at once, and `shown` records when that changes. `plugging` puts a port on a host; compute's steps call it.
`api/` is the wire, `lifecycle/` the durable work on the driver.
"""
