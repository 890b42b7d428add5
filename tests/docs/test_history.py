"""What each microversion changes is known from what the APIs declare. docs/api.md shows all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl import history, reference
from cloudctl.app import Cloud, Served
from cloudctl.history import Fact, Step
from cloudctl.rest.versions import Span, Version, since


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    yield reference.sample()


def served(cloud: Cloud, package: str) -> Served:
    (found,) = (each for each in cloud.served if each.prefix == f"/{package}")
    return found


def steps(cloud: Cloud, package: str) -> dict[Version, Step]:
    return history.steps(served(cloud, package).api, f"cloudctl.{package}.api")


@pytest.mark.parametrize(
    ("package", "version", "new", "gone"),
    [
        ("compute", (2, 11), "`PUT /v2.1/os-services/force-down`", ""),
        (
            "compute",
            (2, 49),
            "`interfaceAttachment.tag` in the body of `POST /v2.1/servers/{server_id}/os-interface`",
            "",
        ),
        ("compute", (2, 64), "in the body of `POST /v2.1/os-server-groups`", "`policies` in the body of"),
        ("volume", (3, 31), "an unknown filter is refused", ""),
        ("volume", (3, 28), "`name` in the query of `GET /v3/scheduler-stats/get_pools`", ""),
        ("volume", (3, 63), "`volume_type_id` of a volume", ""),
    ],
)
def test_a_change_of_each_kind_is_found(cloud: Cloud, package: str, version: Version, new: str, gone: str) -> None:
    step = steps(cloud, package)[version]
    assert new in "; ".join(history.sentences(step.new))
    assert gone in "; ".join(history.sentences(step.gone))


@pytest.mark.parametrize("package", ["compute", "volume"])
def test_no_microversion_changes_what_the_api_does_not_reach(cloud: Cloud, package: str) -> None:
    versions = served(cloud, package).api.pipeline.versions
    assert versions is not None
    outside = [version for version in steps(cloud, package) if not versions.minimum < version <= versions.maximum]
    assert outside == []


@pytest.mark.parametrize("package", ["compute", "volume"])
def test_every_gate_says_what_it_opens(package: str) -> None:
    gates = [module for module in history.modules(f"cloudctl.{package}.api") if module.__name__.endswith(".gates")]
    found = {name: value for module in gates for name, value in vars(module).items() if isinstance(value, Span)}
    assert found
    assert [name for name, span in found.items() if not span.what] == []


def test_what_is_the_same_is_said_once() -> None:
    span = since(2, 5)
    facts = [Fact(span, f"`{name}`", "in the query of", call) for call in ("A", "B") for name in ("x", "y", "z")]
    said = history.sentences([*facts, Fact(span, "it is so")])
    assert said == ["`x`, `y` and `z` in the query of A and B", "it is so"]
