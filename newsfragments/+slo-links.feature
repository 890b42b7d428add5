Swift: a segment of a static large object may be a symlink. Whoever may not read what it leads to reads nothing by it.
