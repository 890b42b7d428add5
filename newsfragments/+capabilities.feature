The real host's QEMU, `qemu-img` and `qemu-storage-daemon` run without root's capabilities, but for reading files and, for guests, opening their interfaces; `setpriv` of util-linux is needed.
