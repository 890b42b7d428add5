Network driver `netns`: real networks on one machine, with DHCP, metadata, routers, floating addresses, security groups, anti-spoofing, bandwidth limits, and several hosts joined by VXLAN.
