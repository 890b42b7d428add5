With SQLite, accepted work is begun by the transaction that accepts it: servers, volumes and networks are there one commit sooner.
