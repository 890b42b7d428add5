The network driver `netns` counts what metering labels are about, in counters that outlive changes of a router.
