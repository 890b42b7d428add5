Uploads of objects and images are hashed and written by threads while the rest of them comes, and go to the disk
meanwhile: they no longer hold up other requests, and are ready sooner.
