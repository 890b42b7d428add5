S3: `GetObjectAttributes`, and deletions on the condition of a tag (`If-Match`).
