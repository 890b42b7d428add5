"""A service is one value: its folder exports it, `cloudctl.app` puts it in its tuple, and nothing else names it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from cloudctl import app
from tests.house.source import Module, imports, modules
from tests.house.test_import_order import SERVICES

# Module → why it may know a service.
NAME_A_SERVICE = {
    "cloudctl.app": "its tuple of services",
    "cloudctl.bootstrap": "clouds.yaml says the region, which is an option of identity",
    "cloudctl.cli": "`cloudctl keys` looks after the keys of identity",
}
# Module → why it may have a service's name as a string.
DECIDE_BY_NAME = {"cloudctl.rest.caller": "`forbidden` speaks as the service of the rule does"}
# What the process is made of. Drivers have kinds of their own, some named like services.
SERVICE_BLIND = ("composition", "config", "context", "db", "errors", "options", "reference", "rest", "rule_list",
                 "service", "tap", "tasks")  # fmt: skip


def owner(name: str) -> str | None:
    """The service that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "cloudctl" and parts[1] in SERVICES else None


def without_a_value(known: Mapping[str, Module]) -> list[str]:
    """Services with an API that export no `SERVICE`."""
    offering = {
        name.rpartition(".")[0] for name in known if owner(name) and name.count(".") == 2 and name.endswith(".api")
    }
    exporting = {
        name.rpartition(".")[0] for name, module in known.items() if name.endswith(".service") and exports(module)
    }
    return sorted(offering - exporting)


def exports(module: Module) -> bool:
    targets = [each for node in module.tree.body if isinstance(node, ast.Assign) for each in node.targets]
    return any(isinstance(each, ast.Name) and each.id == "SERVICE" for each in targets)


def strangers(known: Mapping[str, Module]) -> Iterator[str]:
    """Modules outside the services that import one of them."""
    for module in known.values():
        if owner(module.name) or module.name in NAME_A_SERVICE or module.name.startswith("cloudctl.testing"):
            continue
        for found in imports(module, known):
            if owner(found.target):
                yield f"{module.name}:{found.line} imports {found.target}"


def words(known: Mapping[str, Module], named: frozenset[str]) -> Iterator[str]:
    """Strings outside the services that are the name of one: code that has them decides by them."""
    for module in known.values():
        # A table may have its service's name.
        if module.name in DECIDE_BY_NAME or module.name.startswith("cloudctl.db.migrations."):
            continue
        if module.name.split(".")[1:2] and module.name.split(".")[1] in SERVICE_BLIND:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Constant) and node.value in named:
                    yield f"{module.name}:{node.lineno} names {node.value}"


def names() -> frozenset[str]:
    """What our services are called: package, section, path, API, types in the catalog."""
    of_all = ((each.name, each.mount, *(entry.type for entry in each.catalog)) for each in app.SERVICES)
    return frozenset(name for some in of_all for name in some if name)


def test_every_service_with_an_api_exports_its_value() -> None:
    assert without_a_value(modules("cloudctl")) == []


def test_the_cloud_has_every_service_in_the_order_of_imports() -> None:
    exporting = [name for name in SERVICES if f"cloudctl.{name}.service" in modules("cloudctl")]
    assert [service.package for service in app.SERVICES] == [f"cloudctl.{name}" for name in exporting]


def test_nothing_but_the_cloud_imports_services() -> None:
    assert list(strangers(modules("cloudctl"))) == []


@pytest.mark.parametrize("module", NAME_A_SERVICE)
def test_every_reason_to_know_a_service_is_still_needed(module: str) -> None:
    known = modules("cloudctl")
    assert [found for found in imports(known[module], known) if owner(found.target)]


def test_the_cloud_itself_knows_a_service_by_its_value_alone() -> None:
    known = modules("cloudctl")
    found = [each.target for each in imports(known["cloudctl.app"], known) if owner(each.target)]
    assert sorted(found) == sorted(f"{service.package}.service" for service in app.SERVICES)


def test_no_module_outside_the_services_decides_by_the_name_of_one() -> None:
    assert list(words(modules("cloudctl"), names())) == []


def test_offenders_are_found() -> None:
    def parsed(name: str, text: str) -> dict[str, Module]:
        return {name: Module.parse(name, text)}

    assert without_a_value(parsed("cloudctl.compute.api", "")) == ["cloudctl.compute"]
    assert list(strangers(parsed("cloudctl.rest.faults", "from cloudctl.compute import servers"))) == [
        "cloudctl.rest.faults:1 imports cloudctl.compute"
    ]
    assert list(words(parsed("cloudctl.rest.faults", "TYPES = {'compute': ()}"), names())) == [
        "cloudctl.rest.faults:1 names compute"
    ]
