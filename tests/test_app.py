"""The cloud as a part of something else: under another site, beside another cloud, started and stopped in order."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, update
from twisted.application.service import Application, IServiceCollection
from twisted.internet.task import Clock
from twisted.web.resource import Resource
from twisted.web.server import Site

from cloudctl.app import SECTIONS, Cloud
from cloudctl.config import build
from cloudctl.db import schema
from cloudctl.db.columns import metadata
from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.drivers.fake.volume import FakeVolumeBackend
from cloudctl.drivers.file.driver import ObjectFiles
from cloudctl.errors import ConfigError
from cloudctl.rest.connections import Answering
from cloudctl.rest.pipeline import JSON_LIMIT
from cloudctl.rest.site import CloudSite
from cloudctl.testing.cloud import MemoryCloud
from cloudctl.testing.http import request


def test_the_tree_hangs_under_an_existing_site() -> None:
    cloud = MemoryCloud()
    root, middle = Resource(), Resource()
    root.putChild(b"hosting", middle)
    middle.putChild(b"cloud", cloud.cloud.resource)
    site = Site(root, reactor=Clock())
    headers = {"X-Auth-Token": cloud.client("demo").token or ""}
    prefix = "/hosting/cloud"
    version = request(site, "GET", f"{prefix}/compute/v2.1").json()["version"]
    assert version["links"][0]["href"] == "http://cloud.example.com/hosting/cloud/compute/v2.1/"
    found = request(site, "GET", f"{prefix}/image/v2/images", headers=headers).json()["images"]
    assert [image["name"] for image in found] == ["tiny"]
    catalog = request(site, "GET", f"{prefix}/identity/v3/auth/catalog", headers=headers).json()["catalog"]
    urls = {service["type"]: service["endpoints"][0]["url"] for service in catalog}
    assert urls["compute"] == "http://cloud.example.com/hosting/cloud/compute/v2.1"
    assert request(site, "GET", f"{prefix}/nothing", headers=headers).status == 404


def test_an_upload_works_below_an_existing_site_too() -> None:
    cloud = MemoryCloud()
    site = Site(cloud.cloud.resource, reactor=Clock())
    demo = cloud.client("demo")
    image = demo.post("/image/v2/images", {"name": "a", "disk_format": "raw", "container_format": "bare"}).json()
    headers = {"X-Auth-Token": demo.token or "", "Content-Type": "application/octet-stream"}
    assert request(site, "PUT", image["file"].replace("/v2", "/image/v2"), headers=headers, body=b"x" * 9).status == 204
    assert demo.get(f"/image/v2/images/{image['id']}").json()["status"] == "active"


class Form(Resource):
    """A page of an application: it answers with the size of the body, and with the field `name`."""

    isLeaf = True

    def render_POST(self, request: Any) -> bytes:
        size = request.content.seek(0, os.SEEK_END)
        return b"%d %s" % (size, b"".join(request.args.get(b"name", [])))


def hosting(cloud: MemoryCloud) -> CloudSite:
    """The cloud's own kind of Site, for a cloud below `/hosting/cloud`, beside other pages."""
    root, middle = Resource(), Resource()
    root.putChild(b"form", Form())
    root.putChild(b"hosting", middle)
    middle.putChild(b"cloud", cloud.cloud.resource)
    return CloudSite(root, cloud.clock, cloud.cloud.uploads)


def test_a_large_upload_works_below_a_site_of_the_cloud_s_own_kind() -> None:
    cloud = MemoryCloud()
    site, demo = hosting(cloud), cloud.client("demo")
    data = b"x" * (JSON_LIMIT + 1)
    image = demo.post("/image/v2/images", {"name": "a", "disk_format": "raw", "container_format": "bare"}).json()
    headers = {"X-Auth-Token": demo.token or "", "Content-Type": "application/octet-stream"}
    file = f"/hosting/cloud/image{image['file']}"
    assert request(site, "PUT", file, headers={**headers, "X-Auth-Token": "wrong"}, body=data).status == 401
    assert request(site, "PUT", file, headers=headers, body=data).status == 204
    assert demo.get(f"/image/v2/images/{image['id']}").json()["size"] == len(data)
    large = request(site, "POST", "/hosting/cloud/image/v2/images", headers=headers, body=data)
    assert large.status == 413


