S3's lifecycle rules: objects, versions that were, lone markers and uploads in parts go when they are old.
