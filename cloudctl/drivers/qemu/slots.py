"""Where a guest's devices are plugged: each has a root port of its own, and the guest's kernel numbers disks and
interfaces in the order of their ports.

A running q35 machine takes new devices only at root ports that were there from the start. A device keeps its port as
long as the guest has it, so that a suspended guest finds it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.qemu.options import FIXED_SLOTS
from cloudctl.drivers.specs import GuestSpec

ROOT, OLD_ROOT, EPHEMERAL, SWAP, CONFIG_DRIVE = range(FIXED_SLOTS)


def volume(volume_id: str) -> str:
    """The name of a volume's device."""
    return f"volume-{_word(volume_id)}"


def port(port_id: str) -> str:
    """The name of a port's device."""
    return f"port-{_word(port_id)}"


def node(name: str) -> str:
    """The name of a device's block node or network back end; QEMU allows 31 characters."""
    return "n" + sha256(name.encode()).hexdigest()[:28]


def nodes(name: str) -> tuple[str, str]:
    """The two names that the block node of a disk can have, the usual one first: see `leading`."""
    return node(name), f"{node(name)}-2"


def _word(id: str) -> str:
    """QEMU allows letters, digits and `-._` in names of devices."""
    return id if re.fullmatch(r"[A-Za-z0-9._-]+", id) else sha256(id.encode()).hexdigest()[:32]


def assigned(spec: GuestSpec, taken: Mapping[str, int], slots: int) -> dict[str, int]:
    """A root port for each volume and port: the one it has already, or the first free one.

    The volume that the guest boots from is the first of all disks. Raises Unfit when there are too many.
    """
    names = _names(spec)
    kept = {name: taken[name] for name in names if name in taken}
    boots_from = _boot_volume(spec)
    if boots_from is not None:
        kept[boots_from] = ROOT
    free = (number for number in range(FIXED_SLOTS, FIXED_SLOTS + slots) if number not in kept.values())
    for name in names:
        if name not in kept:
            number = next(free, None)
            if number is None:
                raise Unfit(f"a guest can have {slots} volumes and ports together")
            kept[name] = number
    return kept


def _names(spec: GuestSpec) -> Sequence[str]:
    return [*(port(each.id) for each in spec.ports), *(volume(each.volume_id) for each in spec.volumes)]


def _boot_volume(spec: GuestSpec) -> str | None:
    if spec.image is not None:
        return None
    return next((volume(each.volume_id) for each in spec.volumes if each.boot_index == 0), None)
