"""Networking: networks, subnets, ports with their addresses, security groups, routers, floating IPs, as API v2.0.

`tables` says what is stored. The domain: `networks`, `subnets`, `ports`, `security_groups`, `rules` (of groups);
`addresses` and `ipam` find and give back addresses, `segments` gives a network its VXLAN id, `standard` and `tags` are
what all records share. `routers` have `router_interfaces`, `router_gateways` and `extra_routes`; `router_ports` is what
others may ask of their ports. `qos_policies` and their `qos_rules` are for networks and ports. `floating_ips`
lead somewhere by `associations`. `devices` tells of many ports at once what their servers have of
them, and `shown` when that changes. `plugging` puts a port
on a host; compute's steps call it. `api/` is the wire, `lifecycle/` the durable work on the driver.
"""
