The hypervisor driver `libvirt` moves guests between its hosts: live, by TLS from libvirtd to libvirtd, with disks that
the hosts do not share, progress, abort and force-complete; and off, in resizes and cold migrations. A host that returns
drops its copies of what was evacuated meanwhile.
