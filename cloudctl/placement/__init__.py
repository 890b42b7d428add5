"""Placement: what there is, who has how much of it, and which host a server runs on.

`hosts` are the machines that the hypervisor drivers serve; each is a resource provider (`providers`) with inventories.
`allocations` gives shares of providers to consumers, atomically, for both the scheduler and the API. `wishes` say what
a server needs, `filters` and `weighers` choose among hosts (pure functions over data), `claims` takes what was chosen.
Reference: compute-scheduling.md.
"""
