"""The fencer `redfish`: DMTF DSP0266, ComputerSystem.Reset, over HTTPS with basic authentication."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson
from attrs import field, frozen
from OpenSSL import crypto
from treq.client import HTTPClient
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.internet.error import ConnectError, ConnectionClosed, DNSLookupError
from twisted.internet.ssl import Certificate, trustRootFromCertificates
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, RequestTransmissionFailed, ResponseFailed
from twisted.web.http_headers import Headers

from cloudctl.drivers.answers import body
from cloudctl.drivers.errors import DriverError, Unreachable, Unusable
from cloudctl.drivers.power import PowerFencer
from cloudctl.drivers.specs import DriverResources
from cloudctl.options import parts_of, positive

# A name that does not resolve is an OSError, but not a ConnectError.
TROUBLE = (
    ConnectError,
    ConnectionClosed,
    DNSLookupError,
    RequestTransmissionFailed,
    ResponseFailed,
    TimeoutError,
    CancelledError,
)
RESET = "#ComputerSystem.Reset"
LIMIT = 1 << 20  # bytes of an answer; what exceeds it is dropped


def is_system(_instance: object, _attribute: Any, value: str) -> None:
    parts = urlsplit(value)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or not parts.path.strip("/"):
        raise ValueError("must be the URL of a system: https://10.0.0.1/redfish/v1/Systems/1")
    parts_of(value)


@frozen
class HostOptions:
    """`[driver.fencer.redfish.hosts.NAME]`"""

    url: str = field(validator=is_system)
    user: str
    # A file whose first line is the password.
    password_file: Path


@frozen
class Config:
    """`[driver.fencer.redfish]`"""

    hosts: dict[str, HostOptions] = field(factory=dict)  # by the names that the hypervisor gives them
    ca_file: str = ""  # authorities that sign the controllers' certificates; empty: those that the system trusts
    timeout: float = field(default=10.0, validator=positive)  # seconds, for one answer
    power_timeout: float = field(default=60.0, validator=positive)  # seconds until a host is off


def create(config: Config, resources: DriverResources) -> PowerFencer:
    def usable() -> None:
        for name, host in config.hosts.items():
            password(host, name)
        policy(config)

    controllers = {name: System(name, host, config, resources.reactor) for name, host in config.hosts.items()}
    return PowerFencer(controllers, resources.clock, config.power_timeout, usable)


def password(host: HostOptions, name: str) -> str:
    """Raises Unusable."""
    try:
        return host.password_file.read_text().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"the password of {name} cannot be read: {error}") from error


def policy(config: Config) -> BrowserLikePolicyForHTTPS:
    """Which controllers are to be trusted. Raises Unusable."""
    if not config.ca_file:
        return BrowserLikePolicyForHTTPS()
    marker = b"-----BEGIN CERTIFICATE-----"
    try:
        parts = Path(config.ca_file).read_bytes().split(marker)[1:]
        found = [Certificate.loadPEM(marker + each) for each in parts]
    except (OSError, crypto.Error) as error:
        raise Unusable(f"ca_file {config.ca_file} cannot be read: {error}") from error
    if not found:
        raise Unusable(f"ca_file {config.ca_file} has no certificates")
    return BrowserLikePolicyForHTTPS(trustRootFromCertificates(found))


@frozen
class System:
    """One host, as its management controller shows it."""

    host: str
    options: HostOptions
    config: Config
    reactor: Any

    @property
    def name(self) -> str:
        return f"redfish {self.options.url}"

    async def is_on(self) -> bool:
        state = (await self._system()).get("PowerState")
        if state not in ("On", "Off"):
            raise Unreachable(f"{self.name} says that the power is {state!r}")
        return bool(state == "On")

    async def switch(self, on: bool) -> None:
        action = (await self._system()).get("Actions", {}).get(RESET, {})
        target = urljoin(self.options.url, str(action.get("target", "")))
        if not action or urlsplit(target).netloc != urlsplit(self.options.url).netloc:
            raise DriverError(f"{self.name} offers no reset")
        await self._ask("POST", target, {"ResetType": "On" if on else "ForceOff"})

    async def _system(self) -> dict[str, Any]:
        found = await self._ask("GET", self.options.url)
        if not isinstance(found, dict):
            raise DriverError(f"{self.name} is not a Redfish system")
        return found

    async def _ask(self, method: str, url: str, told: Any = None) -> Any:
        # A new connection for each call: calls are rare, and an old connection may be dead.
        client = HTTPClient(Agent(self.reactor, policy(self.config), connectTimeout=self.config.timeout))
        try:
            answer = await client.request(
                method,
                url,
                json=told,
                auth=(self.options.user, password(self.options, self.host)),
                headers=Headers({"Accept": ["application/json"]}),
                allow_redirects=False,
                timeout=self.config.timeout,
                unbuffered=True,
            )
            text = await body(answer, LIMIT).addTimeout(self.config.timeout, self.reactor)
        except TROUBLE as error:
            raise Unreachable(f"{self.name} does not answer: {error or type(error).__name__}") from error
        if answer.code in (401, 403):
            raise DriverError(f"{self.name} refuses user {self.options.user} ({answer.code})")
        if answer.code >= 500 or answer.code == 429:
            raise Unreachable(f"{self.name} cannot answer now ({answer.code})")
        if answer.code >= 300:
            raise DriverError(f"{self.name} refuses {method} {urlsplit(url).path} ({answer.code})")
        return _json(text, self.name) if text else None


def _json(text: bytes, name: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DriverError(f"{name} does not speak JSON: {error}") from error
