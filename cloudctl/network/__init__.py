"""Networking: networks, subnets, ports with their addresses, security groups, as API v2.0.

`tables` says what is stored. The domain: `networks`, `subnets`, `ports`, `security_groups`, `rules` (of groups);
`addresses` and `ipam` find and give back addresses, `segments` gives a network its VXLAN id, `standard` and `tags` are
what all records share. `plugging` puts a port on a host; compute's steps call it. `api/` is the wire, `lifecycle/` the
durable work on the driver.
"""
