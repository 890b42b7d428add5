"""The kinds of work that notifications cause."""

from __future__ import annotations

from cloudctl.tasks import Kind

NOTIFICATION, HOST = "notification", "ha_host"

# What a notification says is broken.
OF_HOST, OF_INSTANCE, OF_PROCESS = "host", "instance", "process"

RECOVER = {
    kind: Kind(f"instance_ha.notification.recover_{kind}", NOTIFICATION) for kind in (OF_HOST, OF_INSTANCE, OF_PROCESS)
}
RETURN = Kind("instance_ha.host.return", HOST)
