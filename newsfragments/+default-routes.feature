Administrators say how a router uses several gateways: `enable_default_route_ecmp` and `enable_default_route_bfd`, where the driver can do several (`fake`).