def test_other_pages_of_that_site_get_all_of_a_body_and_their_forms() -> None:
    site = hosting(MemoryCloud())
    data = b"x" * (JSON_LIMIT + 1)
    assert request(site, "POST", "/form", body=data).body == b"%d " % len(data)
    fields = {"Content-Type": "application/x-www-form-urlencoded"}
    assert request(site, "POST", "/form", headers=fields, body=b"name=ann").body == b"8 ann"


def test_drivers_are_closed_when_nothing_uses_them_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    kinds = (FakeHypervisor, FakeVolumeBackend, FakeNetworkBackend, FakeFencer, ObjectFiles)
    for kind in kinds:

        async def close(driver: object) -> None:
            assert cloud.db.running
            closed.append(type(driver).__name__)

        monkeypatch.setattr(kind, "close", close)
    volumes, stores = {"fast": "fake", "large": "fake"}, {"default": {"driver": "file"}}
    cloud = MemoryCloud({"drivers": {"volume": volumes}, "image": {"stores": stores}})
    cloud.advance(1)
    assert closed == []
    cloud.close()
    assert sorted(closed) == sorted(["FakeVolumeBackend", "ObjectFiles", *(kind.__name__ for kind in kinds)])


def test_two_clouds_in_one_process_know_nothing_of_each_other() -> None:
    one, two = MemoryCloud(), MemoryCloud()
    one.client("demo").post("/volume/v3/volumes", {"volume": {"size": 1}})
    one.settle()
    assert len(one.client("demo").get("/volume/v3/volumes").json()["volumes"]) == 1
    assert two.client("demo").get("/volume/v3/volumes").json()["volumes"] == []
    assert (
        two.client("demo").get("/volume/v3/volumes", headers={"X-Auth-Token": one.client("demo").token}).status == 401
    )


def config(directory: Path, **tables: Any) -> Any:
    return build(tables, SECTIONS, directory / "state")


def test_an_application_adopts_a_cloud(tmp_path: Path, reactor: Any) -> None:
    application = Application("host")
    cloud = Cloud(config(tmp_path), reactor, listen=False)
    assert cloud.prepare() is True
    cloud.setServiceParent(IServiceCollection(application))
    assert next(type(child).__name__ for child in cloud) == "Database"
    cloud.db.close()


def test_a_state_directory_is_private_and_has_one_cloud(tmp_path: Path, reactor: Any) -> None:
    cloud = Cloud(config(tmp_path), reactor, listen=False)
    cloud.prepare()
    state = tmp_path / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "clouds.yaml").stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="another cloudctl is already running"):
        Cloud(config(tmp_path), reactor, listen=False).prepare()
    cloud.db.close()


# Other tests keep tables of their own in the same MetaData.
TOYS = "test_"


def is_ours(_item: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    return kind != "table" or not (name or "").startswith(TOYS)


def test_the_migrations_make_what_the_tables_say(tmp_path: Path, reactor: Any) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    cloud = Cloud(config(tmp_path), reactor, listen=False)
    schema.prepare(cloud.db)
    with cloud.db.engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "include_object": is_ours})
        assert list(compare_metadata(context, metadata)) == []
        # alembic's own table exists, too.
        assert {name for name in metadata.tables if not name.startswith(TOYS)} < set(inspect(conn).get_table_names())
    assert cloud.db.transact(True, schema.found_version) == (schema.VERSION, schema.COMPATIBLE_FROM)
    assert schema.prepare(cloud.db) is False
    cloud.db.close()


