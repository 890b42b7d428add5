"""Instance high availability. So far only its version documents; the API follows.

Reference: instance-ha.md, discovery.md.
"""
