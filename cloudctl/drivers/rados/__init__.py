"""Data of objects, and of images, in a pool of a Ceph cluster."""
