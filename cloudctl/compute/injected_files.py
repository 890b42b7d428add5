"""Files that a new guest has from the start: what microversions up to 2.56 call its personality.

Reference: compute.md, section 5.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence

from attrs import asdict, frozen

from cloudctl.compute.quotas import QUOTAS
from cloudctl.db import Connection
from cloudctl.errors import OverQuota
from cloudctl.rest import quota
from cloudctl.rest.quota import UNLIMITED


@frozen
class NewFile:
    """`contents` is base64, without line breaks."""

    path: str
    contents: str


def take(conn: Connection, project_id: str, files: Sequence[NewFile]) -> list[dict[str, str]]:
    """The files as a server's row stores them. Raises OverQuota."""
    if not files:
        return []
    limits = quota.limits(conn, QUOTAS, project_id)
    if _over(limits["injected_files"], len(files)):
        raise OverQuota("Personality file limit exceeded")
    longest, largest = limits["injected_file_path_bytes"], limits["injected_file_content_bytes"]
    if _over(longest, max(len(file.path.encode()) for file in files)):
        raise OverQuota(f"Personality file path exceeds maximum {longest}")
    if _over(largest, max(len(b64decode(file.contents)) for file in files)):
        raise OverQuota(f"Personality file content exceeds maximum {largest}")
    return [asdict(file) for file in files]


def _over(limit: int, amount: int) -> bool:
    return limit != UNLIMITED and amount > limit
