"""All that may go wrong at once: hosts die together, all vanish, one flaps, the database goes, processes are killed.

It takes minutes, so it is run when it is asked for: CONTRIBUTING.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import define
from sqlalchemy.engine import make_url

from cloudctl.instance_ha.kinds import OF_HOST, RECOVER
from tests.live import cluster as clusters
from tests.live import gates
from tests.live.cluster import Admin, Cluster, a_cluster, until
from tests.live.line import Line, no_line
from tests.live.machine import Machine
from tests.live.recovery import Ha, Plugs, comes_back, never_twice, service, starts_again
from tests.live.tenant import Tenant
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

ASKED_FOR = "CLOUDCTL_TEST_CLUSTER_TROUBLE"
NAMES = ("east", "north", "west", "south")
AWAY = 30.0  # seconds
TOML = """
[driver.fencer.plug]
directory = "{plugs}"
[instance_ha]
unknown_silence = 12.0
unknown_interval = 2.0
fencing_interval = 1.0
cliff_window = 20.0
duplicate_notification_detection_interval = 5.0
process_unfinished_notifications_interval = 10.0
host_tasks = [
    "pause_1", "disable_compute_service", "pause_2", "fence_host", "pause_3", "prepare_HA_enabled_instances", "pause_4",
    "evacuate_instances", "pause_5",
]
"""
# Between two phases a recovery waits as long as there is a file `held`, until there is one that lets it go on.
PAUSES = range(1, 6)
PLUGIN = """
from cloudctl.instance_ha.recovery import RecoveryTask
"""
EACH = 'p{0} = RecoveryTask("pause_{0}", "Pause{0}", "pauses_of_the_tests:pause_{0}")\n'
MODULE = """
from pathlib import Path
from cloudctl.tasks import Wait

DIRECTORY = Path(__file__).parent / "pauses"

def pause(number):
    async def wait(recovery):
        (DIRECTORY / f"at-{number}").touch()
        held = (DIRECTORY / "held").exists() and not (DIRECTORY / f"go-{number}").exists()
        return Wait(0.2) if held else None
    return wait

pause_1, pause_2, pause_3, pause_4, pause_5 = map(pause, range(1, 6))
"""


@pytest.fixture
def plugs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugs:
    made = Plugs.made(tmp_path, monkeypatch)
    (tmp_path / "twisted" / "plugins" / "pauses_plugin.py").write_text(PLUGIN + "".join(map(EACH.format, PAUSES)))
    (tmp_path / "pauses_of_the_tests.py").write_text(MODULE)
    (tmp_path / "pauses").mkdir()
    return made


@pytest.fixture
def line(postgresql_url: str) -> Iterator[Line]:
    if not os.environ.get(ASKED_FOR):
        pytest.skip(f"it takes minutes: {ASKED_FOR} runs it")
    need(clusters.lacking() or no_line(), HOST)
    url = make_url(postgresql_url)
    made = Line(f"{url.host}:{url.port or 5432}")
    made.mend()
    yield made
    made.cut()


@pytest.fixture
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgresql_url: str, line: Line, plugs: Plugs
) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("trouble")
    (directory / "disks").mkdir()
    url = make_url(postgresql_url).set(host="127.0.0.1", port=line.port).render_as_string(hide_password=False)
    more = TOML.format(plugs=plugs.directory)
    with a_cluster(directory, url, NAMES, disks=str(directory / "disks"), fencer="plug", more=more) as made:
        for name in made.hosts:
            plugs.put_in(made, name)
        yield made


@define(eq=False)
class Trouble:
    cluster: Cluster
    plugs: Plugs
    line: Line
    machines: dict[str, Machine]
    guests: Sequence[str]
    members: dict[str, str]

    @property
    def admin(self) -> Admin:
        """Processes may have been killed, and their connections with them."""
        return Admin(self.cluster.connection(self.cluster.processes[0]))

    @property
    def ha(self) -> Ha:
        return Ha(self.cluster)

    def where(self) -> list[str]:
        """The hosts of the guests, each of which is on, and on no other host."""
        admin, found = self.admin, []
        for id in self.guests:
            admin.settled(id, "ACTIVE")
            host = str(admin.server(id).compute_host)
            until(f"{host} alone has {id}", lambda id=id, host=host: self.cluster.having(id) == {host: True})  # type: ignore[misc]  # both are bound
            found.append(host)
        return found

    def loses(self, *hosts: str) -> None:
        """Their power."""
        for host in hosts:
            self.machines[host].end()
        for host in hosts:
            del self.cluster.hosts[host]

    def returns(self, *hosts: str) -> None:
        for host in hosts:
            comes_back(self.admin, self.ha, self.plugs, self.members[host], self.machines[host], *self.guests)

    def killed(self) -> None:
        """All processes, at once; they are started again."""
        for each in self.cluster.processes:
            each.kill()
        for each in self.cluster.processes:
            each.start(wait=False)
        for each in self.cluster.processes:
            each.wait(time.monotonic())


def test_no_guest_is_lost_or_runs_twice_whatever_goes_at_once(cluster: Cluster, plugs: Plugs, line: Line) -> None:
    """One story, for one cluster is made for all of it."""
    admin = Admin(cluster.connection(cluster.processes[0]))
    admin.knows(len(NAMES) + 1)
    for each in admin.cloud.compute.services():
        if each.binary == "nova-compute" and each.host not in NAMES:
            # It has no guests of this kind.
            admin.cloud.compute.disable_service(each)
    tenant = Tenant.moved_in(cluster, admin)
    guests = [admin.boot(host, tenant.image, tenant.flavor) for host in ("east", "north")]
    trouble = Trouble(cluster, plugs, line, dict(cluster.hosts), guests, Ha(cluster).watched(NAMES))
    assert trouble.where() == ["east", "north"]
    pieces = two_at_once, a_cliff_of_all, one_that_flaps, without_a_database, killed_in_every_phase, killed_inside
    for piece in pieces:
        began = time.monotonic()
        with never_twice(*guests):
            piece(trouble)
        print(f"{piece.__name__}: {time.monotonic() - began:.0f} s")


def two_at_once(trouble: Trouble) -> None:
    trouble.loses("east", "north")
    for host in ("east", "north"):
        trouble.ha.told(host, "finished")
    assert set(trouble.where()) <= {"west", "south"}
    trouble.returns("east", "north")


def a_cliff_of_all(trouble: Trouble) -> None:
    """It is our network's fault. Nobody is fenced, guests go on, and all is as before once it is mended."""
    where = trouble.where()
    trouble.plugs.forget()
    for machine in trouble.machines.values():
        machine.cut()

    def is_held(host: str) -> bool:
        return "vanished at once" in str((trouble.ha.open_of(host) or {}).get("message"))

    for host in NAMES:
        until(f"{host} is held", lambda host=host: is_held(host))  # type: ignore[misc]  # it is bound
    assert [trouble.cluster.having(id) for id in trouble.guests] == [{host: True} for host in where]
    for machine in trouble.machines.values():
        machine.mend()
    for host in NAMES:
        trouble.ha.told(host, "ignored")
    assert not trouble.plugs.was_asked() and trouble.where() == where
    admin = trouble.admin
    for host in NAMES:
        until(f"{host} is up", lambda host=host: service(admin, host).state == "up")  # type: ignore[misc]  # it is bound
        assert service(admin, host).status == "enabled"


