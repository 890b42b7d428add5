The driver `qemu` tells what guests use (`diagnostics`), sends them non-maskable interrupts (`trigger_crash_dump`), and
has their serial consoles and screens opened; `vnc = false` makes guests without a screen.
