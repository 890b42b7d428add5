The object store, with Swift's API at `/object-store/v1`: accounts, containers and objects; listings, metadata, quotas,
access lists, conditional requests and ranges, copies, expiring objects, large objects of both kinds, symlinks, signed URLs.
