"""Options of a Ceph cluster, wherever one is used, and the table `[driver.volume.rbd]`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, matches_re

from cloudctl.drivers.errors import Unusable

MONITOR = re.compile(r"([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+")
# Without the separators that Ceph's programs use.
WORD = r"[\w.-]+"


def are_monitors(_config: object, _option: Attribute[Any], value: list[str]) -> None:
    if wrong := [each for each in value if not MONITOR.fullmatch(each)]:
        raise ValueError(f"not ADDRESS:PORT: {', '.join(map(repr, wrong))}")
    if not value:
        raise ValueError("names no monitor")


@frozen
class Cluster:
    """A Ceph cluster, and our user there."""

    # The monitors of the cluster, as this machine and the guests' hosts reach them: "10.0.0.1:3300".
    monitors: list[str] = field(factory=lambda: ["127.0.0.1:3300"], validator=are_monitors)
    # The Ceph user of the cloud and of the guests, and a file with its key.
    user: str = field(default="cloudctl", validator=matches_re(WORD))
    keyring: Path = Path("/etc/ceph/ceph.client.cloudctl.keyring")
    # Seconds until an answer of the cluster is given up; the request is repeated.
    answer_timeout: float = field(default=30.0, validator=gt(0))

    def demand_key(self) -> None:
        """Raises Unusable."""
        try:
            self.keyring.read_bytes()
        except OSError as error:
            raise Unusable(f"the key of user {self.user} cannot be read from {self.keyring}") from error


@frozen
class Pool(Cluster):
    """Where images of guests are. The user has the rights "profile rbd"."""

    # A pool, and a namespace in it (empty: the default one). Both must exist before the cloud starts.
    pool: str = field(default="volumes", validator=matches_re(WORD))
    namespace: str = field(default="", validator=matches_re(f"({WORD})?"))
    # Seconds until a copy of a volume or an image is given up.
    copy_timeout: float = field(default=3600.0, validator=gt(0))


@frozen
class Config(Pool):
    """`[driver.volume.rbd]`"""

    # How long a chain of clones may become, each written only where it differs from the one before. A volume made from
    # the last of them is a full copy. 0: every volume is.
    clone_depth: int = field(default=5, validator=ge(0))
