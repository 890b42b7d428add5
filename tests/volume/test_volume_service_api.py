"""Versions, services, pools, quotas, limits and messages over HTTP. Reference: volume.md, sections 1, 9, 10, 12."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from cloudctl.drivers.errors import NoCapacity, Unfit
from cloudctl.volume.tables import Volume
from tests.volume.asking import LATEST, V3, at, volume

COUNTERS = {
    "volumes", "snapshots", "gigabytes", "backups", "backup_gigabytes", "per_volume_gigabytes", "groups",
    "volumes___DEFAULT__", "gigabytes___DEFAULT__", "snapshots___DEFAULT__",
}  # fmt: skip


# -- versions


@pytest.mark.parametrize(("path", "status"), [("/volume", 300), ("/volume/", 300), (V3, 200), (f"{V3}/", 200)])
def test_version_documents_need_no_token(cloud: Any, path: str, status: int) -> None:
    answer = cloud.anonymous().get(path)
    assert answer.status == status
    (version,) = answer.json()["versions"]
    assert (version["id"], version["status"]) == ("v3.0", "CURRENT")
    assert (version["version"], version["min_version"]) == ("3.71", "3.0")
    assert {"rel": "self", "href": "http://cloud.example.com/volume/v3/"} in version["links"]
    assert version["media-types"][0]["base"] == "application/json"


def test_the_version_used_is_told(demo: Any) -> None:
    answer = demo.get(f"{V3}/volumes", headers={"OpenStack-API-Version": "compute 2.1,volume 3.50"})
    assert answer.headers["OpenStack-API-Version"] == "volume 3.50"
    assert answer.headers["Vary"] == "OpenStack-API-Version"
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]
    assert demo.get(f"{V3}/volumes").headers["OpenStack-API-Version"] == "volume 3.0"
    # By the types of the catalog, too; the answer is the same.
    for service in ("block-storage", "volumev3", "Block-Storage"):
        answer = demo.get(f"{V3}/volumes", headers={"OpenStack-API-Version": f"{service} 3.60"})
        assert answer.headers["OpenStack-API-Version"] == "volume 3.60"
    beyond = demo.get(f"{V3}/volumes", headers=at("3.99"))
    assert (beyond.status, list(beyond.json())) == (406, ["computeFault"])
    assert demo.get(f"{V3}/volumes", headers=at("x")).status == 400


def test_nothing_but_versions_is_open_to_everyone(cloud: Any) -> None:
    answer = cloud.anonymous().get(f"{V3}/volumes")
    assert answer.status == 401
    assert "unauthorized" in answer.json()
    assert answer.headers["WWW-Authenticate"].startswith("Keystone uri=")


@pytest.mark.parametrize("path", ["/shares", "/nonsense"])
def test_what_is_not_offered_is_an_unknown_path(demo: Any, path: str) -> None:
    answer = demo.get(V3 + path, headers=LATEST)
    assert answer.status == 404
    assert "itemNotFound" in answer.json()


# -- quotas and limits


def project_of(client: Any) -> str:
    found: str = client.post(f"{V3}/volumes", {"volume": {"size": 2}}).json()["volume"]["id"]
    return str(volume(client, found)["os-vol-tenant-attr:tenant_id"])


def test_a_member_reads_the_quotas_of_one_project(demo: Any, stranger: Any) -> None:
    project = project_of(demo)
    found = demo.get(f"{V3}/os-quota-sets/{project}").json()["quota_set"]
    assert found.keys() == COUNTERS | {"id"}
    assert (found["id"], found["volumes"], found["gigabytes"], found["volumes___DEFAULT__"]) == (project, 10, 1000, -1)
    used = demo.get(f"{V3}/os-quota-sets/{project}?usage=true").json()["quota_set"]
    assert used["id"] == project
    assert used["gigabytes"] == {"limit": 1000, "in_use": 2, "reserved": 0}
    assert used["volumes___DEFAULT__"] == {"limit": -1, "in_use": 1, "reserved": 0}
    for path in (project, f"{project}/defaults", f"{project}?usage=true"):
        assert stranger.get(f"{V3}/os-quota-sets/{path}").status == 404
    assert demo.put(f"{V3}/os-quota-sets/{project}", {"quota_set": {"volumes": 99}}).status == 403
    assert demo.delete(f"{V3}/os-quota-sets/{project}").status == 403


def test_an_administrator_sets_quotas_and_takes_them_back(demo: Any, admin: Any) -> None:
    project = project_of(demo)
    url = f"{V3}/os-quota-sets/{project}"
    answer = admin.put(url, {"quota_set": {"volumes": "20", "gigabytes": -1, "tenant_id": project}})
    assert answer.status == 200
    assert answer.json()["quota_set"].keys() == COUNTERS
    assert answer.json()["quota_set"]["volumes"] == 20
    assert demo.get(url).json()["quota_set"]["gigabytes"] == -1
    assert admin.get(f"{url}/defaults").json()["quota_set"]["volumes"] == 10
    assert admin.delete(url).status == 200
    assert demo.get(url).json()["quota_set"]["volumes"] == 10


def test_an_administrator_sets_the_quotas_of_all_projects_without_their_own(demo: Any, admin: Any) -> None:
    project = demo.get("/identity/v3/auth/projects").json()["projects"][0]["id"]
    url = f"{V3}/os-quota-class-sets/default"
    assert admin.get(url).json()["quota_class_set"].keys() == COUNTERS | {"id"}
    answer = admin.put(url, {"quota_class_set": {"volumes": 0, "class_name": "default"}})
    assert (answer.status, answer.json()["quota_class_set"]["volumes"]) == (200, 0)
    for path in ("", "/defaults"):
        assert demo.get(f"{V3}/os-quota-sets/{project}{path}").json()["quota_set"]["volumes"] == 0
    assert demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).status == 413
    assert admin.put(url, {"quota_class_set": {"colour": 1}}).status == 400
    assert admin.get(f"{V3}/os-quota-class-sets/other").status == 404
    assert demo.get(url).status == 403


@pytest.mark.parametrize(
    "wanted", [{"colour": 1}, {"volumes": -2}, {"volumes": "x"}, {"volumes": None}, {"volumes": 2**31}, {"volumes": 0}]
)
def test_a_wrong_quota_is_refused(demo: Any, admin: Any, wanted: Any) -> None:
    project = project_of(demo)
    assert admin.put(f"{V3}/os-quota-sets/{project}", {"quota_set": wanted}).status == 400
    assert demo.get(f"{V3}/os-quota-sets/{project}").json()["quota_set"]["volumes"] == 10


def test_limits_tell_what_is_used(demo: Any, admin: Any) -> None:
    project = project_of(demo)
    found = demo.get(f"{V3}/limits").json()["limits"]
    assert found["rate"] == []
    assert found["absolute"] == {
        "maxTotalVolumes": 10, "totalVolumesUsed": 1, "maxTotalVolumeGigabytes": 1000, "totalGigabytesUsed": 2,
        "maxTotalSnapshots": 10, "totalSnapshotsUsed": 0, "maxTotalBackups": 10, "totalBackupsUsed": 0,
        "maxTotalBackupGigabytes": 1000, "totalBackupGigabytesUsed": 0,
    }  # fmt: skip
    url = f"{V3}/limits?project_id={project}"
    used = [
        admin.get(url, headers=at(version)).json()["limits"]["absolute"]["totalVolumesUsed"]
        for version in ("3.38", "3.39")
    ]
    assert used == [0, 1]


# -- services, pools, zones, extensions


def test_an_administrator_sees_services_and_pools(admin: Any, demo: Any) -> None:
    found = admin.get(f"{V3}/os-services").json()["services"]
    assert {(each["binary"], each["host"], each["state"], each["status"]) for each in found} == {
        ("cinder-scheduler", "cloudctl", "up", "enabled"),
        ("cinder-volume", "cloudctl@volumes", "up", "enabled"),
        ("cinder-backup", "cloudctl", "up", "enabled"),
    }
    assert "cluster" not in found[0] and "backend_state" not in found[1]
    found = admin.get(f"{V3}/os-services?binary=cinder-volume", headers=LATEST).json()["services"]
    assert [(each["cluster"], each["backend_state"]) for each in found] == [(None, "up")]
    url = f"{V3}/scheduler-stats/get_pools"
    assert admin.get(url).json() == {"pools": [{"name": "cloudctl@volumes#volumes"}]}
    detail = admin.get(f"{url}?detail=true").json()["pools"][0]["capabilities"]
    assert detail["total_capacity_gb"] == detail["free_capacity_gb"] + detail["allocated_capacity_gb"]
    assert admin.get(f"{url}?name=other", headers=LATEST).json() == {"pools": []}
    assert (demo.get(f"{V3}/os-services").status, demo.get(url).status) == (403, 403)


def test_a_disabled_service_takes_no_volumes(cloud: Any, demo: Any, admin: Any) -> None:
    service = {"host": "cloudctl@volumes", "binary": "cinder-volume"}
    answer = admin.put(f"{V3}/os-services/disable-log-reason", {**service, "disabled_reason": "repair"})
    assert answer.json() == {
        **service, "service": "cinder-volume", "status": "disabled", "disabled": True, "disabled_reason": "repair",
    }  # fmt: skip
    listed = admin.get(f"{V3}/os-services?binary=cinder-volume").json()["services"]
    assert [(each["status"], each["disabled_reason"]) for each in listed] == [("disabled", "repair")]
    id = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    cloud.settle()
    assert volume(demo, id)["status"] == "error"
    (message,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_001_003"
    enabled = admin.put(f"{V3}/os-services/enable", service).json()
    assert (enabled["status"], enabled["disabled_reason"]) == ("enabled", None)
    assert "disabled_reason" not in admin.put(f"{V3}/os-services/disable", service).json()
    assert admin.put(f"{V3}/os-services/enable", service).status == 200
    id = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    cloud.settle()
    assert volume(demo, id)["status"] == "available"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("disable", {"host": "elsewhere", "binary": "cinder-volume"}, 404),
        ("disable", {"host": "cloudctl"}, 400),
        ("disable-log-reason", {"host": "cloudctl", "binary": "cinder-scheduler"}, 400),
        ("disable-log-reason", {"host": "cloudctl", "binary": "cinder-scheduler", "disabled_reason": " "}, 400),
        ("enable", {"binary": "cinder-volume"}, 400),
    ],
)
def test_a_wrong_switch_is_refused(admin: Any, path: str, body: Any, status: int) -> None:
    assert admin.put(f"{V3}/os-services/{path}", body).status == status


def test_zones_extensions_and_filters_are_listed(demo: Any) -> None:
    zones = demo.get(f"{V3}/os-availability-zone").json()
    assert zones == {"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]}
    extensions = demo.get(f"{V3}/extensions").json()["extensions"]
    assert "os-types-manage" in {each["alias"] for each in extensions}
    assert demo.get(f"{V3}/extensions/os-types-manage").json()["extension"] in extensions
    assert demo.get(f"{V3}/extensions/none").status == 404
    url = f"{V3}/resource_filters?resource=volume"
    assert demo.get(url, headers=at("3.32")).status == 404
    (filters,) = demo.get(url, headers=at("3.33")).json()["resource_filters"]
    assert "metadata" in filters["filters"] and "consumes_quota" not in filters["filters"]


def test_filters_of_pools_and_types_are_told_too(demo: Any) -> None:
    def told(resource: str, version: str) -> list[str]:
        (found,) = demo.get(f"{V3}/resource_filters?resource={resource}", headers=at(version)).json()[
            "resource_filters"
        ]
        names: list[str] = found["filters"]
        return names

    assert (told("pool", "3.34"), told("pool", "3.35")) == (["name"], ["name", "volume_type"])
    assert (told("volume_type", "3.51"), told("volume_type", "3.52")) == ([], ["extra_specs"])


def test_every_list_that_refuses_unknown_filters_tells_which_it_knows(demo: Any) -> None:
    """Each of them is accepted by the list itself."""
    paths = {"volume": "volumes", "snapshot": "snapshots", "backup": "backups", "attachment": "attachments",
             "transfer": "volume-transfers", "message": "messages", "group": "groups",
             "group_snapshot": "group_snapshots"}  # fmt: skip
    told = demo.get(f"{V3}/resource_filters", headers=LATEST).json()["resource_filters"]
    filters = {each["resource"]: each["filters"] for each in told}
    assert filters.keys() == {*paths, "pool", "volume_type"}
    for resource, path in paths.items():
        assert demo.get(f"{V3}/{path}?no_such_filter=1", headers=LATEST).status == 400
        for name in filters[resource]:
            answer = demo.get(f"{V3}/{path}?{name}=1", headers=LATEST)
            assert "Invalid filters" not in answer.body.decode(), (resource, name)


# -- what fails later


def test_a_failure_leaves_an_error_a_message_and_the_quota_charged(
    cloud: Any, demo: Any, backend: Any, stranger: Any
) -> None:
    backend.behaviour.fail("ensure_created", error=Unfit("no"))
    id = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    cloud.settle()
    assert volume(demo, id)["status"] == "error"
    assert demo.get(f"{V3}/limits").json()["limits"]["absolute"]["totalVolumesUsed"] == 1
    url = f"{V3}/messages"
    assert demo.get(url).status == 404
    (message,) = demo.get(url, headers=at("3.3")).json()["messages"]
    assert message.keys() == {
        "id", "event_id", "user_message", "message_level", "created_at", "guaranteed_until", "request_id",
        "resource_type", "resource_uuid", "links",
    }  # fmt: skip
    assert (message["resource_type"], message["resource_uuid"], message["message_level"]) == ("VOLUME", id, "ERROR")
    assert message["event_id"] == "VOLUME_VOLUME_008_012" and message["request_id"].startswith("req-")
    one = f"{url}/{message['id']}"
    assert demo.get(f"{url}?resource_uuid={id}", headers=at("3.5")).json()["messages"] == [message]
    assert demo.get(f"{url}?resource_uuid=x", headers=at("3.5")).json()["messages"] == []
    assert stranger.get(url, headers=at("3.5")).json()["messages"] == []
    assert stranger.get(one, headers=LATEST).status == 404 and stranger.delete(one, headers=LATEST).status == 404
    assert demo.delete(one, headers=LATEST).status == 204
    assert demo.get(one, headers=LATEST).status == 404
    assert demo.delete(f"{V3}/volumes/{id}").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/limits").json()["limits"]["absolute"]["totalVolumesUsed"] == 0


def test_a_full_backend_leaves_an_error(cloud: Any, demo: Any, backend: Any) -> None:
    backend.behaviour.fail("ensure_created", error=NoCapacity("full"))
    id = demo.post(f"{V3}/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    cloud.settle()
    assert volume(demo, id)["status"] == "error"


@pytest.mark.parametrize("was", [None, "older@volumes#volumes", "cloudctl@former#former"])
def test_hosts_tell_what_is_on_them(make: Any, cloud: Any, demo: Any, admin: Any, was: str | None) -> None:
    """Also what they had before the node, or its only backend, was renamed."""
    found = admin.get(f"{V3}/os-hosts").json()["hosts"]
    assert {each["service"] for each in found} == {"cinder-scheduler", "cinder-volume", "cinder-backup"}
    (host,) = (each["host_name"] for each in admin.get(f"{V3}/os-hosts?service=cinder-volume").json()["hosts"])
    id, project = make(size=2)["id"], make(size=3)["os-vol-tenant-attr:tenant_id"]
    demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}})
    cloud.settle()
    if was is not None:
        cloud.transact(lambda conn: conn.execute(update(Volume).values(host=was)))
    total, mine = (each["resource"] for each in admin.get(f"{V3}/os-hosts/{host}").json()["host"])
    expected = {"volume_count": "2", "total_volume_gb": "5", "snapshot_count": "1", "total_snapshot_gb": "2"}
    assert total == {"host": host, "project": "(total)", **expected}
    assert mine == {"host": host, "project": project, **expected}
    assert admin.get(f"{V3}/os-hosts/cloudctl").status == 404
    assert demo.get(f"{V3}/os-hosts").status == 403


def test_a_frozen_backend_takes_no_volumes_until_it_thaws(make: Any, demo: Any, admin: Any) -> None:
    host = {"host": "cloudctl@volumes"}
    assert admin.put(f"{V3}/os-services/freeze", host).status == 200
    (service,) = admin.get(f"{V3}/os-services?binary=cinder-volume").json()["services"]
    assert (service["frozen"], service["status"], service["disabled_reason"]) == (True, "disabled", "frozen")
    assert make()["status"] == "error"
    assert admin.put(f"{V3}/os-services/thaw", host).status == 200
    assert make()["status"] == "available"
    assert admin.put(f"{V3}/os-services/thaw", {"host": "none"}).status == 400


def test_nothing_fails_over(admin: Any) -> None:
    for path, status in (("failover_host", 400), ("failover", 400)):
        answer = admin.put(f"{V3}/os-services/{path}", {"host": "cloudctl@volumes"}, headers=LATEST)
        assert answer.status == status and "replication" in answer.json()["badRequest"]["message"]
    assert admin.put(f"{V3}/os-services/failover_host", {"host": "none"}).status == 400
    assert admin.put(f"{V3}/os-services/failover", {"cluster": "c"}, headers=LATEST).status == 400


def test_there_are_no_clusters_and_nothing_to_clean_up(admin: Any) -> None:
    assert admin.get(f"{V3}/clusters", headers=LATEST).json() == {"clusters": []}
    assert admin.get(f"{V3}/clusters/detail", headers=LATEST).json() == {"clusters": []}
    assert admin.get(f"{V3}/clusters/c", headers=LATEST).status == 404
    assert admin.get(f"{V3}/clusters").status == 404  # before 3.7
    answer = admin.post(f"{V3}/workers/cleanup", {"host": "cloudctl"}, headers=LATEST)
    assert (answer.status, answer.json()) == (202, {"cleaning": [], "unavailable": []})


def test_older_names_of_sort_keys_are_known(make: Any, demo: Any) -> None:
    for name in ("b", "a"):
        make(name=name)
    for path in ("volumes", "snapshots", "backups"):
        assert demo.get(f"{V3}/{path}?sort_key=display_name&sort_dir=asc").status == 200
    found = demo.get(f"{V3}/volumes?sort_key=display_name&sort_dir=asc").json()["volumes"]
    assert [each["name"] for each in found] == ["a", "b"]
