Compute: host aggregates with metadata, and the availability zones that come out of them.
