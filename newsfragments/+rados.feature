Objects, and images, may be in a pool of a Ceph cluster: `[drivers] objects = "rados"`.
