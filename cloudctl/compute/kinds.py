"""The kinds of work done on servers. The log of actions (`api/instance_actions.py`) shows those that have a name
for users. Reference: compute.md, section 8.7.
"""

from __future__ import annotations

from collections.abc import Callable

from cloudctl.compute import notices
from cloudctl.db import Connection
from cloudctl.network import kinds as of_networks
from cloudctl.tasks import Action, Kind, Phase, Told
from cloudctl.volume import kinds as of_volumes

SERVER = "server"
# Work on a server that is being moved: the server's own tasks wait until it has arrived.
MIGRATION = "migration"
# Checks that run beside the server's tasks.
GUEST = "guest"

# Seconds: for what a host does with a guest; for creating or moving disks; for waiting for other services.
SOON, LATER, LATE = 900.0, 1800.0, 3600.0


Tell = Callable[[Connection, Told], None]


def _kind(
    name: str,
    deadline: float,
    action: str,
    event: str,
    told: str | Tell | None = None,
    resource: str = SERVER,
    *,
    voids: bool = False,
) -> Kind:
    """`told`: the name of its events, or how to report them."""
    tell = notices.work(told) if isinstance(told, str) else told
    return Kind(f"compute.{resource}.{name}", resource, deadline, Action(action, event), tell, voids)


# In OpenStack the two hosts involved send these.
_LIVE_MIGRATION = notices.phases(
    {
        Phase.START: "instance.live_migration_pre.start",
        Phase.END: "instance.live_migration_post.end",
        Phase.ERROR: "instance.live_migration_rollback.end",
    }
)


# How long a boot may take is an option.
BOOT = _kind("boot", LATER, "create", "compute__do_build_and_run_instance", "create")
BOOT_WITH_VOLUMES = _kind("boot_with_volumes", LATER, "create", "compute__do_build_and_run_instance", "create")
DELETE = _kind("delete", LATE, "delete", "compute_terminate_instance", "delete", voids=True)

START = _kind("start", SOON, "start", "compute_start_instance", "power_on")
STOP = _kind("stop", SOON, "stop", "compute_stop_instance", "power_off")
REBOOT = _kind("reboot", SOON, "reboot", "compute_reboot_instance", "reboot")
PAUSE = _kind("pause", SOON, "pause", "compute_pause_instance", "pause")
UNPAUSE = _kind("unpause", SOON, "unpause", "compute_unpause_instance", "unpause")
SUSPEND = _kind("suspend", SOON, "suspend", "compute_suspend_instance", "suspend")
RESUME = _kind("resume", SOON, "resume", "compute_resume_instance", "resume")

RESCUE = _kind("rescue", SOON, "rescue", "compute_rescue_instance", "rescue")
UNRESCUE = _kind("unrescue", SOON, "unrescue", "compute_unrescue_instance", "unrescue")
SET_PASSWORD = _kind("set_password", SOON, "changePassword", "compute_set_admin_password")
CREATE_IMAGE = _kind("create_image", LATE, "createImage", "compute_snapshot_instance", "snapshot")
CREATE_BACKUP = _kind("create_backup", LATE, "createBackup", "compute_backup_instance", "snapshot")
FREEZE_VOLUMES = _kind("freeze_volumes", LATE, "createImage", "api_snapshot_instance", "snapshot")
REBUILD = _kind("rebuild", LATER, "rebuild", "compute_rebuild_instance", "rebuild")
RESIZE = _kind("resize", LATER, "resize", "compute_resize_instance", "resize")
MIGRATE = _kind("migrate", LATER, "migrate", "cold_migrate", "resize")
LIVE_MIGRATE = _kind("live_migrate", LATE, "live-migration", "conductor_live_migrate_instance", _LIVE_MIGRATION)
ABORT_MIGRATION = _kind(
    "abort",
    SOON,
    "live_migration_cancel",
    "compute_live_migration_abort",
    notices.work_on_migration("live_migration_abort"),
    MIGRATION,
)
FORCE_MIGRATION = _kind(
    "force",
    SOON,
    "live_migration_force_complete",
    "compute_live_migration_force_complete",
    notices.work_on_migration("live_migration_force_complete"),
    MIGRATION,
)
EVACUATE = _kind("evacuate", LATE, "evacuate", "compute_rebuild_instance", "rebuild", voids=True)
CRASH_DUMP = _kind("crash_dump", SOON, "trigger_crash_dump", "compute_trigger_crash_dump", "trigger_crash_dump")
CONFIRM_RESIZE = _kind("confirm_resize", LATER, "confirmResize", "compute_confirm_resize", "resize_confirm")
REVERT_RESIZE = _kind("revert_resize", LATER, "revertResize", "compute_revert_resize", "resize_revert")

SHELVE = _kind("shelve", LATE, "shelve", "compute_shelve_instance", "shelve")
OFFLOAD = _kind("offload", LATER, "shelveOffload", "compute_shelve_offload_instance", "shelve_offload")
UNSHELVE = _kind("unshelve", LATE, "unshelve", "compute_unshelve_instance", "unshelve")
SOFT_DELETE = _kind("soft_delete", SOON, "delete", "compute_soft_delete_instance", "soft_delete")
FORCE_DELETE = _kind("force_delete", LATE, "forceDelete", "compute_terminate_instance", "delete", voids=True)
RESTORE = _kind("restore", SOON, "restore", "compute_restore_instance", "restore")

ATTACH_VOLUME = _kind("attach_volume", SOON, "attach_volume", "compute_attach_volume", "volume_attach")
DETACH_VOLUME = _kind("detach_volume", SOON, "detach_volume", "compute_detach_volume", "volume_detach")
# Block storage requests it once the volume has grown.
EXTEND_VOLUME = of_volumes.EXTEND_GUEST
# Block storage moves the volume to another backend.
SWAP_VOLUME = of_volumes.SWAP_VOLUME
ATTACH_INTERFACE = _kind("attach_interface", SOON, "attach_interface", "compute_attach_interface", "interface_attach")
DETACH_INTERFACE = _kind("detach_interface", SOON, "detach_interface", "compute_detach_interface", "interface_detach")
# Networking requests it once a port is deleted, and it the other one, of the server that had the port.
PORT_LOST = of_networks.PORT_LOST
LOSE_PORT = Kind("compute.server.lose_port", SERVER, SOON)

# The second half of a shelve, and the offload of servers that have waited: nobody requests it by itself.
LEAVE_HOST = Kind("compute.server.leave_host", SERVER, LATER, tell=notices.work("shelve_offload"))
# Reported by services outside: a guest's ports have changed, its power state may have.
REFRESH = Kind("compute.server.refresh", SERVER, SOON)
COMPARE = Kind("compute.guest.compare", GUEST, SOON)
# The guest of a server that was deleted while its host was down.
PURGE = Kind("compute.server.purge", SERVER, 600.0)

# The kinds that are shown to users.
TOLD = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind) and kind.action is not None)
_ACTIONS = {kind.name: kind.action for kind in TOLD if kind.action is not None}


def action(name: str) -> Action:
    """What users see of the kind with this name. Raises KeyError if they see nothing of it."""
    return _ACTIONS[name]
