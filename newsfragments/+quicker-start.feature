A process imports and makes an API when the first request for it comes: a start takes a third less processor time.
