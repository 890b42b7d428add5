Any number of processes serve one cloud on PostgreSQL without a shared state directory: the keys of tokens and credentials
are in the database, sealed by `[database] sealing_keys`, and what they must share is in `[server] data_dir`, which is
checked at the start. `fernet-keys/` and `credential-keys/` are taken over at the first start; `cloudctl keys new` and
`keys reseal` are new. A process that dies is missed within seconds, and others are told of new tasks at once.
