"""Networking: networks, subnets, ports with their addresses, security groups, routers, floating IPs, as API v2.0.

`tables` says what is stored. The domain: `networks`, `subnets`, `ports`, `security_groups`, `rules` (of groups);
`addresses` and `ipam` find and give back addresses, `segments` gives a network its VXLAN id, `standard` and `tags` are
what all records share; `owned` reads them, and `shares` says who else may use one. `routers` have `router_interfaces`,
`router_gateways` and `extra_routes`; `router_ports` is what others may ask of their ports. `qos_policies` and their
`qos_rules` are for networks and ports. `floating_ips` lead somewhere by `associations`, or their ports by
`port_forwardings`. `subnet_pools` in `address_scopes` give subnets their addresses, `trunks` let a port carry others,
and `agents` are the parts of the driver. `devices` tells of many ports at once what their servers have of them, and
`shown` when that changes. `plugging` puts a port on a host; compute's steps call it. `api/` is the wire, `lifecycle/`
the durable work on the driver.
"""
