"""Volumes that are qcow2 files of this machine, opened by the guests' QEMU itself."""
