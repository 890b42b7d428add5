Containers keep versions of their objects with ids (`X-Versions-Enabled`, and versioning of S3), and let pages of other sites in (CORS), by Swift's headers and by S3's rules.
