Hypervisor driver `qemu`: guests' processes are no longer root's. They become users without rights, are handed open what is plugged later, and have a control group each, with limits (`cgroup`).
Those that run since a release before go on as they are, until they are started anew.
