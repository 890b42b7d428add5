S3: `PublicAccessBlock`, `OwnershipControls` and `GetBucketPolicyStatus`, which take effect; lifecycle rules by tags;
conditions of policies by tags that an object has (`s3:ExistingObjectTag/…`) or is given (`s3:RequestObjectTag/…`).
