"""The workflows of block storage, one per file. Reference: volume-states.md."""

from __future__ import annotations

from cloudctl.tasks import Workflow
from cloudctl.volume.archives import Archives
from cloudctl.volume.lifecycle import backup_move
from cloudctl.volume.lifecycle.backup_create import creation
from cloudctl.volume.lifecycle.backup_delete import deletion
from cloudctl.volume.lifecycle.backup_import import importing
from cloudctl.volume.lifecycle.create import CREATE
from cloudctl.volume.lifecycle.delete import DELETE
from cloudctl.volume.lifecycle.detach import DETACH
from cloudctl.volume.lifecycle.extend import EXTEND
from cloudctl.volume.lifecycle.group_snapshot_create import GROUP_SNAPSHOT_CREATE
from cloudctl.volume.lifecycle.lend import LEND, LEND_SNAPSHOT
from cloudctl.volume.lifecycle.manage import MANAGE, MANAGE_SNAPSHOT, UNMANAGE, UNMANAGE_SNAPSHOT
from cloudctl.volume.lifecycle.mend import MEND
from cloudctl.volume.lifecycle.move import movement
from cloudctl.volume.lifecycle.reimage import REIMAGE
from cloudctl.volume.lifecycle.restore import restoration
from cloudctl.volume.lifecycle.revert import REVERT
from cloudctl.volume.lifecycle.snapshot_create import SNAPSHOT_CREATE
from cloudctl.volume.lifecycle.snapshot_delete import SNAPSHOT_DELETE
from cloudctl.volume.lifecycle.swap import swapping
from cloudctl.volume.lifecycle.upload import UPLOAD

# The workflows that need only the drivers.
WORKFLOWS: tuple[Workflow, ...] = (
    CREATE,
    DELETE,
    EXTEND,
    DETACH,
    LEND,
    LEND_SNAPSHOT,
    SNAPSHOT_CREATE,
    SNAPSHOT_DELETE,
    GROUP_SNAPSHOT_CREATE,
    REVERT,
    UPLOAD,
    REIMAGE,
    MEND,
    MANAGE,
    UNMANAGE,
    MANAGE_SNAPSHOT,
    UNMANAGE_SNAPSHOT,
)


def workflows(archives: Archives) -> tuple[Workflow, ...]:
    """All workflows."""
    made = (creation, deletion, importing, restoration, movement, swapping, backup_move.movement)
    return (*WORKFLOWS, *(make(archives) for make in made))
