"""Block storage: volumes, their types, snapshots and backups. Reference: volume.md, volume-states.md.

`tables` defines what is stored. Domain: `states` (the state tables; `machine` is how they are used), `volumes`,
`creation`, `attachments`, `snapshots`, `backups`, `restoring`, `uploads` (volume → image), `types`, `quotas`,
`services`, `messages`, `bootstrap`, `managing`. `archives` keeps backups: in the object store (`object_archive`), or in
a directory (`archive`, accessed through `archive_threads`). `audit` compares backends with the records. `api` is the
wire, `lifecycle` the durable work on the backend.
"""
