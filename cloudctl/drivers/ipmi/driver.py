"""The fencer `ipmi`: ipmitool over lanplus. Passwords are in files because everybody can see programs' arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from attrs import field, frozen
from attrs.validators import and_, ge, le, min_len

from cloudctl.drivers.errors import DriverError, Unreachable, Unusable
from cloudctl.drivers.power import PowerFencer
from cloudctl.drivers.programs import ProgramFailed, Programs, require
from cloudctl.drivers.specs import DriverResources
from cloudctl.options import positive

IPMITOOL = "ipmitool"
STATES = {"Chassis Power is on": True, "Chassis Power is off": False}


@frozen
class HostOptions:
    """`[driver.fencer.ipmi.hosts.NAME]`"""

    address: str = field(validator=min_len(1))
    user: str
    password_file: Path
    port: int = field(default=623, validator=and_(ge(1), le(65535)))


@frozen
class Config:
    """`[driver.fencer.ipmi]`"""

    hosts: dict[str, HostOptions] = field(factory=dict)  # by the names that the hypervisor gives them
    timeout: float = field(default=20.0, validator=positive)  # seconds, for one answer
    power_timeout: float = field(default=60.0, validator=positive)  # seconds until a host is off


class Runs(Protocol):
    """What is needed of Programs."""

    async def read(self, name: str, /, *arguments: str, timeout: float) -> bytes: ...

    async def change(self, name: str, /, *arguments: str, timeout: float) -> bytes: ...


def create(config: Config, resources: DriverResources) -> PowerFencer:
    return fencer(config, resources, Programs(resources.reactor, resources.clock))


def fencer(config: Config, resources: DriverResources, programs: Runs) -> PowerFencer:
    def usable() -> None:
        require(IPMITOOL)
        for name, host in config.hosts.items():
            if not host.password_file.is_file():
                raise Unusable(f"the password of {name} is not in {host.password_file}")

    controllers = {name: Chassis(host, config.timeout, programs) for name, host in config.hosts.items()}
    return PowerFencer(controllers, resources.clock, config.power_timeout, usable)


@frozen
class Chassis:
    options: HostOptions
    timeout: float
    programs: Runs

    @property
    def name(self) -> str:
        return f"ipmi {self.options.address}"

    async def is_on(self) -> bool:
        try:
            told = await self.programs.read(IPMITOOL, *self._arguments("status"), timeout=self.timeout)
        except ProgramFailed as error:
            raise Unreachable(f"{self.name} does not answer: {error.complaint}") from error
        state = STATES.get(told.decode("utf-8", "replace").strip())
        if state is None:
            raise Unreachable(f"{self.name} does not say how the power is")
        return state

    async def switch(self, on: bool) -> None:
        try:
            await self.programs.change(IPMITOOL, *self._arguments("on" if on else "off"), timeout=self.timeout)
        except ProgramFailed as error:
            raise DriverError(f"{self.name} refuses: {error.complaint}") from error

    def _arguments(self, what: str) -> tuple[str, ...]:
        told = self.options
        place = ("-I", "lanplus", "-H", told.address, "-p", str(told.port), "-U", told.user)
        return (*place, "-f", str(told.password_file), "chassis", "power", what)
