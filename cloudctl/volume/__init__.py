"""Block storage: volumes, their types, and who is attached to them. Reference: volume.md, volume-states.md.

`tables` is what is stored. Domain: `states` (the state table), `volumes`, `creation`, `attachments`, `types`, `quotas`,
`services`, `messages`, `bootstrap`. `api` is the wire, `lifecycle` the durable work on the backend.
"""
