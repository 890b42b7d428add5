"""The drivers of one cloud, as the Steps of its workflows see them: `ctx.drivers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import field, frozen

from cloudctl.drivers.interfaces import IFencer, IHypervisor, INetworkBackend, IVolumeBackend


@frozen
class Drivers:
    hypervisor: IHypervisor
    volume: IVolumeBackend
    network: INetworkBackend
    # Image id → the file with its data.
    image_path: Callable[[str], Path]
    # By name, in the order in which they are tried.
    fencers: Mapping[str, IFencer] = field(factory=dict)
