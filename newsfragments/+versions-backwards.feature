Versions are listed backwards, too (`?versions&reverse=true`), and up to a name (`end_marker`); and `PUT …?version-id=` makes an old version the object again, where it stored an empty one until now.
