"""Fencing by IPMI 2.0: the power of hosts, through their management controllers."""
