Compute: security groups with their rules, floating IPs and their pools, networks, volumes, snapshots and the metadata of images, for clients that ask for the microversions that had them.
