"""Router: what Klein would choose for a path, found by one look at each of its segments.

A request is routed here first. What is not found (no such path, no such method, slashes that Klein normalizes) is left
to the Klein tree of the same endpoints, which has an answer for every such case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# A path and whether it is public.
Endpoint = tuple[str, bool]
Endpoints = tuple[tuple[Endpoint, tuple[str, ...]], ...]

VARIABLE = re.compile(r"<(?:path:)?([a-z_]+)>")


class Node:
    """What the path may go on with, and what it leads to if it ends here."""

    __slots__ = ("ends", "literal", "rest", "variable")

    def __init__(self) -> None:
        self.literal: dict[str, Node] = {}
        self.variable: Node | None = None
        # Where all that follows is one value, slashes included.
        self.rest: Node | None = None
        # By method; with the names of the variables on the way.
        self.ends: dict[bytes, tuple[Endpoint, tuple[str, ...]]] = {}

    def add(self, segments: Iterable[str]) -> tuple[Node, tuple[str, ...]]:
        """The node at the end of these segments, and the names of their variables."""
        node, names = self, []
        for segment in segments:
            if variable := VARIABLE.fullmatch(segment):
                names.append(variable[1])
                if segment.startswith("<path:"):
                    node.rest = node = node.rest or Node()
                else:
                    node.variable = node = node.variable or Node()
            else:
                node = node.literal.setdefault(segment, Node())
        return node, tuple(names)

    def find(
        self, method: bytes, segments: Sequence[str], at: int, values: list[str]
    ) -> tuple[Endpoint, tuple[str, ...]] | None:
        """The end of `segments[at:]` that takes the method; the variables' values are added to `values`.

        As in Klein, literal segments come before variables, and a path that ends without the method does not match.
        """
        if at == len(segments):
            return self.ends.get(method)
        segment = segments[at]
        node = self.literal.get(segment)
        if node is not None and (found := node.find(method, segments, at + 1, values)) is not None:
            return found
        if self.variable is not None and segment:
            values.append(segment)
            if (found := self.variable.find(method, segments, at + 1, values)) is not None:
                return found
            values.pop()
        if self.rest is not None and (text := "/".join(segments[at:])) and (end := self.rest.ends.get(method)):
            values.append(text)
            return end
        return None


class Router:
    """The endpoints of one API. A segment of a path is a literal or a whole variable: `/servers/<server_id>/action`.

    The last one may stand for all that follows: `/<container>/<path:name>`.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._root = Node()
        for endpoint, methods in endpoints:
            path, _ = endpoint
            node, names = self._root.add(split(path))
            for method in methods:
                node.ends.setdefault(method.encode(), (endpoint, names))

    def find(self, method: bytes, path: str) -> tuple[Endpoint, dict[str, str]] | None:
        """The endpoint of `/servers/1` and its variables; None if that is for Klein to decide."""
        values: list[str] = []
        found = self._root.find(method, split(path), 0, values)
        if found is None:
            return None
        endpoint, names = found
        return endpoint, dict(zip(names, values, strict=True))

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods that the path takes; none if there is no such path."""
        every = sorted({method for _, methods in self._endpoints for method in methods})
        return tuple(method for method in every if self.find(method.encode(), path) is not None)


def split(path: str) -> Sequence[str]:
    """`/a/b` → a, b; the root has no segments."""
    return path[1:].split("/") if len(path) > 1 else ()
