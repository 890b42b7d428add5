"""Drivers without machines: every state a real one has, delays and faults on demand, nothing to install.

`behaviour` delays and breaks methods, `store` keeps objects in memory or on disk, and there is one driver a module.

They differ from real ones in this: no guest executes anything, no packet flows, and of every disk only the first
`store.HEAD` bytes are kept.
"""
