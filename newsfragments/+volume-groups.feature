Volumes can be grouped: group types with specs, groups, snapshots of groups, and groups made of them. `os-retype` and `os-migrate_volume` move volumes between backends, with their bytes.
