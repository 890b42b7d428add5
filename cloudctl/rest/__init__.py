"""HTTP machinery: one path for every request, declared Operations, strict bodies, listing, faults, policy, quota.

Nothing here knows any particular resource. Start with `route` (Operations) and `pipeline` (what happens to a request).
"""
