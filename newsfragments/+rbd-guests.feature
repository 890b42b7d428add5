Guests of `qemu` and `libvirt` use volumes of `rbd`; the key is on no command line.
