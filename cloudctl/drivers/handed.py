"""Files that a program is handed open, as arguments: one that runs as an unprivileged user can open none itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from cloudctl.drivers.accounts import READERS_GROUP, lend
from cloudctl.drivers.errors import DriverError

FIRST = 3  # the number of the first descriptor after its pipes


@frozen
class Lent:
    """A file. One that is `writable` is created if it does not exist."""

    path: Path
    writable: bool = False


@frozen
class Open:
    """A descriptor that the caller has open already: the program is told the number that it has there."""

    descriptor: int


@frozen
class Node:
    """A block node in QEMU's terms, with `Lent` where it names a file. `prefix`: what precedes its JSON."""

    options: Mapping[str, Any]
    prefix: str = "json:"


Part = str | Lent | Open | Node
Argument = Part | tuple[Part, ...]
"""Parts of a tuple are one word."""


@define
class Handing:
    """Collects the descriptors that are passed with one command."""

    as_others: bool  # the program runs as another user: it opens what it is lent by its number
    descriptors: list[int] = field(factory=list)
    _stack: ExitStack = field(factory=ExitStack)

    def word(self, argument: Argument) -> str:
        """Raises DriverError."""
        match argument:
            case str():
                return argument
            case Lent():
                return self._path(argument)
            case Open():
                return str(self._number(argument.descriptor))
            case Node():
                return argument.prefix + json.dumps(argument.options, default=self.word)
        return "".join(self.word(each) for each in argument)

    def _path(self, file: Lent) -> str:
        if not self.as_others:
            return str(file.path)
        try:
            descriptor = os.open(file.path, os.O_RDWR | os.O_CREAT if file.writable else os.O_RDONLY, 0o600)
            self._stack.callback(os.close, descriptor)
            lend(descriptor, READERS_GROUP, writable=file.writable)
        except OSError as error:
            raise DriverError(f"{file.path} cannot be opened: {error.strerror}") from error
        return f"/proc/self/fd/{self._number(descriptor)}"

    def _number(self, descriptor: int) -> int:
        self.descriptors.append(descriptor)
        return FIRST + len(self.descriptors) - 1

    def close(self) -> None:
        self._stack.close()


@contextmanager
def handed(arguments: Sequence[Argument], *, as_others: bool) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """A program's words, and the descriptors that it has open after its pipes, in this order. Raises DriverError."""
    handing = Handing(as_others)
    try:
        yield [handing.word(each) for each in arguments], handing.descriptors
    finally:
        handing.close()


def described(arguments: Sequence[Argument]) -> list[str]:
    """The words for a log: files by their names."""
    return [Handing(as_others=False).word(each) for each in arguments]
