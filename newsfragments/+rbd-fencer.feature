The fencer ``rbd``: Ceph blocks the clients of a host that has died. Fencers have a public suite, ``cloudctl.testing.fencer_suite``.
