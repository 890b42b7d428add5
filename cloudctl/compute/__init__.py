"""Compute: servers and all around them. Reference: compute.md, compute-states.md, compute-scheduling.md.

`servers` is the record with its queries, `states` the state machine as data. One module an idea: `creation`,
`deletion`, `power`, `attaching`, `networking`, `block_devices`, `flavors`, `keypairs`, `groups`, … `lifecycle/` has the
workflows, `api/` what is on the wire, `audit` the comparison of servers with guests.
"""
