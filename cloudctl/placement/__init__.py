"""Placement: which host a server runs on, and what is left there. Internal: it has no API.

`hosts` are the machines that the hypervisor drivers serve, with what is promised of each. `wishes` say what a server
needs, `filters` and `weighers` choose among hosts (pure functions over data), `claims` takes what was chosen,
atomically. Reference: compute-scheduling.md.
"""
