"""The things in a path that a caller may not know of at all: see `Sight.kinds`."""

from __future__ import annotations

from collections.abc import Mapping

from cloudctl.image import images, namespaces
from cloudctl.rest.sight import Look

SEEN: Mapping[str, tuple[str, Look]] = {
    "image_id": ("image:images:show", images.visible),
    "namespace": ("image:namespaces:show", namespaces.visible),
}
