"""Volumes that one `qemu-storage-daemon` serves by NBD: any host that reaches it can attach them."""
