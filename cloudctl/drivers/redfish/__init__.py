"""Fencing by Redfish: the power of hosts, through their management controllers."""
