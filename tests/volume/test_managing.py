"""What backends have already becomes volumes and snapshots, and these are left to their backends."""

from __future__ import annotations

from typing import Any

import orjson
from attrs import evolve

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.volume import Loose
from tests.volume.asking import LATEST, V3, act, at, volume

HOST = "cloudctl@volumes"
POOL = f"{HOST}#volumes"
UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


def manage(client: Any, reference: str, **fields: Any) -> Any:
    body = {"host": POOL, "ref": {"source-name": reference}, **fields}
    return client.post(f"{V3}/os-volume-manage", {"volume": body}, headers=LATEST)


def listed(client: Any, what: str, query: str = "") -> Any:
    answer = client.get(f"{V3}/{what}?host={POOL.replace('#', '%23')}{query}", headers=LATEST)
    assert answer.status == 200, answer
    (found,) = answer.json().values()
    return found


def names(client: Any, query: str) -> list[str]:
    return [each["reference"]["source-name"] for each in listed(client, "manageable_volumes", query)]


def put(backend: Any, name: str, size_gib: int = 1, text: str = "") -> None:
    backend.loose.put(name, Loose(name, size_gib, text))


def test_what_the_backend_has_becomes_a_volume(admin: Any, cloud: Any, backend: Any) -> None:
    put(backend, "disk", 3, "what it holds")
    answer = manage(admin, "disk", name="mine", metadata={"a": "b"}, bootable=True)
    made = answer.json()["volume"]
    assert (answer.status, made["status"], made["size"], made["name"]) == (202, "creating", 3, "mine")
    cloud.settle()
    found = volume(admin, made["id"])
    assert (found["status"], found["bootable"], found["metadata"]) == ("available", "true", {"a": "b"})
    assert found["os-vol-host-attr:host"] == POOL
    assert backend.volumes.get(made["id"]).head == "what it holds" and backend.loose.values() == []


def test_an_unmanaged_volume_is_there_and_can_be_managed_again(make: Any, demo: Any, admin: Any, cloud: Any) -> None:
    id = make(size=2)["id"]
    assert act(demo, id, "os-unmanage").status == 403
    assert act(admin, id, "os-unmanage").status == 202
    cloud.settle()
    assert demo.get(f"{V3}/volumes/{id}").status == 404
    used = demo.get(f"{V3}/limits").json()["limits"]["absolute"]
    assert (used["totalVolumesUsed"], used["totalGigabytesUsed"]) == (0, 0)
    (left,) = listed(admin, "os-volume-manage")
    assert left == {"reference": {"source-name": f"volume-{id}"}, "size": 2, "safe_to_manage": True}
    assert manage(admin, f"volume-{id}").status == 202


def test_what_cannot_be_managed_is_refused(make: Any, demo: Any, admin: Any, cloud: Any, backend: Any) -> None:
    put(backend, "disk")
    assert manage(demo, "disk").status == 403
    assert manage(admin, "none").status == 400
    assert manage(admin, "disk", host="nowhere").status == 404
    assert manage(admin, "disk", host=None).status == 400
    assert manage(admin, "disk", ref={"name": "disk"}).status == 400
    assert manage(admin, "disk", volume_type="none").status == 404
    assert manage(admin, "disk", cluster="one").status == 404
    assert admin.post(f"{V3}/os-volume-manage", {"volume": {"cluster": "one"}}, headers=at("3.15")).status == 400
    admin.put(f"{V3}/os-services/disable", {"host": HOST, "binary": "cinder-volume"})
    assert manage(admin, "disk").status == 503
    assert admin.get(f"{V3}/os-volume-manage?host={HOST}").status == 503
    assert [each.name for each in backend.loose.values()] == ["disk"]


def test_a_volume_that_something_holds_on_to_is_not_unmanaged(make: Any, demo: Any, admin: Any, cloud: Any) -> None:
    id = make()["id"]
    snapshot = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    assert act(admin, id, "os-unmanage").status == 409
    assert admin.post(f"{V3}/snapshots/{snapshot}/action", {"os-unmanage": None}).status == 202
    cloud.settle()
    assert act(demo, id, "os-attach", {"instance_uuid": UNKNOWN, "mountpoint": "/dev/vdb"}).status == 202
    cloud.settle()
    assert act(admin, id, "os-unmanage").status == 409


def test_a_backend_that_fails_keeps_what_it_has(admin: Any, cloud: Any, backend: Any) -> None:
    put(backend, "disk")
    backend.behaviour.fail("ensure_adopted", error=DriverError("it is broken"), after=True)
    id = manage(admin, "disk").json()["volume"]["id"]
    cloud.settle()
    assert volume(admin, id)["status"] == "error"
    (told,) = admin.get(f"{V3}/messages?resource_uuid={id}", headers=LATEST).json()["messages"]
    assert "managed" in told["user_message"]
    admin.delete(f"{V3}/volumes/{id}")
    cloud.settle()
    assert [each.name for each in backend.loose.values()] == ["disk"] and backend.volumes.values() == []


