"""What a path names, and who may know of it. To others it does not exist, whatever they ask of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.rest.call import Call
from cloudctl.rest.caller import Caller

Look = Callable[[Connection, Caller, str], object]
"""Raises NotFound for a record of this id that the caller may not know of."""


@frozen
class Sight:
    """Who may know of records. `kinds`: path variable → the rule for seeing any such record, and what looks for one.

    `methods`: calls with other methods are refused without a look.
    """

    db: Database
    kinds: Mapping[str, tuple[str, Look]]
    methods: Container[str] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

    async def look(self, call: Call, variables: Mapping[str, str]) -> None:
        """Raises NotFound. A caller who may see no record of a kind is not told that one is not found."""
        if call.method not in self.methods:
            return
        for name, (rule, look) in self.kinds.items():
            if name in variables and call.may(rule):
                await self.db.read(look, call.caller, variables[name])
