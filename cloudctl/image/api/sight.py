"""Who may know of what a path names. To others it does not exist, whatever they want of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.image import images, namespaces
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller


@frozen
class Sight:
    """Of images, and of namespaces of metadata definitions."""

    db: Database

    async def __call__(self, call: Call, variables: Mapping[str, str]) -> None:
        """Raises NotFound. Who sees nothing of a kind is not told of one that it is not there."""
        for name, (rule, look) in KINDS.items():
            if name in variables and call.may(rule):
                await self.db.read(look, call.caller, variables[name])


# What a path names → the rule of who sees any, and what looks whether one of them is seen.
KINDS: Mapping[str, tuple[str, Callable[[Connection, Caller, str], object]]] = {
    "image_id": ("image:images:show", images.visible),
    "namespace": ("image:namespaces:show", namespaces.visible),
}
