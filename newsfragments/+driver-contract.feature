The suites for drivers of objects' data and for fencers close a driver twice, too, as those of the other kinds do.
