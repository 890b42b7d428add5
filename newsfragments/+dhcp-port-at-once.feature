A network's DHCP port is there as soon as its first subnet with DHCP has been answered, not only a moment later.
