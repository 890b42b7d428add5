Where images show their locations (`[image] show_multiple_locations`), a JSON patch may add the first one of an image and
remove one of several: the data at an address is fetched, looked at and kept, as by `POST …/locations`.
