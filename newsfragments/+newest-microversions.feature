Compute offers microversions up to 2.104: what its image said and the scheduler hints are shown with a server (2.98,
2.100), flavors are listed by `name` and have no `rxtx_factor` any more (2.102), a parameter that a call does not have is
refused everywhere (2.102), and a server is let out of its availability zone, or kept in it again, by a PUT (2.104). There
is no service of shared file systems, so a server's list of them (2.97) is empty and none can be attached.
