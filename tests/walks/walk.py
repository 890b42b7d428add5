"""A walk: a cloud in memory, requests by chance, and what has been asked of it.

Everything follows from the seed and the mix: a walk is the same whenever it is made again.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

from attrs import frozen

from cloudctl.app import Cloud
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.testing.cloud import MemoryCloud, connection
from cloudctl.testing.http import Response
from tests.compute.asking import LATEST, V21
from tests.crash.stage import BACKENDS

V2, V3, IMAGES = "/networking/v2.0", "/volume/v3", "/image/v2/images"
NEWEST = {"OpenStack-API-Version": f"compute {LATEST}, volume 3.70"}
# What may disturb a walk. SOFT is no trouble, but deleted servers stay for a while.
CRASHES, FAULTS, HOSTS, HA, SOFT = "crashes", "faults", "hosts", "ha", "soft"
TROUBLES = (CRASHES, FAULTS, HOSTS, HA, SOFT)
RECLAIMED = 300.0  # seconds after which a server that was deleted softly is gone
MOSTLY = 0.8  # how often a request is made that is likely to be accepted, if there is one
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Mix = frozenset[str]
T = TypeVar("T")


@frozen
class Event:
    """A request and its answer, or what happened to the cloud."""

    at: float  # seconds since the walk began
    what: str
    status: int = 0  # 0: no request
    answer: str = ""  # of a refusal; of what was made, its id

    def __str__(self) -> str:
        return f"{self.at:8.2f} {self.what}" + (f" → {self.status} {self.answer}".rstrip() if self.status else "")


class Walk:
    """The cloud with two kinds of volumes, one user, and an administrator who does what that user may not."""

    def __init__(self, seed: int, mix: Mix) -> None:
        self.mix = mix
        self.chance = Random(f"walk {seed}")
        # No other test has this configuration: clouds are made once for each, with the ids that are made then.
        self.cloud = MemoryCloud({**BACKENDS, "compute": {"reclaim_instance_interval": RECLAIMED * (SOFT in mix)}})
        self.began = self.cloud.clock.seconds()
        self.events: list[Event] = []
        self.statuses: Counter[int] = Counter()
        self.segment = ""  # of instance HA

    def prepare(self) -> None:
        self.cloud.settle()
        self.private = self.named("private")
        self.public = self.named("public")
        self.image = str(self.shown(f"{IMAGES}?name=tiny", "images")[0]["id"])
        self._granted(self.ask("POST", f"{V3}/types", {"volume_type": {"name": "second"}}, admin=True))
        wishes = {"name": "consistent", "is_public": True}
        made = self._granted(self.ask("POST", f"{V3}/group_types", {"group_type": wishes}, admin=True))
        self.group_type = str(made["group_type"]["id"])
        specs = {"group_specs": {"consistent_group_snapshot_enabled": "<is> True"}}
        self._granted(self.ask("POST", f"{V3}/group_types/{self.group_type}/group_specs", specs, admin=True))

    def _granted(self, answer: Response) -> Any:
        assert answer.status < 300, answer
        return answer.json()

    # -- the cloud

    @property
    def service(self) -> Cloud:
        return self.cloud.cloud

    @property
    def hypervisor(self) -> FakeHypervisor:
        found = self.service.drivers.hypervisor
        assert isinstance(found, FakeHypervisor)
        return found

    @property
    def down(self) -> list[str]:
        """The hosts that are; a fencer may have turned off one that had returned."""
        return sorted(name for name, machine in self.hypervisor.machines.items() if not machine.up)

    @property
    def backends(self) -> list[FakeVolumeBackend]:
        drivers: Any = self.service.drivers
        return list(drivers.volume.at.values())

    @property
    def network(self) -> FakeNetworkBackend:
        found = self.service.drivers.network
        assert isinstance(found, FakeNetworkBackend)
        return found

    @property
    def fakes(self) -> list[FakeHypervisor | FakeVolumeBackend | FakeNetworkBackend]:
        return [self.hypervisor, *self.backends, self.network]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection(self.service).execute(query)]

    # -- chance

    def pick(self, among: Sequence[T]) -> T | None:
        return self.chance.choice(among) if among else None

    def pick_mostly(self, among: Sequence[T], which: Callable[[T], bool]) -> T | None:
        """One of those `which` are likely to fit, if there are some; now and then any."""
        fitting = [each for each in among if which(each)]
        return self.pick(fitting) if fitting and self.often(MOSTLY) else self.pick(among)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    # -- requests

    def ask(
        self, method: str, path: str, body: Any = None, *, admin: bool = False, ha: bool = False, noted: bool = True
    ) -> Response:
        client = self.cloud.client("admin" if admin else "demo")
        answer = client.request(method, path, body, headers=NEWEST, ha=ha)
        self.statuses[answer.status] += 1
        if noted or answer.status >= 500:
            sent = "" if body is None else f" {json.dumps(body)}"
            self.events.append(Event(self._now(), f"{method} {path}{sent}", answer.status, _told(answer)))
        return answer

    def happened(self, what: str) -> None:
        self.events.append(Event(self._now(), what))

    def _now(self) -> float:
        return self.cloud.clock.seconds() - self.began

    def shown(self, path: str, key: str, *, admin: bool = False, ha: bool = False) -> list[dict[str, Any]]:
        """What a list has."""
        answer = self.ask("GET", path, admin=admin, ha=ha, noted=False)
        assert answer.status == 200, answer
        return list(answer.json()[key])

    def named(self, network: str) -> str:
        return str(self.shown(f"{V2}/networks?name={network}", "networks")[0]["id"])

    def servers(self) -> list[dict[str, Any]]:
        return self.shown(f"{V21}/servers/detail", "servers")

    def volumes(self, status: str | None = None) -> list[dict[str, Any]]:
        found = self.shown(f"{V3}/volumes/detail", "volumes")
        return [each for each in found if status in (None, each["status"])]

    def ports(self, *, free: bool = False) -> list[dict[str, Any]]:
        """Those that are not a router's own; `free`: and no server's."""
        found = self.shown(f"{V2}/ports", "ports")
        of_users = [each for each in found if not each["device_owner"].startswith("network:")]
        return [each for each in of_users if not (free and each["device_id"])]


Action = Callable[[Walk], object]
Actions = Sequence[tuple[float, Action]]  # each with how often it is chosen
Body = Callable[[Walk], Any]  # of a request


def nothing(_walk: Walk) -> None:
    return None


def always(body: Any) -> Body:
    return lambda _walk: body


def steps(walk: Walk, count: int, actions: Iterable[tuple[float, Action]]) -> None:
    weights, functions = zip(*actions, strict=True)
    for _ in range(count):
        (function,) = walk.chance.choices(functions, weights)
        function(walk)


@contextmanager
def seeded(by: str) -> Iterator[None]:
    """Ids, MAC addresses, segments and back-offs follow from `by`; afterwards they are left to chance again."""
    ids, before = Random(f"ids of {by}"), random.getstate()
    random.seed(by)
    try:
        with patch("uuid.uuid4", lambda: UUID(int=ids.getrandbits(128), version=4)):
            yield
    finally:
        random.setstate(before)


def _told(answer: Response) -> str:
    if answer.status >= 400:
        return answer.body.decode(errors="replace")[:200]
    if answer.status == 204 or not answer.body:
        return ""
    (value, *_others) = answer.json().values()
    return str(value.get("id", "")) if isinstance(value, dict) else ""
