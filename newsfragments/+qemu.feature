Hypervisor driver `qemu`: real guests, one QEMU process each, which outlive cloudctl. A guest that dies makes its server SHUTOFF within a second.
