"""Volumes that are images in a Ceph pool, opened by the guests' QEMU itself."""
