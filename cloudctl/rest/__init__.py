"""HTTP machinery: one path for every request, declared Operations, strict bodies, listing, faults, policy, quota.

Nothing here knows a resource. Start with `route` (what an Operation is) and `pipeline` (what happens to a request).
"""
