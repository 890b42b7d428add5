"""The state machine of servers, as data. Reference: compute-states.md, sections 1 to 3.

A server has a last stable state (`vm_state`), perhaps work under way (`task_state`), and from both a `status` that
users see. `ACTIONS` says which action is allowed when, and which task state it sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from cloudctl.compute.tables import Server
from cloudctl.errors import Conflict

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
SNAPSHOTTING = (SNAPSHOT_PENDING, SNAPSHOT, "image_pending_upload", UPLOAD)

NO_STATE, RUNNING, POWER_PAUSED, SHUTDOWN, CRASHED, POWER_SUSPENDED = 0, 1, 3, 4, 6, 7


def _all(status: str, *task_states: str) -> dict[str, str]:
    return dict.fromkeys(task_states, status)


# vm_state → (status, task_state → status where it differs)
STATUS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    BUILDING: ("BUILD", {}),
    ACTIVE: (
        "ACTIVE",
        {
            **_all("REBOOT", *REBOOTING),
            **_all("HARD_REBOOT", *REBOOTING_HARD),
            **_all("PASSWORD", UPDATING_PASSWORD),
            **_all("REBUILD", *REBUILDING),
            **_all("MIGRATING", "migrating"),
            **_all("RESIZE", *RESIZING),
        },
    ),
    STOPPED: ("SHUTOFF", {**_all("RESIZE", *RESIZING), **_all("REBUILD", *REBUILDING)}),
    RESIZED: ("VERIFY_RESIZE", _all("REVERT_RESIZE", REVERTING)),
    PAUSED: ("PAUSED", _all("MIGRATING", "migrating")),
    SUSPENDED: ("SUSPENDED", {}),
    RESCUED: ("RESCUE", {}),
    SHELVED: ("SHELVED", {}),
    SHELVED_OFFLOADED: ("SHELVED_OFFLOADED", {}),
    SOFT_DELETED: ("SOFT_DELETED", {}),
    ERROR: ("ERROR", _all("REBUILD", *REBUILDING)),
    DELETED: ("DELETED", {}),
}
STATUSES = frozenset(word for plain, by_task in STATUS.values() for word in (plain, *by_task.values())) | {"UNKNOWN"}
WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})


def status(vm_state: str, task_state: str | None) -> str:
    """The word that users poll."""
    known = STATUS.get(vm_state)
    if known is None:
        return "UNKNOWN"
    plain, by_task = known
    return by_task.get(task_state, plain) if task_state else plain


@frozen
class Action:
    """When an action is allowed. A set of None allows any; None in a set is «no task»."""

    name: str
    vm_states: frozenset[str] | None
    task_states: frozenset[str | None] | None = frozenset({None})
    task_state: str | None = None  # that it sets as it is accepted
    refused_when_locked: bool = True
    needs_launch: bool = True


def _action(name: str, vm_states: tuple[str, ...], **rules: Any) -> Action:
    return Action(name, frozenset(vm_states), **rules)


WRITABLE = (ACTIVE, PAUSED, SUSPENDED, STOPPED)
ATTACHABLE = (ACTIVE, PAUSED, STOPPED, RESIZED, SOFT_DELETED, SHELVED, SHELVED_OFFLOADED)
HARD_REBOOTABLE: frozenset[str | None] = frozenset(
    {None, *REBOOTING, "rebooting_hard", RESUMING, UNPAUSING, PAUSING, SUSPENDING}
)

ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action("delete", None, None, DELETING, needs_launch=False),
        _action("start", (STOPPED,), task_state=POWERING_ON),
        _action("stop", (ACTIVE, ERROR), task_state=POWERING_OFF),
        _action("reboot", (ACTIVE,), task_state="rebooting"),
        _action(
            "reboot_hard",
            (ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR),
            task_states=HARD_REBOOTABLE,
            task_state="rebooting_hard",
        ),
        _action("pause", (ACTIVE,), task_state=PAUSING),
        _action("unpause", (PAUSED,), task_state=UNPAUSING),
        _action("suspend", (ACTIVE,), task_state=SUSPENDING),
        _action("resume", (SUSPENDED,), task_state=RESUMING),
        _action("rescue", (ACTIVE, STOPPED, ERROR), task_state=RESCUING),
        _action("unrescue", (RESCUED,), task_state=UNRESCUING),
        _action("changePassword", (ACTIVE,), task_state=UPDATING_PASSWORD),
        _action("rebuild", (ACTIVE, STOPPED, ERROR), task_state=REBUILDING[0]),
        _action("resize", (ACTIVE, STOPPED), task_state=RESIZE_PREP),
        _action("migrate", (ACTIVE, STOPPED), task_state=RESIZE_PREP),
        _action("confirmResize", (RESIZED,)),
        _action("revertResize", (RESIZED,), task_state=REVERTING),
        _action("createImage", WRITABLE, task_state=SNAPSHOT_PENDING, refused_when_locked=False),
        _action("attach_volume", ATTACHABLE),
        _action("detach_volume", ATTACHABLE),
        _action("attach_interface", (ACTIVE, PAUSED, STOPPED)),
        _action("detach_interface", (ACTIVE, PAUSED, STOPPED)),
        _action("update metadata", WRITABLE, task_states=None, needs_launch=False),
        _action("delete metadata", WRITABLE, task_states=None, needs_launch=False),
        _action("update tag", WRITABLE, task_states=None, refused_when_locked=False, needs_launch=False),
        _action("update tags", WRITABLE, task_states=None, refused_when_locked=False, needs_launch=False),
        _action("delete tag", WRITABLE, task_states=None, refused_when_locked=False, needs_launch=False),
        _action("delete tags", WRITABLE, task_states=None, refused_when_locked=False, needs_launch=False),
    )
}
# What the 409 calls an action, where that is not its name here.
TOLD = {"reboot_hard": "reboot"}


def check(action: Action, row: Server, *, over_lock: bool = False) -> None:
    """Refuse an action that the server's state forbids. `over_lock`: the caller may ignore locks. Raises Conflict."""
    if action.refused_when_locked and row.locked_by and not over_lock:
        raise Conflict(f"Instance {row.id} is locked")
    if action.vm_states is not None and row.vm_state not in action.vm_states:
        raise wrong_state(action, row.id, "vm_state", row.vm_state)
    if action.task_states is not None and row.task_state not in action.task_states:
        raise wrong_state(action, row.id, "task_state", row.task_state)
    if action.task_states is None and action.name != "delete" and row.task_state == DELETING:
        raise wrong_state(action, row.id, "task_state", row.task_state)
    if action.needs_launch and row.launched_at is None:
        raise wrong_state(action, row.id, "launched_at", None)


def wrong_state(action: Action, server_id: str, attribute: str, value: str | None) -> Conflict:
    name = TOLD.get(action.name, action.name)
    if value is None:
        return Conflict(f"Instance {server_id} is in an invalid state for '{name}'")
    return Conflict(f"Cannot '{name}' instance {server_id} while it is in {attribute} {value}")