def test_lists_tell_why_something_cannot_be_managed(make: Any, admin: Any, cloud: Any, backend: Any) -> None:
    id = make()["id"]
    put(backend, "disk", 2)
    mine, free = listed(admin, "manageable_volumes/detail", "&sort=size:asc")
    assert mine == {
        "reference": {"source-name": f"volume-{id}"}, "size": 1, "safe_to_manage": False, "extra_info": None,
        "reason_not_safe": "already managed", "cinder_id": id,
    }  # fmt: skip
    assert (free["safe_to_manage"], free["reason_not_safe"], free["cinder_id"]) == (True, None, None)
    assert admin.get(f"{V3}/manageable_volumes?host={HOST}", headers=at("3.7")).status == 404
    assert admin.get(f"{V3}/manageable_volumes", headers=LATEST).status == 400
    assert admin.get(f"{V3}/manageable_volumes?host=none", headers=LATEST).status == 404
    of_cluster = f"{V3}/manageable_volumes?host={HOST}&cluster=none"
    assert admin.get(of_cluster, headers=at("3.16")).status == 200
    assert admin.get(of_cluster, headers=at("3.17")).status == 404


def test_lists_are_sorted_and_paged(admin: Any, backend: Any) -> None:
    for name, size in (("a", 2), ("b", 1), ("c", 2), ("d", 3)):
        put(backend, name, size)
    assert names(admin, "") == ["d", "c", "b", "a"]
    assert names(admin, "&sort=size:desc,reference:asc") == ["d", "a", "c", "b"]
    assert names(admin, "&sort_key=size&sort_dir=asc&limit=2") == ["b", "a"]
    assert names(admin, "&sort=reference:asc&marker=b&limit=1") == ["c"]
    assert names(admin, "&sort=reference:asc&offset=1&limit=2") == ["b", "c"]
    told = orjson.dumps({"source-name": "c"}).decode()
    assert names(admin, f"&sort=reference:asc&marker={told}") == ["d"]
    for query, status in (("sort=name", 400), ("limit=x", 400), ("marker=none", 404), ("sort=size:up", 400)):
        assert admin.get(f"{V3}/os-volume-manage?host={HOST}&{query}").status == status


def test_snapshots_are_left_to_the_backend_and_come_back(
    make: Any, demo: Any, admin: Any, cloud: Any, backend: Any
) -> None:
    id = make()["id"]
    backend.volumes.put(id, evolve(backend.volumes.get(id), head="what it held"))
    old = demo.post(f"{V3}/snapshots", {"snapshot": {"volume_id": id}}).json()["snapshot"]["id"]
    cloud.settle()
    (entry,) = listed(admin, "manageable_snapshots/detail")
    assert (entry["cinder_id"], entry["safe_to_manage"]) == (old, False)
    action = f"{V3}/snapshots/{old}/action"
    assert (demo.post(action, {"os-unmanage": None}).status, admin.post(action, {"os-unmanage": None}).status) == (
        403, 202,
    )  # fmt: skip
    cloud.settle()
    (entry,) = listed(admin, "os-snapshot-manage")
    assert entry["safe_to_manage"] and entry["source_reference"] == {"source-name": f"volume-{id}"}
    wish = {"volume_id": id, "ref": entry["reference"], "name": "again", "metadata": {"a": "b"}}
    assert demo.post(f"{V3}/os-snapshot-manage", {"snapshot": wish}).status == 403
    for wrong, status in (({"volume_id": UNKNOWN}, 404), ({"ref": {"source-name": "none"}}, 400)):
        assert admin.post(f"{V3}/os-snapshot-manage", {"snapshot": wish | wrong}).status == status
    answer = admin.post(f"{V3}/manageable_snapshots", {"snapshot": wish}, headers=LATEST)
    assert answer.status == 202, answer
    cloud.settle()
    made = demo.get(f"{V3}/snapshots/{answer.json()['snapshot']['id']}").json()["snapshot"]
    assert (made["status"], made["name"], made["volume_id"], made["size"]) == ("available", "again", id, 1)
    assert backend.frozen.get(made["id"]).head == "what it held" and listed(admin, "manageable_snapshots")[0]


def test_what_is_not_there_cannot_be_unmanaged(admin: Any) -> None:
    assert act(admin, UNKNOWN, "os-unmanage").status == 404
    assert admin.post(f"{V3}/snapshots/{UNKNOWN}/action", {"os-unmanage": None}).status == 404
