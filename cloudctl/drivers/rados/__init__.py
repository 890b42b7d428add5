"""Data of objects and images in a pool of a Ceph cluster."""
