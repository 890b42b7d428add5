"""Data of objects in a bucket of another store, by S3."""
