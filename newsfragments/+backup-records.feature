Administrators export the records of backups and import them again, also under another id.
