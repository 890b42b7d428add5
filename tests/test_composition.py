"""Clouds made of services other than ours, and processes that do part of the work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.task import Clock

from cloudctl.app import SECTIONS, SERVICES, Cloud
from cloudctl.composition import Part, Service, Surroundings, sections
from cloudctl.config import build
from cloudctl.errors import ConfigError
from cloudctl.identity.service import SERVICE as IDENTITY
from cloudctl.image.store import ImageStore
from cloudctl.rest.app import ApiApp
from cloudctl.rest.pipeline import Http
from cloudctl.rest.resource import body
from cloudctl.testing.cloud import PASSWORDS, MemoryCloud
from cloudctl.testing.http import request
from tests.toy.service import SERVICE as TOY
from tests.toy.service import Diary

CREDENTIALS = {
    "methods": ["password"],
    "password": {"user": {"name": "demo", "domain": {"id": "default"}, "password": PASSWORDS["demo"]}},
}
SCOPE = {"project": {"name": "demo", "domain": {"id": "default"}}}


def composed(*services: Service, **tables: Any) -> Cloud:
    clock = Clock()
    clock.rightNow = 1_800_000_000.0
    cloud = Cloud.in_memory(build(tables, sections(services), Path("/nonexistent")), clock, services=services)
    cloud.prepare(PASSWORDS)
    cloud.startService()
    return cloud


def login(cloud: Cloud) -> tuple[str, dict[str, str]]:
    """A token of demo, and its catalog: type → public URL."""
    body = json.dumps({"auth": {"identity": CREDENTIALS, "scope": SCOPE}}).encode()
    headers = {"Content-Type": "application/json"}
    answer = request(cloud.site, "POST", "/identity/v3/auth/tokens", headers=headers, body=body)
    assert answer.status == 201, answer
    catalog = answer.json()["token"]["catalog"]
    return answer.headers["x-subject-token"], {each["type"]: each["endpoints"][0]["url"] for each in catalog}


def test_a_service_brings_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else there are none before its API is imported: no migration makes them, and the first request finds none."""
    package = tmp_path / "shop"
    package.mkdir()
    for name in ("__init__", "tables"):
        (package / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    Service("shop", "Shop", TOY.compose)
    assert sys.modules.pop("shop.tables").__file__ == str(package / "tables.py")
    del sys.modules["shop"]


def test_an_application_adds_a_service_of_its_own() -> None:
    cloud = composed(*SERVICES, TOY, toy={"greeting": "good day"})
    token, catalog = login(cloud)
    assert catalog["toy"] == "http://cloud.example.com/toy" and "compute" in catalog
    answer = request(cloud.site, "GET", "/toy/greetings/you", headers={"X-Auth-Token": token})
    assert answer.json() == {"greeting": "good day you"}
    # Its own faults, and the path that every request takes.
    answer = request(cloud.site, "GET", "/toy/greetings/nobody", headers={"X-Auth-Token": token})
    assert (answer.status, answer.json()) == (404, {"toyFault": {"code": 404, "message": "Nobody is there."}})
    assert request(cloud.site, "GET", "/toy/greetings/you").status == 401
    assert cloud.policy.rules["toy:greetings:show"].text == "any"


def test_an_option_of_an_added_service_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"toy\.greeting"):
        build({"toy": {"greeting": 1}}, sections((TOY,)), Path("/nonexistent"))
    with pytest.raises(ConfigError, match="toy: unknown section"):
        build({"toy": {}}, SECTIONS, Path("/nonexistent"))


def test_a_part_is_prepared_filled_and_recovered_and_runs_from_start_to_stop() -> None:
    cloud = composed(IDENTITY, TOY)
    diary = cloud.made(Diary)
    assert diary.lines == ["prepare", "bootstrap at 2027", "recover", "support starts", "watch starts"]
    cloud.audit.run()
    assert [finding.kind for finding in cloud.audit.latest["toy"]] == ["toy-broken"]
    cloud.stopService()
    assert diary.lines[5:] == ["watch stops", "support stops"]


