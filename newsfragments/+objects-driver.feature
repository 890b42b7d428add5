What keeps the data of objects is a driver, `[drivers] objects`, with a suite of its own in `cloudctl.testing`; `file` is
what there was.
