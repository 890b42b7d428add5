"""The image service: records of disk images, their data, and who may see them. Reference: image.md.

    tables.py       what is stored
    images.py       one image: its states, who sees it, making, changing and removing it
    listing.py      lists of images: filters, sort keys, visibility
    properties.py   custom properties and tags
    patching.py     JSON patches → the changes they ask for
    members.py      projects that an image is shared with
    uploads.py      an upload's way through the states
    imports.py      imports: staged data, a web address or another image → image; copies to other stores
    regions.py      images of an image service that the catalog names
    signatures.py   data whose signature would have to be verified: it is refused
    store.py        the files of one store; stores.py: all stores; data.py: the work on them, in threads
    namespaces.py   metadata definitions; definitions.py: what their namespaces hold
    inspection.py   what disk format a file really has
    recovery.py     what a killed process left behind
    web.py          downloads from addresses that a user names
    quotas.py  options.py  policy.toml  schemas.py
    api/            the wire; lifecycle/: the workflows

Other services use `images.visible`, `images.get`, `images.create`, `images.create_stored` and `properties.of`. What a
driver has written to `drivers.image_path(id)` becomes the image's data through the workflow `image.image.activate`.
"""
