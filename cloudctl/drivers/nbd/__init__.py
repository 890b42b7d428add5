"""Volumes that a `qemu-storage-daemon` serves by NBD: any host that reaches it can attach them."""