def test_a_database_of_a_newer_release_is_refused(tmp_path: Path, reactor: Any) -> None:
    cloud = Cloud(config(tmp_path), reactor, listen=False)
    schema.prepare(cloud.db)

    def newer(conn: Any, compatible_from: int) -> None:
        conn.execute(update(schema.SchemaVersion).values(version=99, compatible_from=compatible_from))

    cloud.db.transact(False, newer, schema.VERSION)
    assert schema.prepare(cloud.db) is False
    cloud.db.transact(False, newer, 99)
    with pytest.raises(ConfigError, match="schema version is 99"):
        schema.prepare(cloud.db)
    cloud.db.close()


def test_a_second_start_bootstraps_nothing_anew(tmp_path: Path, reactor: Any) -> None:
    first = Cloud(config(tmp_path), reactor, listen=False)
    assert first.prepare({"admin": "a", "demo": "d"}) is True
    text = (tmp_path / "state" / "clouds.yaml").read_text()
    first.db.close()
    assert first._lock is not None
    first._lock.close()
    second = Cloud(config(tmp_path), reactor, listen=False)
    assert second.prepare() is False
    assert (tmp_path / "state" / "clouds.yaml").read_text() == text
    second.db.close()


def test_the_metrics_tell_of_requests_and_tasks() -> None:
    cloud = MemoryCloud()
    demo = cloud.client("demo")
    demo.post("/volume/v3/volumes", {"volume": {"size": 1}})
    cloud.settle()
    text = demo.get("/metrics").body.decode()
    assert 'cloudctl_http_requests_total{api="volume",method="POST",status="202"} 1.0' in text
    assert 'cloudctl_tasks_ended_total{kind="volume.volume.create",state="done"} 1.0' in text
    assert "cloudctl_tasks_running 0.0" in text


@pytest.mark.parametrize(("server", "at"), [({}, ":15868"), ({"ha_listen": []}, "/instance-ha")])
def test_the_catalog_names_instance_ha_where_it_is_offered(server: dict[str, Any], at: str) -> None:
    cloud = MemoryCloud({"server": server})
    catalog = cloud.client("demo").get("/identity/v3/auth/catalog").json()["catalog"]
    (found,) = (each for each in catalog if each["type"] == "instance-ha")
    assert {each["url"] for each in found["endpoints"]} == {f"http://cloud.example.com{at}/v1"}
    # It is mounted below the others, whether it has its own listener or not.
    admin = cloud.client("admin")
    assert admin.get("/instance-ha/v1/segments").json() == {"segments": []}
    assert cloud.client("demo").get("/instance-ha/v1/segments").status == 403
    (version,) = admin.get("/instance-ha").json()["versions"]
    assert version["links"][0]["href"] == "http://cloud.example.com/instance-ha/v1/"


def test_clouds_in_memory_of_one_configuration_begin_the_same_and_know_nothing_of_each_other() -> None:
    tables = {"image": {"max_size": 1 << 20}}
    one = MemoryCloud(tables)
    names = [each["name"] for each in one.client().get("/image/v2/images").json()["images"]]
    one.client().post("/image/v2/images", {"name": "mine", "disk_format": "raw", "container_format": "bare"})
    other = MemoryCloud(tables)
    (tiny,) = other.client().get("/image/v2/images").json()["images"]
    assert [tiny["name"]] == names
    assert len(other.client().get(f"/image/v2/images/{tiny['id']}/file").body) == 1 << 20
    one.close()
    other.close()


def test_requests_are_answered_after_the_listeners_stop_and_before_anything_else_does(
    tmp_path: Path, reactor: Any
) -> None:
    cloud = Cloud(config(tmp_path), reactor)
    *others, answering, _, _ = list(cloud.services)
    assert isinstance(answering, Answering) and cloud.audit in others
    assert answering.connections is cloud.site.connections is cloud.ha_site.connections
    cloud.db.close()
