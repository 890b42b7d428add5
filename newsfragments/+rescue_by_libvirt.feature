Servers on `libvirt` hosts can be rescued, from another image or their own, with their root disk beside it, be that a
file or a clone in Ceph.
