Servers can be shelved, offloaded and unshelved (to a zone or a host), backed up with rotation, and deleted for a while
(`reclaim_instance_interval`) with `restore` and `forceDelete`. Servers that boot from volumes have images: snapshots of
their volumes, from which other servers are made.
