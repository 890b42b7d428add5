"""Instance high availability.

Reference: instance-ha.md, discovery.md.
"""
