Policies of S3 buckets: who may, or may not, do what with which objects. docs/object-store.md names the part of the
language that is understood; the rest is refused.
