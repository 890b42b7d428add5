"""The log levels of the services, as administrators see and set them: 3.32 of OpenStack's block storage API.

The services are this process, so naming one means its log; another process of the same cloud has a log of its own.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from attrs import frozen
from twisted.logger import LogLevel

from cloudctl.db import Database
from cloudctl.errors import Conflict
from cloudctl.log_levels import LogLevels
from cloudctl.rest.body import Body, Length
from cloudctl.rest.call import Call
from cloudctl.rest.resource import Json
from cloudctl.rest.route import Routes
from cloudctl.volume import services
from cloudctl.volume.options import VolumeOptions

API = "cinder-api"
SINCE = (3, 32)
ALL = ("", "*")
LEVELS = {
    "debug": LogLevel.debug,
    "info": LogLevel.info,
    "warning": LogLevel.warn,
    "warn": LogLevel.warn,
    "error": LogLevel.error,
    "critical": LogLevel.critical,
}
NAMES = {level: name.upper() for name, level in LEVELS.items() if name != "warn"}


@frozen
class Asked:
    """Which services: `binary` and `server` as in the list of services, empty for all."""

    binary: Literal["", "*", "cinder-api", "cinder-scheduler", "cinder-volume", "cinder-backup"] | None = None
    server: Annotated[str, Length(0, 255)] | None = None
    prefix: Annotated[str, Length(0, 255)] | None = None


Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "debug", "info", "warning", "error", "critical"]


@frozen(kw_only=True)
class SetLevel(Asked):
    level: Level


@frozen
class Logs:
    """`levels` None: the program that runs this service has its own log."""

    routes = Routes("Services")

    db: Database
    options: VolumeOptions
    levels: LogLevels | None

    @routes.put("/os-services/set-log", policy="volume:services:write", status=202, since=SINCE, body=Body(SetLevel))
    async def set(self, call: Call, body: SetLevel) -> None:
        """Set the log level of loggers with this prefix, in the process that answers."""
        levels = self._levels()
        if await self._asked(body):
            levels.set(body.prefix or "", LEVELS[body.level.lower()])

    @routes.put("/os-services/get-log", policy="volume:services:list", since=SINCE, body=Body(Asked))
    async def show(self, call: Call, body: Asked) -> Json:
        """Show the log levels of loggers with this prefix, in the process that answers."""
        found = self._levels().told(sys.modules, body.prefix or "")
        levels = {name: NAMES[level] for name, level in found.items()}
        return {
            "log_levels": [
                {"binary": binary, "host": host, "levels": levels} for binary, host in await self._asked(body)
            ]
        }

    def _levels(self) -> LogLevels:
        """Raises Conflict."""
        if self.levels is None:
            raise Conflict("What is logged here is decided by the process that this service is a part of.")
        return self.levels

    async def _asked(self, body: Asked) -> list[tuple[str, str]]:
        """Binary and host of the services that are named."""
        there = [(API, self.options.host)]
        there += [(each.binary, each.host) for each in await self.db.read(services.listing, self.options)]
        return [
            (binary, host)
            for binary, host in there
            if (body.binary or "") in (*ALL, binary) and (body.server or host) in (host, host.partition("@")[0])
        ]
