"""The state machine of servers, as data. Reference: compute-states.md, sections 1 to 4.

A server has a last stable state (`vm_state`) and perhaps work under way (`task_state`). `MOVES` says in which of them
something may happen to it, and what they become.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudctl.db.machine import Move, Sources, all_but, sources

BUILDING, ACTIVE, STOPPED, ERROR, DELETED = "building", "active", "stopped", "error", "deleted"
PAUSED, SUSPENDED, RESCUED, RESIZED = "paused", "suspended", "rescued", "resized"
SHELVED, SHELVED_OFFLOADED, SOFT_DELETED = "shelved", "shelved_offloaded", "soft-delete"

SCHEDULING, NETWORKING, BLOCK_DEVICES, SPAWNING = "scheduling", "networking", "block_device_mapping", "spawning"
POWERING_OFF, POWERING_ON, DELETING = "powering-off", "powering-on", "deleting"

REBOOTING = ("rebooting", "reboot_pending", "reboot_started")
REBOOTING_HARD = ("rebooting_hard", "reboot_pending_hard", "reboot_started_hard")
REBUILDING = ("rebuilding", "rebuild_block_device_mapping", "rebuild_spawning")
RESIZE_PREP, RESIZE_MIGRATING, RESIZE_FINISH = "resize_prep", "resize_migrating", "resize_finish"
RESIZING = (RESIZE_PREP, RESIZE_MIGRATING, "resize_migrated", RESIZE_FINISH)
REVERTING = "resize_reverting"
PAUSING, UNPAUSING, SUSPENDING, RESUMING = "pausing", "unpausing", "suspending", "resuming"
RESCUING, UNRESCUING, UPDATING_PASSWORD = "rescuing", "unrescuing", "updating_password"
SNAPSHOT_PENDING, SNAPSHOT, UPLOAD = "image_snapshot_pending", "image_snapshot", "image_uploading"
BACKUP = "image_backup"
SNAPSHOTTING = (SNAPSHOT_PENDING, BACKUP, SNAPSHOT, "image_pending_upload", UPLOAD)
SHELVING, SHELVING_UPLOAD, OFFLOADING = "shelving", "shelving_image_uploading", "shelving_offloading"
UNSHELVING = "unshelving"
MIGRATING = "migrating"
SOFT_DELETING, RESTORING = "soft-deleting", "restoring"

NO_STATE, RUNNING, POWER_PAUSED, SHUTDOWN, CRASHED, POWER_SUSPENDED = 0, 1, 3, 4, 6, 7

# -- what users may request: when it is accepted, and which work is then under way

IDLE = sources(None)
LIVELY = all_but(DELETING)
STAYING = all_but(DELETING, SOFT_DELETING)
ITS_OWN = all_but(DELETING, SOFT_DELETING, *REBUILDING)
WRITABLE = sources(ACTIVE, PAUSED, SUSPENDED, STOPPED)
ATTACHABLE = sources(ACTIVE, PAUSED, STOPPED, RESIZED, SOFT_DELETED, SHELVED, SHELVED_OFFLOADED)
PLUGGABLE = sources(ACTIVE, PAUSED, STOPPED)
# A guest that stands still releases nothing.
CAN_LOSE_PORTS = sources(ACTIVE, STOPPED)
REBOOTABLE = sources(None, *REBOOTING, "rebooting_hard", RESUMING, UNPAUSING, PAUSING, SUSPENDING)

# What a refusal calls an action, if that is not its name here.
TOLD = {"reboot_hard": "reboot", "open console": "get_vnc_console"}
REFUSAL = "Cannot '{move}' instance {id} while it is in {column} {value}"


def _asked(vm_states: Sources, doing: str | None = None, idle: Sources = IDLE, refusal: str | None = None) -> Move:
    return Move({"vm_state": vm_states, "task_state": idle}, {"task_state": doing} if doing else None, refusal)


ASKED: Mapping[str, Move] = {
    "delete": Move(None, {"task_state": DELETING}),
    "start": _asked(sources(STOPPED), POWERING_ON),
    "stop": _asked(sources(ACTIVE, ERROR), POWERING_OFF),
    "reboot": _asked(sources(ACTIVE), REBOOTING[0]),
    "reboot_hard": _asked(
        sources(ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR),
        REBOOTING_HARD[0],
        REBOOTABLE,
        REFUSAL.replace("{move}", TOLD["reboot_hard"]),
    ),
    "pause": _asked(sources(ACTIVE), PAUSING),
    "unpause": _asked(sources(PAUSED), UNPAUSING),
    "suspend": _asked(sources(ACTIVE), SUSPENDING),
    "resume": _asked(sources(SUSPENDED), RESUMING),
    "rescue": _asked(sources(ACTIVE, STOPPED, ERROR), RESCUING),
    "unrescue": _asked(sources(RESCUED), UNRESCUING),
    "changePassword": _asked(sources(ACTIVE), UPDATING_PASSWORD),
    "rebuild": _asked(sources(ACTIVE, STOPPED, ERROR), REBUILDING[0]),
    "resize": _asked(sources(ACTIVE, STOPPED), RESIZE_PREP),
    "migrate": _asked(sources(ACTIVE, STOPPED), RESIZE_PREP),
    "revertResize": _asked(sources(RESIZED), REVERTING),
    "createImage": _asked(WRITABLE, SNAPSHOT_PENDING),
    "createBackup": _asked(WRITABLE, BACKUP),
    "shelve": _asked(WRITABLE, SHELVING),
    "shelveOffload": _asked(sources(SHELVED), OFFLOADING),
    "unshelve": _asked(sources(SHELVED, SHELVED_OFFLOADED), UNSHELVING),
    # Of others no guest is, or will be, left that could run again: their deletion is one for good.
    "soft delete": Move(
        {
            "vm_state": all_but(SOFT_DELETED, ERROR, SHELVED_OFFLOADED),
            "task_state": all_but(DELETING, OFFLOADING),
        },
        {"task_state": SOFT_DELETING},
    ),
    "forceDelete": Move(None, {"task_state": DELETING}),
    "restore": _asked(sources(SOFT_DELETED), RESTORING),
    "os-migrateLive": _asked(sources(ACTIVE, PAUSED), MIGRATING),
    "evacuate": _asked(sources(ACTIVE, STOPPED, ERROR), REBUILDING[0], STAYING),
    "trigger_crash_dump": _asked(sources(ACTIVE, PAUSED, RESCUED, RESIZED, ERROR)),
    "force_complete": _asked(sources(ACTIVE, PAUSED), idle=sources(MIGRATING)),
    "abort live migration": Move({"task_state": sources(MIGRATING)}, None),
    "addFixedIp": Move({"task_state": LIVELY}, None),
    "removeFixedIp": Move({"task_state": LIVELY}, None),
    "injectNetworkInfo": Move(None, None),
    "open console": Move({"task_state": all_but(DELETING, MIGRATING)}, None),
    # What these do is recorded elsewhere, or is done at once.
    "confirmResize": _asked(sources(RESIZED)),
    "attach_volume": _asked(ATTACHABLE),
    "detach_volume": _asked(ATTACHABLE),
    "swap_volume": _asked(sources(ACTIVE, PAUSED, RESIZED)),
    "attach_interface": _asked(PLUGGABLE),
    "detach_interface": _asked(PLUGGABLE),
    "update metadata": _asked(WRITABLE, idle=LIVELY),
    "delete metadata": _asked(WRITABLE, idle=LIVELY),
    "update tag": _asked(WRITABLE, idle=LIVELY),
    "update tags": _asked(WRITABLE, idle=LIVELY),
    "delete tag": _asked(WRITABLE, idle=LIVELY),
    "delete tags": _asked(WRITABLE, idle=LIVELY),
}
TAGGING = frozenset({"update tag", "update tags", "delete tag", "delete tags"})
DESPITE_A_LOCK = TAGGING | {"createImage", "createBackup", "evacuate", "open console"}
BEFORE_THE_LAUNCH = TAGGING | {"delete", "forceDelete", "update metadata", "delete metadata", "injectNetworkInfo"}

# -- what comes of the work


def _boots(before: str | Sources, after: str | None, **more: Any) -> Move:
    doing = before if isinstance(before, Sources) else sources(before)
    return Move({"vm_state": sources(BUILDING), "task_state": doing}, {"task_state": after, **more})


def _done(doing: tuple[str, ...], vm_state: str | None = None, **more: Any) -> Move:
    """The work is over. If a deletion has begun in the meantime, its task state stays."""
    if vm_state is not None:
        more["vm_state"] = vm_state
    return Move({"task_state": sources(*doing)}, {"task_state": None, **more})


def _goes_on(doing: tuple[str, ...], after: str) -> Move:
    return Move({"task_state": sources(*doing)}, {"task_state": after})


POWERING = (
    POWERING_ON,
    POWERING_OFF,
    *REBOOTING,
    *REBOOTING_HARD,
    PAUSING,
    UNPAUSING,
    SUSPENDING,
    RESUMING,
)
OFF = {"power_state": SHUTDOWN}
ON = {"power_state": RUNNING}

DONE: Mapping[str, Move] = {
    # boot
    "placed": _boots(SCHEDULING, SPAWNING),
    "placed, with volumes": _boots(SCHEDULING, BLOCK_DEVICES),
    "connected": _boots(BLOCK_DEVICES, SPAWNING),
    "booted": _boots(SPAWNING, None, vm_state=ACTIVE, **ON),
    "leave the host": Move({"vm_state": sources(BUILDING)}, {"host": None}),
    "schedule again": _boots(sources(SCHEDULING, BLOCK_DEVICES, SPAWNING), SCHEDULING),
    # power
    "started": _done((POWERING_ON,), ACTIVE, **ON),
    "stopped": _done((POWERING_OFF,), STOPPED, **OFF),
    "rebooted": _done((*REBOOTING, *REBOOTING_HARD), ACTIVE, **ON),
    "paused": _done((PAUSING,), PAUSED, power_state=POWER_PAUSED),
    "unpaused": _done((UNPAUSING,), ACTIVE, **ON),
    "suspended": _done((SUSPENDING,), SUSPENDED, **OFF),
    "resumed": _done((RESUMING,), ACTIVE, **ON),
    "power cancelled": _done(POWERING),
    # rescue; the guest has its password, so it is forgotten
    "rescued": _done((RESCUING,), RESCUED, admin_password=None, **ON),
    "unrescued": _done((UNRESCUING,), ACTIVE, admin_password=None, **ON),
    "password set": _done((UPDATING_PASSWORD,), ACTIVE, admin_password=None, **ON),
    "rescue cancelled": _done((RESCUING, UNRESCUING, UPDATING_PASSWORD), admin_password=None),
    # rebuild
    "make anew": _goes_on(REBUILDING, REBUILDING[2]),
    "stay": Move({"task_state": sources(*REBUILDING, SOFT_DELETING)}, None),
    "rebuilt": _done(REBUILDING, ACTIVE, admin_password=None, **ON),
    "rebuilt, off": _done(REBUILDING, STOPPED, admin_password=None, **OFF),
    "rebuild cancelled": _done(REBUILDING, ERROR, admin_password=None),
    # resize and migration
    "move": _goes_on((RESIZE_PREP,), RESIZE_MIGRATING),
    "moved": _goes_on(RESIZING, RESIZE_FINISH),
    "resized": _done((RESIZE_FINISH,), RESIZED, **ON),
    "resized, off": _done((RESIZE_FINISH,), RESIZED, **OFF),
    "resize cancelled": _done(RESIZING),
    "confirmed": Move({"vm_state": sources(RESIZED)}, {"vm_state": ACTIVE}),
    "confirmed, off": Move({"vm_state": sources(RESIZED)}, {"vm_state": STOPPED}),
    "reverted": _done((REVERTING,), ACTIVE, **ON),
    "reverted, off": _done((REVERTING,), STOPPED, **OFF),
    "revert cancelled": _done((REVERTING,), ERROR),
    "migrated": _done((MIGRATING,)),
    # images of the server
    "capture": _goes_on((SNAPSHOT_PENDING, BACKUP), SNAPSHOT),
    "captured": _goes_on((SNAPSHOT,), UPLOAD),
    "image ended": _done(SNAPSHOTTING),
    # shelved
    "shelving uploads": _goes_on((SHELVING,), SHELVING_UPLOAD),
    "shelved": _done((SHELVING, SHELVING_UPLOAD), SHELVED, **OFF),
    "shelved, and goes on": Move(
        {"task_state": sources(SHELVING, SHELVING_UPLOAD)}, {"vm_state": SHELVED, "task_state": OFFLOADING, **OFF}
    ),
    "offload": _asked(sources(SHELVED), OFFLOADING),
    "offloaded": _done((OFFLOADING,), SHELVED_OFFLOADED, host=None, **OFF),
    # The server was frozen in memory, and cannot be put back into that.
    "shelve undone": Move({"task_state": sources(SHELVING, SHELVING_UPLOAD)}, {"vm_state": STOPPED, **OFF}),
    "unshelving on a host": _goes_on((UNSHELVING,), SPAWNING),
    "unshelving again": Move(
        {"vm_state": sources(SHELVED_OFFLOADED), "task_state": sources(SPAWNING)},
        {"task_state": UNSHELVING, "host": None},
    ),
    # An administrator has reset its state in the meantime, but there is no guest.
    "shelved after all": Move(
        {"task_state": STAYING}, {"vm_state": SHELVED_OFFLOADED, "task_state": None, "host": None, **OFF}
    ),
    "unshelved": _done((UNSHELVING, SPAWNING), ACTIVE, **ON),
    "shelving cancelled": _done((SHELVING, SHELVING_UPLOAD, OFFLOADING, UNSHELVING, SPAWNING)),
    # deleted for the time being
    "soft-deleted": _done((SOFT_DELETING,), SOFT_DELETED, admin_password=None, **OFF),
    "soft delete ended": _done((SOFT_DELETING,)),
    "restored": _done((RESTORING,), ACTIVE, **ON),
    "restore ended": _done((RESTORING,)),
    # the end
    "delete failed": _done((DELETING,), ERROR),
    "deleted": Move(None, {"vm_state": DELETED, "task_state": None, "power_state": NO_STATE}),
    # work that failed; a deletion, for good or for the time being, or what makes the guest anew comes after it
    "fault": Move({"task_state": LIVELY}, None),
    "failed": Move({"task_state": ITS_OWN}, {"task_state": None}),
    "broken": Move({"task_state": ITS_OWN}, {"task_state": None, "vm_state": ERROR}),
    "not made anew": Move({"task_state": STAYING}, {"task_state": None, "vm_state": ERROR}),
    # the audit, and an administrator's reset, which brings its own `vm_state`
    "stop as found": _asked(sources(ACTIVE, STOPPED, PAUSED), POWERING_OFF),
    "soft delete as found": _asked(sources(SOFT_DELETED), SOFT_DELETING),
    "reset": Move(None, {"task_state": None}),
}
MOVES: Mapping[str, Move] = {**ASKED, **DONE}
