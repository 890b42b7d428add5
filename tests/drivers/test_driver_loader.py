"""From a name in the configuration to a driver, and every way in which that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from twisted import plugins
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.interfaces import IDriver, IHypervisor, INetworkBackend, IVolumeBackend
from cloudctl.drivers.loader import available, check, failed_plugins, load
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError

RESOURCES = DriverResources(clock=Clock(), name="test")


def problems(*arguments: Any) -> Any:
    with pytest.raises(ConfigError) as caught:
        cast(Any, load)(*arguments, RESOURCES)
    return caught.value.problems


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Install a third party's plugin file and driver module: `plugin(plugin_source, **module_sources)`."""
    folder = tmp_path / "twisted" / "plugins"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "__path__", [str(folder), *plugins.__path__])
    modules = set(sys.modules)

    def install(source: Any, **others: Any) -> None:
        (folder / "someone_elses.py").write_text(source)
        for name, text in others.items():
            (tmp_path / f"{name}.py").write_text(text)

    yield install
    for name in set(sys.modules) - modules:
        if name == "twisted.plugins.someone_elses" or name.startswith("example_"):
            del sys.modules[name]


MAKER = """
from cloudctl.drivers.maker import DriverMaker
mine = DriverMaker("volume", "mine", "example_mine", "Volumes of mine")
"""

DRIVER = """
from attrs import frozen
from zope.interface import implementer
from cloudctl.drivers.interfaces import IVolumeBackend

@frozen
class Config:
    address: str

@implementer(IVolumeBackend)
class Mine:
    def check(self): pass
    def close(self): pass
    def capacity(self): pass
    def inventory(self): return ()
    def observe(self, id): pass
    def ensure_created(self, spec): pass
    def ensure_extended(self, id, size_gib): pass
    def ensure_absent(self, id): pass
    def connect(self, id, host): pass
    def disconnect(self, id, host): pass

def create(config, resources):
    driver = Mine()
    driver.given = config, resources
    return driver
"""


def test_the_bundled_drivers_load_with_an_empty_table() -> None:
    assert isinstance(load("hypervisor", "fake", {}, RESOURCES), FakeHypervisor)
    assert IVolumeBackend.providedBy(load("volume", "fake", {}, RESOURCES))
    assert INetworkBackend.providedBy(load("network", "fake", {}, RESOURCES))


async def test_options_reach_the_driver() -> None:
    driver = load("hypervisor", "fake", {"hosts": 2, "vcpus": 7, "delays": {"observe": 1}}, RESOURCES)
    assert [(host.name, host.vcpus) for host in await driver.hosts()] == [("test-1", 7), ("test-2", 7)]
    assert cast(Any, driver).behaviour.delays == {"observe": 1.0}


def test_all_wrong_options_are_told_at_once() -> None:
    table = {"hosts": "three", "vcpus": 0, "durabel": True, "delays": {"ensure_runing": 1}}
    found = problems("hypervisor", "fake", table)
    assert [line.partition(": ")[0].removeprefix("driver.hypervisor.fake.") for line in found] == [
        "durabel", "hosts", "vcpus", "delays",
    ]  # fmt: skip
    assert "unknown methods: ensure_runing; valid methods: check, close" in found[3]


def test_more_fake_hosts_than_memory_has_room_for_are_refused() -> None:
    (found,) = problems("hypervisor", "fake", {"hosts": 10**9})
    assert found.startswith("driver.hypervisor.fake.hosts: ") and "10000" in found


@pytest.mark.parametrize(
    ("kind", "name", "table", "problem"),
    [
        ("objects", "s3", {}, "the driver needs an endpoint (http:// or https://) and a bucket"),
        (
            "objects",
            "s3",
            {"endpoint": "https:///x", "bucket": "b"},
            "is not an address: 'https:///x' names no host",
        ),
        ("objects", "file", {}, "the driver needs a directory"),
        (
            "network",
            "netns",
            {"hosts": {"a": "a", "b": "b", "c": "c"}, "underlay": "10.0.0.0/30"},
            "the underlay 10.0.0.0/30 has no room for 3 hosts",
        ),
    ],
)
def test_options_that_do_not_go_together_are_told(kind: str, name: str, table: Any, problem: str) -> None:
    assert problems(kind, name, table) == [f"driver.{kind}.{name}: {problem}"]


def test_available_lists_by_kind_and_name() -> None:
    have = [(each.kind, each.name) for each in available() if each.name == "fake"]
    assert have == [("fencer", "fake"), ("hypervisor", "fake"), ("network", "fake"), ("volume", "fake")]
    assert {each.kind for each in available("volume")} == {"volume"}
    assert all(each.description for each in available())


def test_an_unknown_name_says_what_there_is() -> None:
    assert problems("network", "ofn", {}) == ["driver.network.ofn: unknown driver; available drivers: fake, netns, ovn"]
    assert failed_plugins() == {}


