"""Compute: servers and everything around them. Reference: compute.md, compute-states.md, compute-scheduling.md.

`servers` is the record with its queries, `states` the state machine as data. One module per idea: `creation`,
`deletion`, `power`, `attaching`, `networking`, `block_devices`, `flavors`, `keypairs`, `groups`, … `lifecycle/` has the
workflows, `api/` what goes over the wire, `audit` the comparison of servers with guests.
"""
