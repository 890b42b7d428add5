"""The work that is done on images."""

from __future__ import annotations

from cloudctl.tasks import Kind

IMAGE = "image"

DELETE_IMAGE = Kind("image.image.delete", IMAGE)
# A child of the task that makes an image from a disk.
ACTIVATE_IMAGE = Kind("image.image.activate", IMAGE)
# How long an import, or a copy to other stores, may take is an option.
IMPORT_IMAGE = Kind("image.image.import", IMAGE)
COPY_IMAGE = Kind("image.image.copy", IMAGE)
CACHE_IMAGE = Kind("image.image.cache", IMAGE)
# The data of one store.
DELETE_COPY = Kind("image.copy.delete", IMAGE)
