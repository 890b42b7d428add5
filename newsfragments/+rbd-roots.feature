Root disks of guests of ``libvirt`` may be in Ceph (``root_disks = "rbd"``): copy-on-write clones of their images, which stay where they are when guests move, and keep their data when a host dies.
