`cloudctl backups move` brings backups that are in a directory into the object store.
