"""What an operator can set: the table `[driver.volume.qcow2]` of the configuration."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt


@frozen
class Config:
    """`[driver.volume.qcow2]`"""

    # Where the volumes of this cloud alone are kept. Empty: in the driver's own state directory.
    directory: str = ""
    # How many times the size of the file system may be allocated. Volumes take up room only as they are written.
    overcommit: float = field(default=20.0, validator=ge(1.0))
    # Seconds until a copy of a volume or an image is given up.
    copy_timeout: float = field(default=3600.0, validator=gt(0))
    # Log what would be changed, and change nothing.
    dry_run: bool = False