async def test_a_third_partys_blocking_driver_is_found_and_can_be_awaited(plugin: Any) -> None:
    plugin(MAKER, example_mine=DRIVER)
    driver = load("volume", "mine", {"address": "::1"}, RESOURCES)
    assert await driver.inventory() == ()
    given = cast(Any, driver).given
    assert (given[0].address, given[1]) == ("::1", RESOURCES)


def test_a_driver_that_lacks_a_method_is_refused(plugin: Any) -> None:
    plugin(MAKER, example_mine=DRIVER.replace("    def disconnect(self, id, host): pass\n", ""))
    [problem] = problems("volume", "mine", {"address": "::1"})
    assert problem.startswith("driver.volume.mine: ") and "disconnect" in problem


def test_a_driver_that_declares_nothing_is_refused(plugin: Any) -> None:
    plugin(MAKER, example_mine=DRIVER.replace("@implementer(IVolumeBackend)\n", ""))
    assert problems("volume", "mine", {"address": "::1"}) == [
        "driver.volume.mine: Mine does not declare IVolumeBackend"
    ]


def test_a_module_that_cannot_be_imported_is_told(plugin: Any) -> None:
    plugin(MAKER, example_mine="import libnothing")
    assert problems("volume", "mine", {}) == [
        "driver.volume.mine: cannot be imported: ModuleNotFoundError: No module named 'libnothing'"
    ]


def test_two_drivers_of_one_name_are_refused(plugin: Any) -> None:
    plugin(MAKER + MAKER.replace("mine =", "yours ="), example_mine=DRIVER)
    [problem] = problems("volume", "mine", {"address": "::1"})
    assert problem.startswith("driver.volume.mine: 2 plugins have this name: ") and "example_mine" in problem


NOT_FOUND = """
from twisted.internet.task import Clock
from cloudctl.drivers.loader import load
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
try:
    load("volume", "mine", {}, DriverResources(clock=Clock(), name="test"))
except ConfigError as error:
    [problem] = error.problems
    print(problem)
"""


def python(source: Any, *path: Any) -> Any:
    """What a new process prints. Twisted logs a broken plugin as an error, which would fail a test in this one."""
    root = Path(__file__).parents[2]
    environment = {"PYTHONPATH": ":".join(map(str, (root, *path)))}
    return subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_an_unknown_name_says_which_plugins_failed(tmp_path: Path) -> None:
    folder = tmp_path / "twisted" / "plugins"
    folder.mkdir(parents=True)
    (folder / "someone_elses.py").write_text("import libnothing\n" + MAKER)
    assert python(NOT_FOUND, tmp_path).strip() == (
        "driver.volume.mine: unknown driver; available drivers: fake, nbd, qcow2, rbd; failed to import: "
        "twisted.plugins.someone_elses (ModuleNotFoundError: No module named 'libnothing')"
    )


def test_the_plugin_file_imports_nothing_heavy_and_no_reactor() -> None:
    heavy = ("sqlalchemy", "cattrs", "klein", "txaio", "orjson", "twisted.internet.reactor", "cloudctl.drivers.fake")
    source = f"import sys, twisted.plugins.cloudctl_drivers; print([m for m in {heavy} if m in sys.modules])"
    assert python(source).strip() == "[]"


def test_loading_a_driver_chooses_neither_a_reactor_nor_a_framework() -> None:
    source = """
import sys, txaio
from twisted.internet.task import Clock
from cloudctl.drivers.loader import load
from cloudctl.drivers.specs import DriverResources
load("hypervisor", "fake", {}, DriverResources(clock=Clock(), name="test"))
print("twisted.internet.reactor" in sys.modules, txaio._explicit_framework)
"""
    assert python(source).strip() == "False None"


class Checked:
    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def check(self) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def checked(outcome: Any) -> IDriver:
    return cast(IDriver, Checked(outcome))


def test_a_passing_check_says_nothing() -> None:
    check(load("hypervisor", "fake", {}, RESOURCES), "driver.hypervisor.fake")
    check(checked(None), "driver.x")


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (Unusable("qemu is not installed"), "driver.x: qemu is not installed"),
        (Deferred(), "driver.x: its check() waits for the reactor, which is not running yet"),
    ],
)
def test_a_check_that_fails_is_a_problem_of_the_configuration(outcome: Any, problem: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        check(checked(outcome), "driver.x")
    assert caught.value.problems == [problem]


def test_a_bug_in_a_check_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        check(checked(ZeroDivisionError("bug")), "driver.x")


def test_the_interface_of_a_loaded_driver_is_its_own() -> None:
    assert IHypervisor.providedBy(load("hypervisor", "fake", {}, RESOURCES))
    assert not IVolumeBackend.providedBy(load("hypervisor", "fake", {}, RESOURCES))
