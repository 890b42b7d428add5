"""Several hypervisors as one: each call goes to the driver that has the guest's host.

The drivers report which hosts they have; `places` returns the hosts that a guest may be on. The hosts of a driver that
does not answer are shown as down, and calls for guests of other drivers do not wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.logger import Logger
from zope.interface import Interface, alsoProvides

from cloudctl.drivers.boundary import methods
from cloudctl.drivers.errors import DriverError, HostDown, Unfit, UnknownGuest, UnknownHost
from cloudctl.drivers.interfaces import CAPABILITIES, IGuestEvents, IHypervisor, ILiveMigrate
from cloudctl.drivers.specs import GuestSpec, GuestState, HostInventory
from cloudctl.drivers.together import all_of
from cloudctl.trouble import Trouble

log = Logger()

# Guest id → the hosts that it may be on: where it is to be, then those that it has not left yet.
Places = Callable[[str], Awaitable[Sequence[str]]]

# Useful even if only some drivers have it: guests of the others are audited, and stay where they are.
OF_SOME = (IGuestEvents, ILiveMigrate)


def as_one(at: Mapping[str, IHypervisor], places: Places) -> IHypervisor:
    """`at`: name → driver. The result has the capabilities that all of them have, and those `OF_SOME`."""
    return cast(IHypervisor, Hypervisors(dict(at), places))


async def out_of_reach(hypervisor: IHypervisor, host: str) -> frozenset[str]:
    """The hosts that no guest of `host` can move to, because another driver has them."""
    # Asked for what it can, not for its class: it may be wrapped.
    others: Callable[[str], Awaitable[frozenset[str]]] | None = getattr(hypervisor, "with_others_than", None)
    return frozenset() if others is None else await others(host)


@define(eq=False, slots=False)
class Hypervisors:
    """A call without a method here concerns one guest, the id in its first argument: it goes to its driver."""

    at: Mapping[str, IHypervisor]
    places: Places
    _hosts: dict[str, str] = field(factory=dict)  # host → the name of its driver
    _last: dict[str, tuple[HostInventory, ...]] = field(factory=dict)  # by the names of drivers
    _troubles: dict[tuple[str, str], Trouble] = field(factory=dict)  # by what is unknown, and of which driver

    def __attrs_post_init__(self) -> None:
        for capability in CAPABILITIES["hypervisor"]:
            having = [capability.providedBy(each) for each in self.at.values()]
            if all(having) or (capability in OF_SOME and any(having)):
                alsoProvides(self, capability)
                for name in methods(capability):
                    if not hasattr(self, name):
                        setattr(self, name, partial(self._routed, capability, name))

    async def check(self) -> None:
        for each in self.at.values():
            await each.check()

    async def close(self) -> None:
        for each in self.at.values():
            await each.close()

    # -- of all together

    async def hosts(self) -> tuple[HostInventory, ...]:
        """The hosts of a driver that does not answer are down."""
        for driver, answer in (await self._of_each("hosts")).items():
            if isinstance(answer, Exception):
                self._unknown("hosts", driver).is_met(answer)
                self._last[driver] = tuple(evolve(host, up=False) for host in self._last.get(driver, ()))
            else:
                self._unknown("hosts", driver).is_over()
                self._last[driver] = answer
        found: dict[str, HostInventory] = {}
        self._hosts = {}
        for driver, inventory in self._last.items():
            for host in inventory:
                if host.name in found:
                    having = self._hosts[host.name]
                    log.error("hypervisors {one} and {two} both have a host {host}; the first one keeps it",
                              one=having, two=driver, host=host.name)  # fmt: skip
                else:
                    found[host.name], self._hosts[host.name] = host, driver
        return tuple(found[name] for name in sorted(found))

    async def inventory(self) -> tuple[GuestState, ...]:
        """Of a guest that several hosts have, the valid one is on the host where it is to be."""
        found: dict[str, list[GuestState]] = {}
        for driver, answer in (await self._of_each("inventory")).items():
            if isinstance(answer, Exception):
                self._unknown("guests", driver).is_met(answer)
                continue
            self._unknown("guests", driver).is_over()
            for state in answer:
                found.setdefault(state.id, []).append(state)
        for id in (id for id, states in found.items() if len(states) > 1):
            meant = (await self.places(id))[:1]
            found[id].sort(key=lambda state: state.host in meant)
        return tuple(state for id in sorted(found) for state in found[id])

    async def with_others_than(self, host: str) -> frozenset[str]:
        """The hosts of all drivers but the one that has this host."""
        await self.hosts()
        mine = self._hosts.get(host)
        return frozenset(name for name, driver in self._hosts.items() if driver != mine)

    async def watch_guests(self, changed: Callable[[str], None]) -> None:
        """Raises what the first driver raises that cannot watch; the others do."""
        failures = []
        for each in self.at.values():
            if IGuestEvents.providedBy(each):
                try:
                    await cast(Any, each).watch_guests(changed)
                except Exception as error:  # whatever one driver meets, guests of the others are watched
                    failures.append(error)
        if failures:
            raise failures[0]

    async def ensure_absent(self, id: str) -> None:
        """Asks all drivers: an interrupted move may have left something anywhere."""
        answers = await self._of_each("ensure_absent", id)
        # A host that is down may be passed over, which must not hide another trouble.
        for error in sorted(answers.values(), key=lambda each: isinstance(each, HostDown)):
            if isinstance(error, Exception):
                raise error

    def _unknown(self, what: str, driver: str) -> Trouble:
        whose = f"the {what} of hypervisor {driver} are"
        return self._troubles.setdefault((what, driver), Trouble(log, f"{whose} unknown", f"{whose} known again"))

    async def _of_each(self, method: str, *args: Any) -> dict[str, Any]:
        """Name → the driver's answer, or the error that it raised; all are called at the same time."""

        async def asked(name: str, driver: IHypervisor) -> Any:
            try:
                return await getattr(driver, method)(*args)
            except CancelledError:
                raise
            except DriverError as error:
                return error
            except Exception as error:  # a fault of this driver, of which guests of the others know nothing
                log.failure("hypervisor {driver} failed to answer {method}", driver=name, method=method)
                return error

        asking = [ensureDeferred(asked(name, each)) for name, each in self.at.items()]
        return dict(zip(self.at, await all_of(asking), strict=True))

    # -- of one guest

    async def ensure_defined(self, spec: GuestSpec) -> None:
        """Raises Unfit for a guest whose disk another driver has, which this one cannot read."""
        name = await self._driver_of(spec.host)
        for other in await self._may_have(spec.id):
            if other != name and await self._has(other, spec.id):
                raise Unfit(f"guest {spec.id} cannot move to {spec.host}: it is with hypervisor {other}, not {name}")
        await self.at[name].ensure_defined(spec)

    async def _has(self, name: str, id: str) -> bool:
        """False if its host is down: then the guest is recreated."""
        try:
            await self.at[name].observe(id)
        except (UnknownGuest, HostDown):
            return False
        return True

    async def ensure_migrated(self, spec: GuestSpec, disks: bool | None = None) -> None:
        name = await self._driver_of(spec.host)
        if name != await self._where(spec.id):
            raise Unfit(f"guest {spec.id} cannot move to {spec.host}: its hypervisor is another one")
        await self._having(name, ILiveMigrate).ensure_migrated(spec, disks)

    async def _routed(self, capability: type[Interface], method: str, id: str, *args: Any, **kwargs: Any) -> Any:
        return await getattr(self._having(await self._where(id), capability), method)(id, *args, **kwargs)

    def _having(self, name: str, capability: type[Interface]) -> Any:
        driver = self.at[name]
        if not capability.providedBy(driver):
            raise Unfit(f"hosts of hypervisor {name} cannot do this")
        return driver

    async def _where(self, id: str) -> str:
        """The name of the driver of a guest. Raises UnknownGuest, HostDown."""
        names = await self._may_have(id)
        if len(names) == 1:
            return names[0]
        for name in names:
            if await self._has(name, id):
                return name
        answers = await self._of_each("observe", id)
        for name, answer in answers.items():
            if not isinstance(answer, Exception):
                return name
        # A driver that is down may have it.
        raise next((each for each in answers.values() if not isinstance(each, UnknownGuest)), UnknownGuest(id))

    async def _may_have(self, id: str) -> list[str]:
        """Names of drivers, the likeliest first."""
        hosts = await self.places(id)
        if any(host not in self._hosts for host in hosts):
            await self.hosts()
        return list(dict.fromkeys(self._hosts[host] for host in hosts if host in self._hosts))

    async def _driver_of(self, host: str) -> str:
        """Raises UnknownHost."""
        if host not in self._hosts:
            await self.hosts()
        if host not in self._hosts:
            raise UnknownHost(host)
        return self._hosts[host]
