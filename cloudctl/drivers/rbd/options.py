"""What an operator can set: the table `[driver.volume.rbd]` of the configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, matches_re

MONITOR = re.compile(r"([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+")
# Not what the words of Ceph's programs are divided by.
WORD = r"[\w.-]+"


def are_monitors(_config: object, _option: Attribute[Any], value: list[str]) -> None:
    if wrong := [each for each in value if not MONITOR.fullmatch(each)]:
        raise ValueError(f"not ADDRESS:PORT: {', '.join(map(repr, wrong))}")
    if not value:
        raise ValueError("names no monitor")


@frozen
class Config:
    """`[driver.volume.rbd]`"""

    # The monitors of the cluster, as this machine and the guests' hosts reach them: "10.0.0.1:3300".
    monitors: list[str] = field(factory=lambda: ["127.0.0.1:3300"], validator=are_monitors)
    # The pool of the volumes, and a namespace in it. Empty: the pool's own. Both are there before the cloud is.
    pool: str = field(default="volumes", validator=matches_re(WORD))
    namespace: str = field(default="", validator=matches_re(f"({WORD})?"))
    # Who we and the guests are to Ceph, and a file with the key. It has the rights "profile rbd".
    user: str = field(default="cloudctl", validator=matches_re(WORD))
    keyring: Path = Path("/etc/ceph/ceph.client.cloudctl.keyring")
    # How many volumes may depend on each other in a row, each written only where it differs from the one before. What
    # is made from the last of them is a full copy. 0: everything is.
    clone_depth: int = field(default=5, validator=ge(0))
    # Seconds until an answer of the cluster is given up; it is asked again.
    answer_timeout: float = field(default=30.0, validator=gt(0))
    # Seconds until a copy of a volume or an image is given up.
    copy_timeout: float = field(default=3600.0, validator=gt(0))
