"""Drivers without machines: every state a real one has, delays and faults on demand, nothing to install.

`behaviour` delays and breaks methods, `store` keeps objects in memory or on disk, and each driver has its own module.

They differ from real drivers in that no guest executes anything, no packet flows, and only the first `store.HEAD` bytes
of each disk are kept.
"""
