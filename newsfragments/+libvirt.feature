The hypervisor driver `libvirt` (extra `libvirt`) has guests on any number of hosts that their own libvirtd looks after; a
host that hangs or is gone holds nobody else. `docs/clusters.md` shows how.
