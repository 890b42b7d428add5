The volume driver `rbd` keeps volumes in a pool of a Ceph cluster: clones instead of copies, snapshots, backups while guests write.
