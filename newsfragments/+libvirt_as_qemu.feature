Servers on `libvirt` hosts have a serial console, can be interrupted (`trigger_crash_dump`), have volumes that can be
snapshotted and backed up while they are attached, and start from images in any format.
