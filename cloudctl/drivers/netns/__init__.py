"""Networks in the kernel of one Linux machine: bridges, namespaces, nftables, and dnsmasq for DHCP.

A network is a bridge on each host that has ports of it, and a namespace of its own (`names.network_namespace`) where
dnsmasq answers and the metadata service listens, both at 169.254.169.254, so that none of the tenant's addresses is
used up. A router is a namespace, too. Several hosts are namespaces joined by VXLAN. The first host carries the
namespaces.

`driver` decides what should exist, `kernel` reads and changes it; everything between them is pure: from what was found
and what is wanted to the lines of one `ip -batch -` or of one `nft -f -`.
"""
