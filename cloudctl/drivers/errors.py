"""What a driver may raise. Each class decides what the task engine does.

`Transient`: it runs the same step again after a while. `TryElsewhere`: it undoes the steps and tries another host or
backend. Any other `DriverError`: the task fails and the message becomes the fault that the user sees, so it must hold
no secret. Any other exception is a bug in the driver: it is logged with its traceback and the task fails.
"""

from __future__ import annotations

from cloudctl.tasks.workflow import Transient, TryElsewhere


class DriverError(Exception):
    """The call failed, and repeating it here will not help."""


class Unusable(DriverError):
    """From `check`: the driver cannot work on this machine or with these options. The message says what to change."""


class Unknown(DriverError):
    """The id names nothing here. `ensure_…_absent` methods never raise it."""

    what = "object"

    def __init__(self, id: str) -> None:
        super().__init__(f"{self.what} {id} is unknown to the driver")
        self.id = id


class UnknownHost(Unknown):
    what = "host"


class UnknownGuest(Unknown):
    what = "guest"


class UnknownVolume(Unknown):
    what = "volume"


class UnknownSnapshot(Unknown):
    what = "snapshot"


class UnknownNetwork(Unknown):
    what = "network"


class UnknownPort(Unknown):
    what = "port"


class UnknownContent(Unknown):
    what = "content"


class InvalidPower(DriverError):
    """The guest's power state forbids it: stop it, or start it, first."""


class InUse(DriverError):
    """Something still depends on it: a connected host, a snapshot, a bound port."""


class Aborted(DriverError):
    """A live migration was aborted on request: the guest stays where it was."""


class Unfit(DriverError):
    """The driver can never do what this spec asks: an unreadable image, a smaller disk, a missing source."""


class HostDown(DriverError, TryElsewhere):
    """The host of the guest does not answer. What happened there is unknown until it returns."""


class NoCapacity(DriverError, TryElsewhere):
    """No room here for this; there may be some elsewhere."""


class Busy(DriverError, Transient):
    """Another operation on the same object is under way, or a guest has not yet released a device."""


class Unreachable(DriverError, Transient):
    """The backend's own control socket or service does not answer now."""
