The objects driver `s3` keeps the data of objects in a bucket of another store that speaks S3, such as Ceph's gateway.
