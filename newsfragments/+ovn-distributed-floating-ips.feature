With the network driver `ovn`, `[driver.network.ovn] distributed_floating_ips` serves each floating address on the host of its port instead of on the gateway's.
