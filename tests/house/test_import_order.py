"""Nothing imports upward. The order is that of docs/architecture.md; a new module is given its place here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.house.source import Module, imports, modules

# Lowest first. A name stands for the module and all below it, unless a longer name is listed too.
SERVICES = ("events", "identity", "object_store", "image", "placement", "network", "volume", "compute", "instance_ha")
LAYERS = (
    (
        "errors",
        "context",
        "options",
        "state_dir",
        "config",
        "log_levels",
        "service",
        "trouble",
        "signature_v4",
        "http_turns",
    ),
    ("db",),
    ("tasks",),
    ("drivers",),  # interfaces, values, loader: the files of the folder; its sub-folders are DRIVERS
    ("rest",),
    ("composition",),
    *((service,) for service in SERVICES),
    ("DRIVERS",),
    ("bootstrap",),
    ("app",),
    ("json_log", "text_log", "attrs_code"),
    ("tap", "history", "reference", "rule_list", "metadata_proxy", "cli", "__main__"),
    ("testing",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# A driver takes and returns frozen values: it sees no database, no task, no request and no service.
DRIVERS_SEE = (
    "errors", "context", "options", "config", "service", "trouble", "signature_v4", "http_turns", "drivers", "DRIVERS"
)  # fmt: skip

# tables ← domain ← {api, lifecycle} ← service; `api` submits a task by its name and never imports `lifecycle`.
PARTS_SEE = {
    "tables": ("tables",),
    "domain": ("tables", "domain"),
    "api": ("tables", "domain", "api"),
    "lifecycle": ("tables", "domain", "lifecycle"),
    "service": ("tables", "domain", "api", "lifecycle"),
}


def layer(name: str, known: Mapping[str, Module]) -> str | None:
    """The listed name that places a module of ours in the order; None if there is none. The root package is lowest."""
    if name == "cloudctl":
        return "errors"
    parts = name.split(".")[1:]
    if parts[0] == "drivers" and len(parts) > 1:
        folder = known.get(".".join(["cloudctl", *parts[:2]]))
        return "DRIVERS" if len(parts) > 2 or (folder and folder.is_package) else "drivers"
    return parts[0] if parts[0] in RANK else None


def part(name: str) -> str:
    """Which part of its service a module belongs to."""
    inner = name.split(".")[2:]
    return inner[0] if inner and inner[0] in PARTS_SEE else "domain"


# A request has a query, headers and a version: that is the wire, which only `api` sees. Others are given its Caller.
REQUEST = "cloudctl.rest.call"


def refusal(importer: str, target: str, known: Mapping[str, Module]) -> str | None:
    """Why `importer` may not import `target`, or None. Both are modules of ours."""
    here, there = layer(importer, known), layer(target, known)
    if here is None or there is None:
        return f"{importer if here is None else target} has no place in LAYERS"
    if here == "testing":
        return None
    if RANK[there] > RANK[here]:
        return f"{there} is above {here}"
    if here == "DRIVERS" and there not in DRIVERS_SEE:
        return f"a driver does not see {there}"
    if target == REQUEST and here in SERVICES and part(importer) != "api":
        return f"{part(importer)} sees no request: it takes a Caller"
    if there in SERVICES and here == there and part(target) not in PARTS_SEE[part(importer)]:
        return f"{part(importer)} does not import {part(target)}"
    if there in SERVICES and here in SERVICES and here != there and part(target) not in ("domain", "tables"):
        # The tables are open, too, for the types of their records.
        return f"only the domain of {there} is open to {here}"
    return None


def violations(known: Mapping[str, Module]) -> Iterator[str]:
    for module in known.values():
        for found in imports(module, known):
            if found.target.split(".")[0] != "cloudctl":
                continue
            why = refusal(module.name, found.target, known)
            if why:
                yield f"{module.name}:{found.line} imports {found.target}: {why}"


def plugin_violations(known: Mapping[str, Module]) -> Iterator[str]:
    """Twisted imports every plugin file to list plugins, so these may only name what is imported once it is chosen."""
    for module in known.values():
        for found in imports(module, known):
            if found.target not in ("__future__", "twisted.application.service", "cloudctl.drivers.maker"):
                yield f"{module.name}:{found.line} imports {found.target}"


def circle(known: Mapping[str, Module]) -> list[str]:
    """Modules that each import the next one, where the last is the first; empty if there is no such circle."""
    graph = {
        module.name: {found.target for found in imports(module, known) if found.target != module.name}
        for module in known.values()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def sample(**sources: str) -> dict[str, Module]:
    """Modules of a made-up tree; `__` stands for a dot, and a module with modules below it is a package."""
    names = {"cloudctl." + name.replace("__", "."): source for name, source in sources.items()}
    return {
        name: Module.parse(name, text, is_package=any(n.startswith(name + ".") for n in names))
        for name, text in names.items()
    }


def test_nothing_imports_upward() -> None:
    assert list(violations(modules("cloudctl"))) == []


def test_no_module_imports_itself_through_others() -> None:
    assert circle(modules("cloudctl")) == []


def test_a_circle_is_found_under_type_checking_too() -> None:
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from cloudctl.tasks.engine import Engine"
    tree = sample(tasks="", tasks__run=late, tasks__engine="from cloudctl.tasks.run import Run")
    assert sorted(circle(tree)[1:]) == ["cloudctl.tasks.engine", "cloudctl.tasks.run"]


def test_every_module_has_a_place_in_the_order() -> None:
    known = modules("cloudctl")
    assert known
    assert [name for name in known if layer(name, known) is None] == []


def test_plugin_files_import_nothing_heavy() -> None:
    assert list(plugin_violations(modules("twisted/plugins"))) == []


@pytest.mark.parametrize(
    ("module", "source", "why"),
    [
        ("db", "from cloudctl.tasks import queue", "tasks is above db"),
        ("db", "import cloudctl.rest.call", "rest is above db"),
        ("db", "def late():\n    from cloudctl import app", "app is above db"),
        ("db__inner", "from ..tasks import queue", "tasks is above db"),
        ("network__ports", "from cloudctl.compute import servers", "compute is above network"),
        ("compute__servers", "from cloudctl.network.api import ports", "only the domain of network is open to compute"),
        ("compute__servers", "from cloudctl.network import lifecycle", "only the domain of network is open to compute"),
        ("compute__tables", "from cloudctl.compute import servers", "tables does not import domain"),
        ("compute__servers", "from cloudctl.compute.lifecycle import boot", "domain does not import lifecycle"),
        ("compute__servers", "from .api import servers", "domain does not import api"),
        ("compute__api__servers", "from cloudctl.compute.lifecycle import boot", "api does not import lifecycle"),
        ("compute__lifecycle__boot", "from cloudctl.compute.api import servers", "lifecycle does not import api"),
        ("rest__call", "from cloudctl.drivers.fake import hypervisor", "DRIVERS is above rest"),
        ("compute__lifecycle__boot", "from cloudctl.drivers.fake import hypervisor", "DRIVERS is above compute"),
        ("drivers__fake__hypervisor", "from cloudctl.db import Database", "a driver does not see db"),
        ("drivers__fake__hypervisor", "from cloudctl.compute import servers", "a driver does not see compute"),
        ("compute__servers", "from cloudctl.rest.call import Call", "domain sees no request: it takes a Caller"),
        ("compute__servers", "from cloudctl.rest import call", "domain sees no request: it takes a Caller"),
        ("compute__tables", "import cloudctl.rest.call", "tables sees no request: it takes a Caller"),
        ("compute__lifecycle__boot", "from ...rest.call import Call", "lifecycle sees no request: it takes a Caller"),
        ("app", "from cloudctl import tap", "tap is above app"),
        ("app", "from cloudctl.testing import cloud", "testing is above app"),
        ("db", "from cloudctl.utils import anything", "cloudctl.utils has no place in LAYERS"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str, why: str) -> None:
    tree = {
        "db": "", "tasks__queue": "", "rest__call": "", "network__api__ports": "", "network__lifecycle__p": "",
        "network__lifecycle": "", "network__tables": "", "compute__servers": "", "compute__api__servers": "",
        "compute__api": "", "compute__lifecycle__boot": "", "drivers__fake": "", "drivers__fake__hypervisor": "",
        "app": "", "tap": "", "testing__cloud": "", "compute": "", "network": "",
    }  # fmt: skip
    found = list(violations(sample(**(tree | {module: source}))))
    assert len(found) == 1
    assert found[0].endswith(why)


def test_what_the_order_allows_is_not_reported() -> None:
    allowed = sample(
        errors="import json",
        drivers="",
        drivers__interfaces="from cloudctl.errors import CloudError",
        drivers__fake="",
        drivers__fake__hypervisor="from cloudctl.drivers.interfaces import IHypervisor\nfrom . import guests",
        drivers__fake__guests="from cloudctl import errors",
        network="",
        network__tables="from cloudctl.db import columns",
        network__ports="from cloudctl.network.tables import ports\nfrom cloudctl import errors",
        network__api__ports="from cloudctl.network import ports\nfrom cloudctl.rest.route import Routes\n"
        "from cloudctl.rest.call import Call",
        compute__servers="from cloudctl.network import ports\nfrom cloudctl.rest.caller import Caller",
        compute__lifecycle__boot="from cloudctl.compute import servers\nfrom cloudctl.drivers import interfaces",
        app="from cloudctl.compute.lifecycle import boot\nfrom cloudctl.drivers.fake import hypervisor",
        testing__cloud="from cloudctl.app import Cloud\nfrom cloudctl.compute.api import servers",
        db__columns="",
        rest__route="",
        rest__call="from cloudctl.rest.caller import Caller",
        rest__caller="",
    )
    assert list(violations(allowed)) == []


def test_a_heavy_plugin_file_is_found() -> None:
    heavy = {"twisted.plugins.x": Module.parse("twisted.plugins.x", "from cloudctl.drivers.fake import hypervisor")}
    assert list(plugin_violations(heavy)) == ["twisted.plugins.x:1 imports cloudctl.drivers.fake"]
