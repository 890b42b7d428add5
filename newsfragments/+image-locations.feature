`GET /v2/images/{id}/locations` tells services where the data of an image is; with `[image] show_multiple_locations`
images tell it themselves. `/v2/cache` says that nothing is cached.
