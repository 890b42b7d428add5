Where images show their locations (`[image] show_multiple_locations`) and there is a store `web`, a JSON patch says at which
addresses the data of an image is, and with which metadata: the image is active at once, and its data is fetched, looked at
and kept when it is first downloaded, booted from or copied. One of several locations can be removed by a patch.
