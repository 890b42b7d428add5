"""One host: its links and its rules follow from the records, whichever of them has changed.

A turn reads the current state and does what is missing: one `ip -batch -` and one `nft -f -` for all changes since the
last turn. Calls that come while a turn runs share the next one, so many ports at once take few turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.netns import links, rules, spoofing, tagging
from cloudctl.drivers.netns.kernel import Kernel
from cloudctl.drivers.netns.links import Found, Segment
from cloudctl.drivers.netns.names import Names
from cloudctl.drivers.netns.records import Network, Records
from cloudctl.drivers.netns.rules import FilteredPort, HostRules
from cloudctl.drivers.programs import ProgramFailed
from cloudctl.drivers.specs import NetworkSpec

_log = Logger()


@define(eq=False)
class Turns:
    """Runs `work` at least once after each call, never twice at the same time."""

    work: Callable[[], Awaitable[None]]
    _waiting: list[Deferred[None]] = field(factory=list)
    _runs: bool = False

    def next(self) -> Deferred[None]:
        """Fires with the result of the first turn that begins after this call."""
        waiter: Deferred[None] = Deferred()
        self._waiting.append(waiter)
        if not self._runs:
            self._runs = True
            Deferred.fromCoroutine(self._run())
        return waiter

    async def _run(self) -> None:
        while self._waiting:
            served, self._waiting = self._waiting, []
            failure = None
            try:
                await self.work()
            except Exception:  # any error goes to the callers that wait for this turn
                failure = Failure()
            # A caller that is answered now may call again at once.
            last = not self._waiting
            if last:
                self._runs = False
            for waiter in served:
                if failure is None:
                    waiter.callback(None)
                else:
                    waiter.errback(failure)
            if last:
                return


@define(eq=False)
class Host:
    """A host on this machine, in its network namespace."""

    name: str
    namespace: str
    kernel: Kernel
    names: Names
    records: Records
    hosts: Mapping[str, str | None]  # address of each for VXLAN; the first carries the networks' namespaces
    physical: Mapping[str, str]
    prepare: Callable[[], Awaitable[None]]  # prepares all hosts
    log_group: int = 0  # of nflog
    turns: Turns = field(init=False)
    _departing: set[str] = field(factory=set)  # names of links to remove
    _failed: dict[str, DriverError] = field(factory=dict)  # networks and ports that could not be made here, by id
    _flooded: set[str] = field(factory=set)  # networks whose tunnels are known to reach all hosts
    _tagging: dict[int, bytes] = field(factory=dict)  # number of a link → the program that this process attached to it
    _rules: str = ""  # as this process has applied them

    def __attrs_post_init__(self) -> None:
        self.turns = Turns(self._turn)

    @property
    def carries_namespaces(self) -> bool:
        return self.name == next(iter(self.hosts))

    def segment(self, spec: NetworkSpec) -> Segment:
        """Raises Unfit."""
        return links.segment(self.names, spec, self.name, self.hosts, self.physical)

    async def ensure(self, *ids: str) -> None:
        """The host is as the records say. Raises what prevented that for these objects, and ProgramFailed."""
        await self.turns.next()
        for id in ids:
            if id in self._failed:
                raise self._failed[id]

    async def ensure_links_absent(self, names: list[str]) -> None:
        self._departing.update(names)
        await self.turns.next()

    async def forget_flows(self, lines: list[str]) -> None:
        """See `flows.forget_lines`."""
        await self.kernel.forget(self.namespace, lines)

    async def links(self) -> Found:
        return await self.kernel.links(self.namespace)

    async def _turn(self) -> None:
        await self.prepare()
        found = await self.links()
        departing, self._departing = self._departing, set()
        try:
            if await self._remove(found, departing):
                found = await self.links()
        except DriverError:
            self._departing |= departing
            raise
        wanted = self._wanted()
        # A port must never be up without its rules: they come before its link and go after it.
        await self._ensure_rules(wanted)
        await self._ensure_links(found, wanted)
        await self._ensure_tags()

    async def _remove(self, found: Found, departing: set[str]) -> bool:
        """Whether there was anything to remove."""
        lines = [f"link del dev {name}" for name in sorted(departing) if name in found]
        for network in self.records.networks.values():
            if not self._has(network):
                lines += links.segment_removal(self.names, found, network.spec.id)
                self._flooded.discard(network.spec.id)
        await self.kernel.batch(self.namespace, lines)
        return bool(lines)

    def _has(self, network: Network) -> bool:
        """Whether the network is on this host: one of its ports is, or its namespace."""
        id = network.spec.id
        if self.carries_namespaces and self.kernel.has_namespace(self.names.network_namespace(id)):
            return True
        return self.name in self.records.hosts_of(id)

    def _wanted(self) -> dict[str, Segment]:
        self._failed.clear()
        wanted = {}
        for network in filter(self._has, self.records.networks.values()):
            try:
                wanted[network.spec.id] = self.segment(network.spec)
            except DriverError as error:
                self._failed[network.spec.id] = error
        return wanted

    async def _ensure_rules(self, wanted: Mapping[str, Segment]) -> None:
        if self.records.networks.rows:
            text = rules.ruleset(self.names.prefix, self._host_rules(wanted))
        else:
            # Nothing of ours is left that needs rules.
            text = rules.removal(self.names.prefix)
        if text == self._rules:
            return
        self._rules = ""
        try:
            await self.kernel.rules(self.namespace, text)
        except ProgramFailed as error:
            # The error quotes rules, which may belong to another project than the user who sees it.
            _log.error("host {name} did not apply its rules: {error}", name=self.name, error=error)
            raise DriverError(f"host {self.name} did not apply its rules; see the log") from error
        self._rules = text

    def _host_rules(self, wanted: Mapping[str, Segment]) -> HostRules:
        records = self.records
        members: dict[str, list[str]] = {}
        for port in records.ports.values():
            for group in port.spec.security_groups:
                members.setdefault(group, []).extend(spoofing.addresses(port.spec))
        return HostRules(
            zones={each.bridge: 0 if each.physical else records.networks.rows[id].index for id, each in wanted.items()},
            ports=[
                FilteredPort(self.names.tap(port.spec.id), port.index, port.spec)
                for port in records.ports_on(self.name)
            ],
            groups=records.groups.rows,
            members=members,
            log_group=self.log_group,
        )

    def _carried(self) -> dict[str, tuple[str, int]]:
        """Port that goes through another port's tap here → that other port, and the VLAN id."""
        here = self.records.ports_on(self.name)
        present = {port.spec.id for port in here}
        return {
            each.port_id: (port.spec.id, each.vlan)
            for port in here
            for each in port.spec.subports
            if each.port_id in present
        }

    async def _ensure_tags(self) -> None:
        """Frames pass between the taps of trunks and their subports."""
        carried = self._carried()
        if not carried and not self._tagging:
            return
        found = {} if self.kernel.programs.dry_run else await self.links()
        targets: dict[int, dict[int, int]] = {}
        wanted: dict[int, bytes] = {}
        for id, (parent_id, vlan) in carried.items():
            parent, other = found.get(self.names.tap(parent_id)), found.get(self.names.carried(id))
            if parent is not None and other is not None:
                wanted[other.index] = tagging.tag(vlan, parent.index)
                targets.setdefault(parent.index, {})[vlan] = other.index
        wanted |= {index: tagging.untag(of_parent) for index, of_parent in targets.items()}
        present = {link.index for link in found.values()}
        gone = [index for index in self._tagging if index not in wanted]
        for index in gone:
            if index in present:
                tagging.attach(self.namespace, index, b"")
            del self._tagging[index]
        for index, program in wanted.items():
            if self._tagging.get(index) != program:
                tagging.attach(self.namespace, index, program)
                self._tagging[index] = program

    async def _ensure_links(self, found: Found, wanted: Mapping[str, Segment]) -> None:
        plans = {id: self._segment_plan(found, id, segment) for id, segment in wanted.items()}
        carried = self._carried()
        for port in self.records.ports_on(self.name):
            segment_of = wanted.get(port.spec.network_id)
            if segment_of is not None and port.spec.network_id not in self._failed:
                plans[port.spec.id] = links.port_lines(
                    self.names, found, segment_of, port.spec, port.spec.id in carried
                )
        try:
            await self.kernel.batch(self.namespace, [line for plan in plans.values() for line in plan])
        except ProgramFailed:
            # One network or port fails. The others must not suffer from it.
            await self._ensure_each(wanted)
        await self._ensure_floods(found, wanted)

    async def _ensure_each(self, wanted: Mapping[str, Segment]) -> None:
        """The whole plan one by one, each part computed from the state at that moment."""
        for id, segment in wanted.items():
            await self._attempt(id, self._segment_plan(await self.links(), id, segment))
        carried = self._carried()
        for port in self.records.ports_on(self.name):
            segment_of = wanted.get(port.spec.network_id)
            if segment_of is not None:
                is_carried = port.spec.id in carried
                plan = links.port_lines(self.names, await self.links(), segment_of, port.spec, is_carried)
                await self._attempt(port.spec.id, plan)

    async def _attempt(self, id: str, plan: list[str]) -> None:
        try:
            await self.kernel.batch(self.namespace, plan)
        except ProgramFailed as error:
            self._failed[id] = error

    def _segment_plan(self, found: Found, id: str, segment: Segment) -> list[str]:
        try:
            return links.segment_lines(self.names, found, segment)
        except DriverError as error:
            self._failed[id] = error
            return []

    async def _ensure_floods(self, found: Found, wanted: Mapping[str, Segment]) -> None:
        new = {
            id: links.flood_lines(self.names, segment)
            for id, segment in wanted.items()
            if segment.tunnel_to
            and id not in self._failed
            and (id not in self._flooded or self.names.tunnel(id) not in found)
        }
        await self.kernel.batch(self.namespace, [line for each in new.values() for line in each], "bridge")
        self._flooded.update(new)
