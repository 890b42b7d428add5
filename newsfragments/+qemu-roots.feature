Root disks of guests of ``qemu`` may be in Ceph, as those of ``libvirt`` (``root_disks = "rbd"``).