def test_a_cloud_has_the_services_that_it_is_given_and_no_others() -> None:
    cloud = composed(IDENTITY)
    token, catalog = login(cloud)
    assert list(catalog) == ["identity"]
    assert request(cloud.site, "GET", "/compute/v2.1/servers", headers={"X-Auth-Token": token}).status == 404
    assert request(cloud.ha_site, "GET", "/v1/segments").status == 404
    with pytest.raises(LookupError, match="ImageStore"):
        cloud.made(ImageStore)


def test_a_cloud_without_identity_cannot_be() -> None:
    with pytest.raises(ValueError, match="an authenticator"):
        composed(TOY)


def test_what_the_catalog_calls_a_service_access_rules_may_call_it_too() -> None:
    cloud = MemoryCloud().cloud
    pipelines = {each.prefix[1:]: each.api.pipeline for each in cloud.served}
    for service, part in zip(cloud.offered, cloud.parts, strict=True):
        own = [pipelines[mount] for mount in (service.mount, *part.beside)]
        names = {name for pipeline in own for name in (pipeline.api, *pipeline.types)}
        assert {entry.type for entry in service.catalog} <= names


def test_an_api_is_made_by_the_first_request_for_it_and_once() -> None:
    made: list[str] = []

    def seen(service: Service) -> Service:
        def compose(surroundings: Surroundings) -> Part:
            part = service.compose(surroundings)

            def build(http: Http) -> ApiApp:
                made.append(service.mount)
                return part.api(http)

            return evolve(part, api=build)

        return evolve(service, compose=compose)

    cloud = composed(*map(seen, SERVICES))
    assert request(cloud.site, "GET", "/healthcheck").status == 200
    assert made == []
    for _ in range(2):
        assert request(cloud.site, "GET", "/volume/").status == 300
    assert made == ["volume"]
    beside = {mount for part in cloud.parts for mount in part.beside}
    assert cloud.apis.keys() - beside == {service.mount for service in SERVICES if service.mount}
    assert sorted(made) == sorted(cloud.apis.keys() - beside)


# -- roles


def test_a_process_for_tasks_alone_answers_no_calls_but_says_how_it_is() -> None:
    cloud = composed(*SERVICES, server={"roles": ["engine"]})
    assert request(cloud.site, "GET", "/healthcheck").status == 200
    assert b"cloudctl_tasks_running" in request(cloud.site, "GET", "/metrics").body
    for path in ("/", "/identity/v3", "/compute/v2.1/servers"):
        assert request(cloud.site, "GET", path).status == 404
    assert request(cloud.ha_site, "GET", "/").status == 404
    assert cloud.engine.running and cloud.audit.running


def test_a_process_for_calls_alone_leaves_tasks_to_others() -> None:
    cloud = MemoryCloud({"server": {"roles": ["api"]}})
    demo = cloud.client("demo")
    volume = demo.post("/volume/v3/volumes", {"volume": {"size": 1}}).json()["volume"]
    cloud.advance(60)
    assert demo.get(f"/volume/v3/volumes/{volume['id']}").json()["volume"]["status"] == "creating"
    assert not cloud.cloud.engine.running and not cloud.cloud.audit.running
    # A process with the other role finds it on the same database.
    cloud.cloud.engine.startService()
    cloud.settle()
    assert demo.get(f"/volume/v3/volumes/{volume['id']}").json()["volume"]["status"] == "available"
    cloud.cloud.engine.stopService()


def test_with_sqlite_one_process_has_every_role(tmp_path: Path, reactor: Any) -> None:
    tables = {"server": {"roles": ["engine"]}}
    cloud = Cloud(build(tables, SECTIONS, tmp_path / "state"), reactor, listen=False)
    with pytest.raises(ConfigError, match=r"server\.roles"):
        cloud.prepare()
    cloud.db.close()


@pytest.mark.parametrize("roles", [[], ["api", "scheduler"]])
def test_roles_that_are_none_are_refused(roles: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"server\.roles.*api, engine"):
        build({"server": {"roles": roles}}, SECTIONS, Path("/nonexistent"))


def test_another_cloud_makes_no_class_of_a_body_again(cloud: MemoryCloud) -> None:
    """Each is code that is compiled, and stays in the process for good."""
    assert cloud.cloud.apis
    made = body.cache_info().misses
    other = MemoryCloud()
    assert other.cloud.apis
    other.close()
    assert body.cache_info().misses == made
