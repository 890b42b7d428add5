Instance HA's own watch works with the network driver `ovn`: a host that neither its libvirtd nor its chassis answers for is taken for dead (`[driver.network.ovn] southbound`).
