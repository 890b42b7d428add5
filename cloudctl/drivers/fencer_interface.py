"""Fencers. The rules for all drivers: `interfaces`."""

from __future__ import annotations

from cloudctl.drivers.driver_interface import IDriver


class IFencer(IDriver):
    """Keeps hosts that nobody can reach any more from touching what others are about to use."""

    async def ensure_fenced(host: str) -> str:
        """The host executes no guest and writes no shared disk, and will not before `ensure_unfenced`.

        Returns the evidence, for people: what was seen, not what was asked for. Whoever cannot tell raises: another
        fencer is asked, or an operator. Raises UnknownHost for one that is not its own.
        """

    async def ensure_unfenced(host: str) -> None:
        """The host may work again: it gets its power, its disks, its network. Raises UnknownHost."""
