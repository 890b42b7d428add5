"""Fencing by Redfish: the power of hosts, as their management controllers have it."""
