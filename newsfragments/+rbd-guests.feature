Guests of `qemu` use volumes of `rbd`; the key is on no command line.
