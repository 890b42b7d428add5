Routers and floating IPs: `POST /networking/v2.0/routers` with gateways, interfaces and static routes, `POST
/networking/v2.0/floatingips`, and floating addresses among those of servers. A new cloud has a router between `private`
and `public`. A network driver without `IRouters` has neither, and the API says so.
