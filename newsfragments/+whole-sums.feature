S3: an upload in parts may have a checksum of the whole object, `FULL_OBJECT` or `COMPOSITE`
(`x-amz-checksum-algorithm`, `x-amz-checksum-type`): parts are held against it, `CompleteMultipartUpload`, `ListParts`,
`HeadObject` and `GetObjectAttributes` tell it, and copied parts have theirs. A copy of a range by Swift's API no longer
keeps the checksum that S3 was told of the source.
