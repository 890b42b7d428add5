"""Data of objects in a bucket of another object store, over S3."""
