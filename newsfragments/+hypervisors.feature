Several hypervisors may stand side by side in one cloud: `[drivers] hypervisor = { here = "qemu", rack = "libvirt" }`.
