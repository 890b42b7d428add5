Servers can be paused, suspended, rescued, rebuilt, resized, cold-migrated, locked and given a new admin password;
`createImage` makes an image of a server's root disk, from which others boot.
