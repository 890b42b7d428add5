The object store speaks S3 at `/s3`: buckets, objects, uploads in parts, versions, tags, signed URLs and the checksums that current SDKs send. Keys are EC2 credentials.
