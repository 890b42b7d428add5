"""Volumes that are images in a pool of a Ceph cluster, opened by the guests' QEMU itself."""
