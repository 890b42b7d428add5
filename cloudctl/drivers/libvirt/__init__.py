"""The hypervisor driver `libvirt`: guests on any number of hosts, each with its own libvirtd."""
