`/network-ip-availabilities` tells addresses in the pools and in all (`network-ip-availability-details`); `/service-providers` lists the kinds of routers that there are.
