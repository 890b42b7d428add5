"""Fencing by IPMI 2.0: the power of hosts, as their management controllers have it."""
