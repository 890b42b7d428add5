"""Volumes that are qcow2 files on this machine, opened by the guests' QEMU itself."""
