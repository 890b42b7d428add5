"""Fencers. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from cloudctl.drivers.driver_interface import IDriver


class IFencer(IDriver):
    """Keeps unreachable hosts from touching what other hosts are about to use."""

    async def ensure_fenced(host: str) -> str:
        """The host executes no guest and writes no shared disk, and will not until `ensure_unfenced`.

        Returns the evidence, for people: what was observed, not what was requested. A fencer that cannot tell raises
        instead: another fencer is tried, or an operator decides. Raises UnknownHost for a host it does not fence.
        """

    async def ensure_unfenced(host: str) -> None:
        """The host may work again: it gets its power, its disks and its network back. Raises UnknownHost."""
