Volumes have snapshots (create, revert, volumes of them) and full and incremental backups in a directory,
`[volume] backup_directory`; a volume's content becomes an image with `openstack image create --volume`.
