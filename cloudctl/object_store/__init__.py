"""The object store: containers of objects, over Swift's API."""
