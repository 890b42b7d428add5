Incremental backups of volumes in Ceph read what has changed since the backup before, by ``rbd export-diff``, instead of the whole volume. Volume drivers can offer the same (``IVolumeChanges``).