def one_that_flaps(trouble: Trouble) -> None:
    """It is away for less than it takes to be taken for dead."""
    where, admin = trouble.where(), trouble.admin
    host = where[0]
    before = trouble.ha.open_of(host)
    for _ in range(3):
        trouble.machines[host].cut()
        until(f"{host} is missed", lambda: service(admin, host).state == "down")
        trouble.machines[host].mend()
        until(f"{host} is up", lambda: service(admin, host).state == "up")
    found = trouble.ha.open_of(host)
    assert found == before or (found is not None and found["status"] == "ignored"), found
    assert not trouble.plugs.was_asked() and trouble.where() == where
    assert service(admin, host).status == "enabled"


def without_a_database(trouble: Trouble) -> None:
    """A host dies meanwhile. Nobody is fenced by who does not know; then it is as ever."""
    host = trouble.where()[0]
    trouble.line.cut()
    trouble.loses(host)
    time.sleep(AWAY)
    assert not trouble.plugs.was_asked()
    trouble.line.mend()
    again = time.monotonic()
    until("an answer", lambda: answers(trouble))
    trouble.ha.told(host, "finished")
    print(f"recovered {time.monotonic() - again:.1f} s after the database was there again")
    assert host not in trouble.where()
    trouble.returns(host)


def answers(trouble: Trouble) -> Any:
    try:
        return trouble.ha.ask("GET", "/notifications") is not None
    except (AssertionError, OSError):
        return False  # it has not found that the database is there again


def killed_in_every_phase(trouble: Trouble) -> None:
    """Of a recovery, and of the way back."""
    host = trouble.where()[0]
    directory = trouble.plugs.directory.parent / "pauses"
    for file in directory.iterdir():
        file.unlink()
    (directory / "held").touch()
    trouble.loses(host)
    for number in PAUSES:
        until(f"it has come to {number}", (directory / f"at-{number}").exists)
        trouble.killed()
        (directory / f"go-{number}").touch()
        if number == PAUSES[-2]:
            until("a guest is on its way", lambda: begun(trouble.cluster))
            trouble.killed()
    trouble.ha.told(host, "finished")
    assert host not in trouble.where()
    trouble.ha.ask("PUT", trouble.members[host], {"host": {"on_maintenance": False}})
    trouble.killed()
    until(f"{host} gets its power", lambda: trouble.plugs.is_on(host))
    trouble.killed()
    assert service(trouble.admin, host).status == "disabled"
    starts_again(trouble.admin, trouble.cluster, trouble.plugs, trouble.machines[host])
    assert not any(host in trouble.cluster.having(id) for id in trouble.guests)


def killed_inside(trouble: Trouble) -> None:
    """Of a host that only its cable keeps away: its guest goes on until somebody takes its power. Whoever did so dies
    before a proof is written, and so does who has written it, and who has planned what goes where; each time nothing
    says yet that it is done.
    """
    host, database, plugs = trouble.where()[0], trouble.cluster.database, trouble.plugs
    gates.make(database)
    plugs.forget_off()
    with gates.closed(database, RECOVER[OF_HOST].name, "prepare_HA_enabled_instances") as planned:
        with gates.closed(database, RECOVER[OF_HOST].name, "fence_host") as proven:
            with plugs.being("slow"):
                trouble.machines[host].cut()
                for _ in range(2):
                    until(f"{host} has no power", lambda: plugs.is_off(host))
                    trouble.killed()
                    plugs.forget_off()
            until("there is a proof", lambda: proven.holds)
            trouble.killed()
        until("it is known who goes where", lambda: planned.holds)
        trouble.killed()
    trouble.ha.told(host, "finished")
    trouble.cluster.hosts.pop(host).end()
    assert host not in trouble.where()
    trouble.returns(host)


def begun(cluster: Cluster) -> bool:
    with psycopg.connect(cluster.database) as connection:
        sought = "SELECT count(*) FROM tasks WHERE kind = 'compute.server.evacuate' AND ended_at IS NULL"
        row = connection.execute(sought).fetchone()
    return row is not None and row[0] > 0
