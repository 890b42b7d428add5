"""What the driver reads from the kernel and changes in it: whole plans, one process each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from attrs import field, frozen

from cloudctl.drivers.netns.links import Link, found_links
from cloudctl.drivers.programs import Programs

NAMESPACES = Path("/run/netns")


@frozen
class Kernel:
    """The kernel of this machine. Namespaces are given by name; "" is the machine's own.

    All methods raise what `Programs` does: ProgramFailed, ProgramTimedOut.
    """

    programs: Programs
    _made: set[str] = field(factory=set)  # namespaces that a dry run would have made

    def namespaces(self) -> set[str]:
        """Names of all network namespaces that have one."""
        return set(os.listdir(NAMESPACES)) if NAMESPACES.is_dir() else set()

    def has_namespace(self, name: str) -> bool:
        return name == "" or name in self._made or (NAMESPACES / name).exists()

    async def ensure_namespace(self, name: str) -> None:
        if not self.has_namespace(name):
            await self.programs.change("ip", "netns", "add", name)
            if self.programs.dry_run:
                self._made.add(name)

    async def remove_namespace(self, name: str) -> None:
        if name and self.has_namespace(name):
            await self.programs.change("ip", "netns", "del", name)
            self._made.discard(name)

    async def links(self, namespace: str) -> dict[str, Link]:
        """Empty for a namespace that does not exist."""
        if not self._is_real(namespace):
            return {}
        return found_links(await self.programs.read("ip", *_in(namespace), "-j", "link", "show"))

    async def show(self, namespace: str, *what: str) -> list[dict[str, Any]]:
        """What `ip -j` shows of addresses, routes or rules; empty for a namespace that does not exist."""
        if not self._is_real(namespace):
            return []
        rows: list[dict[str, Any]] = orjson.loads(await self.programs.read("ip", *_in(namespace), "-j", *what) or b"[]")
        return rows

    async def batch(self, namespace: str, lines: Sequence[str], program: str = "ip") -> None:
        """Run these lines in order, up to the first that fails."""
        if lines:
            await self.programs.change(program, *_in(namespace), "-batch", "-", stdin=_text(lines))

    async def rules(self, namespace: str, ruleset: str) -> None:
        """Apply an nftables script: all of it or nothing."""
        await self.programs.change("nft", "-f", "-", stdin=ruleset.encode(), namespace=namespace or None)

    async def counters(self, namespace: str) -> dict[str, tuple[int, int]]:
        """Packets and bytes of nftables' counters by name; empty for a namespace that does not exist."""
        if not self._is_real(namespace):
            return {}
        said = orjson.loads(await self.programs.read("nft", "-j", "list", "counters", namespace=namespace or None))
        found = (each["counter"] for each in said["nftables"] if "counter" in each)
        return {each["name"]: (each["packets"], each["bytes"]) for each in found}

    async def forget(self, namespace: str, lines: Sequence[str]) -> None:
        """Have conntrack run these lines; unknown connections are no error."""
        if lines:
            await self.programs.change("conntrack", "-R", "-", stdin=_text(lines), namespace=namespace or None)

    async def sysctl(self, namespace: str, *settings: str) -> None:
        """Each setting is «name=value»."""
        await self.programs.change("sysctl", "-q", "-w", *settings, namespace=namespace or None)

    def _is_real(self, namespace: str) -> bool:
        return self.has_namespace(namespace) and namespace not in self._made


def _in(namespace: str) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
