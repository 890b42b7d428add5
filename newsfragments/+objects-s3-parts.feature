The objects driver `s3` sends what is larger than `part_size` in parts: contents may be larger than 5 GiB.
