Copies of images can be kept where downloads read them fastest (`/image/v2/cache`, `[image] cache_directory` and
`cache_size`).
