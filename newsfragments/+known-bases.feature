A volume from an image that is in a Ceph pool already is made with one call of ``rbd`` less.
