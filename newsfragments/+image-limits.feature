Limits of the image service are set by identity's unified limits: register `image_size_total`, `image_stage_total`,
`image_count_total` or `image_count_uploading` for the service `image`. Data of images whose properties ask for their
signature to be verified is refused, for there is no key manager.
