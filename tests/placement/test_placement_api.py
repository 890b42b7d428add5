"""The placement API. Reference: compute-scheduling.md, section 15."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking
from tests.placement.conftest import LATEST, Placing

UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"


def code(answer: Any) -> tuple[int, str]:
    (error,) = answer.json()["errors"]
    assert error.keys() == {"status", "title", "detail", "request_id", "code"}
    assert error["status"] == answer.status
    return answer.status, error["code"].removeprefix("placement.")


def test_the_version_document_is_public(cloud: MemoryCloud) -> None:
    (version,) = cloud.anonymous().get("/placement/").json()["versions"]
    assert (version["min_version"], version["max_version"]) == ("1.0", "1.39")


def test_it_is_in_the_catalog(cloud: MemoryCloud) -> None:
    mine = {"X-Subject-Token": str(cloud.client("admin").token)}
    catalog = cloud.client("admin").get("/identity/v3/auth/tokens", headers=mine).json()["token"]["catalog"]
    assert "placement" in {each["type"] for each in catalog}


def test_members_have_no_business_here(cloud: MemoryCloud) -> None:
    demo = Placing(cloud.client("demo"))
    assert code(demo.ask("GET", "/resource_providers"))[0] == 403
    assert demo.ask("POST", "/resource_providers", {"name": "x"}).status == 403


# -- providers


def test_a_provider_is_made_renamed_and_deleted(placing: Placing) -> None:
    answer = placing.ask("POST", "/resource_providers", {"name": "pool"})
    made = answer.json()
    assert (answer.status, made["generation"], made["parent_provider_uuid"]) == (200, 0, None)
    assert made["root_provider_uuid"] == made["uuid"]
    path = f"/resource_providers/{made['uuid']}"
    assert placing.get("/resource_providers?name=pool")["resource_providers"] == [made]
    assert placing.get(f"/resource_providers?uuid={made['uuid']}")["resource_providers"] == [made]
    assert code(placing.ask("POST", "/resource_providers", {"name": "pool"})) == (409, "duplicate_name")
    again = placing.ask("POST", "/resource_providers", {"name": "another", "uuid": made["uuid"]})
    assert (again.status, made["uuid"] in again.body.decode()) == (409, True)
    own = {"name": "another", "uuid": UNKNOWN, "parent_provider_uuid": UNKNOWN}
    answer = placing.ask("POST", "/resource_providers", own)
    assert (answer.status, "cannot be same as UUID" in answer.body.decode()) == (400, True)
    assert placing.ask("PUT", path, {"name": "lake"}).json()["name"] == "lake"
    assert placing.ask("DELETE", path).status == 204
    assert code(placing.ask("GET", path)) == (404, "resource_provider.not_found")


def test_a_provider_is_not_shown_when_it_is_made_before_1_20(placing: Placing) -> None:
    answer = placing.ask("POST", "/resource_providers", {"name": "pool"}, "1.19")
    assert (answer.status, answer.body) == (201, b"")
    shown = placing.get("/resource_providers?name=pool", "1.0")["resource_providers"][0]
    assert shown.keys() == {"uuid", "name", "generation", "links"}
    assert [each["rel"] for each in shown["links"]] == ["self", "inventories", "usages"]


def test_providers_are_trees(placing: Placing) -> None:
    root = placing.provider("root")
    child = placing.provider("child", root)
    leaf = placing.provider("leaf", child)
    assert placing.get(f"/resource_providers/{leaf}")["root_provider_uuid"] == root
    found = placing.get(f"/resource_providers?in_tree={leaf}")["resource_providers"]
    assert [each["uuid"] for each in found] == [root, child, leaf]
    assert code(placing.ask("DELETE", f"/resource_providers/{child}")) == (
        409, "resource_provider.cannot_delete_parent",
    )  # fmt: skip
    loop = {"name": "root", "parent_provider_uuid": leaf}
    assert placing.ask("PUT", f"/resource_providers/{root}", loop).status == 400
    alone = {"name": "child", "parent_provider_uuid": None}
    assert placing.ask("PUT", f"/resource_providers/{child}", alone, "1.36").status == 400
    assert placing.ask("PUT", f"/resource_providers/{child}", alone).status == 200
    assert placing.get(f"/resource_providers/{leaf}")["root_provider_uuid"] == child
    assert placing.ask("POST", "/resource_providers", {"name": "x", "parent_provider_uuid": UNKNOWN}).status == 400


def test_hosts_are_providers(placing: Placing) -> None:
    (host,) = placing.get("/resource_providers?name=fake-1")["resource_providers"]
    compute = Asking(placing.client)
    hypervisor = compute.get("/os-hypervisors", "2.53").json()["hypervisors"][0]
    assert (hypervisor["id"], hypervisor["hypervisor_hostname"]) == (host["uuid"], "fake-1")
    found = placing.get(f"/resource_providers/{host['uuid']}/inventories")["inventories"]
    assert found.keys() == {"VCPU", "MEMORY_MB", "DISK_GB"}
    assert (found["VCPU"]["total"], found["VCPU"]["allocation_ratio"]) == (64, 4.0)
    assert code(placing.ask("DELETE", f"/resource_providers/{host['uuid']}")) == (409, "resource_provider.inuse")
    assert placing.get(f"/resource_providers/{host['uuid']}/traits")["traits"] == ["COMPUTE_NODE"]
    compute.put("/os-services/disable", {"host": "fake-1", "binary": "nova-compute"})
    assert "COMPUTE_STATUS_DISABLED" in placing.get(f"/resource_providers/{host['uuid']}/traits")["traits"]


# -- inventories, traits, aggregates


def test_inventories_are_set_for_one_generation(placing: Placing) -> None:
    pool = placing.provider("pool", DISK_GB=100)
    path = f"/resource_providers/{pool}/inventories"
    found = placing.get(path)
    assert found["resource_provider_generation"] == 1
    assert found["inventories"]["DISK_GB"]["max_unit"] == 2**31 - 1
    stale = {"resource_provider_generation": 0, "total": 50}
    assert code(placing.ask("PUT", f"{path}/DISK_GB", stale)) == (409, "concurrent_update")
    changed = placing.ask("PUT", f"{path}/DISK_GB", {**stale, "resource_provider_generation": 1}).json()
    assert (changed["resource_provider_generation"], changed["total"]) == (2, 50)
    assert placing.ask("POST", path, {"resource_class": "VCPU", "total": 4}).status == 201
    assert placing.ask("POST", path, {"resource_class": "VCPU", "total": 4}).status == 409
    assert placing.ask("DELETE", f"{path}/VCPU").status == 204
    assert placing.ask("GET", f"{path}/VCPU").status == 404
    assert placing.ask("DELETE", path).status == 204
    assert placing.get(path)["inventories"] == {}
    early = placing.ask("DELETE", path, version="1.4")
    assert (early.status, early.headers["allow"]) == (405, "GET, POST, PUT")


@pytest.mark.parametrize(
    ("wrong", "version", "status"),
    [
        ({"total": 0}, "1.39", 400),
        ({"total": 5, "reserved": 6}, "1.39", 400),
        ({"total": 5, "reserved": 5}, "1.25", 400),
        ({"total": 5, "reserved": 5}, "1.26", 201),
        ({"total": 5, "allocation_ratio": 0}, "1.39", 400),
        ({"total": 5, "colour": 1}, "1.39", 400),
        ({"total": 5, "resource_class": "CUSTOM_NONE"}, "1.39", 400),
        ({"total": 5, "resource_provider_generation": None}, "1.39", 400),
    ],
)
def test_a_wrong_inventory_is_refused(placing: Placing, wrong: dict[str, Any], version: str, status: int) -> None:
    path = f"/resource_providers/{placing.provider('pool')}/inventories"
    assert placing.ask("POST", path, {"resource_class": "VCPU", **wrong}, version).status == status


def test_traits_are_made_given_and_deleted(placing: Placing) -> None:
    assert [placing.ask("PUT", "/traits/CUSTOM_GOLD").status for _ in range(2)] == [201, 204]
    assert placing.ask("PUT", "/traits/GOLD").status == 400
    assert placing.ask("GET", "/traits/CUSTOM_GOLD").status == 204
    pool = placing.provider("pool")
    placing.put(pool, "traits", traits=["HW_NVME_BES"])  # what no driver here reports
    placing.put(pool, "traits", traits=["CUSTOM_GOLD", "STORAGE_DISK_SSD"])
    assert placing.get(f"/resource_providers/{pool}/traits")["traits"] == ["CUSTOM_GOLD", "STORAGE_DISK_SSD"]
    assert placing.get("/traits?name=startswith:CUSTOM_")["traits"] == ["CUSTOM_GOLD"]
    assert placing.get("/traits?name=in:CUSTOM_GOLD,HW_NUMA_ROOT&associated=true")["traits"] == ["CUSTOM_GOLD"]
    assert placing.ask("DELETE", "/traits/CUSTOM_GOLD").status == 409
    found = placing.get("/resource_providers?required=CUSTOM_GOLD")["resource_providers"]
    assert [each["uuid"] for each in found] == [pool]
    assert pool not in str(placing.get("/resource_providers?required=!CUSTOM_GOLD"))
    assert placing.ask("DELETE", f"/resource_providers/{pool}/traits").status == 204
    assert placing.ask("DELETE", "/traits/CUSTOM_GOLD").status == 204
    assert placing.ask("DELETE", "/traits/HW_NUMA_ROOT").status == 400
    assert placing.ask("GET", "/resource_providers?required=CUSTOM_GOLD").status == 400


def test_resource_classes_are_made_and_deleted(placing: Placing) -> None:
    assert placing.ask("POST", "/resource_classes", {"name": "CUSTOM_MAGIC"}).status == 201
    assert placing.ask("POST", "/resource_classes", {"name": "CUSTOM_MAGIC"}).status == 409
    assert [placing.ask("PUT", "/resource_classes/CUSTOM_MORE").status for _ in range(2)] == [201, 204]
    assert placing.ask("PUT", "/resource_classes/VCPU").status == 400  # nobody makes a standard one
    names = [each["name"] for each in placing.get("/resource_classes")["resource_classes"]]
    assert names[:3] == ["VCPU", "MEMORY_MB", "DISK_GB"] and names[-2:] == ["CUSTOM_MAGIC", "CUSTOM_MORE"]
    renamed = placing.ask("PUT", "/resource_classes/CUSTOM_MORE", {"name": "CUSTOM_LESS"}, "1.6")
    assert (renamed.status, renamed.json()["name"]) == (200, "CUSTOM_LESS")
    placing.provider("pool", CUSTOM_MAGIC=3)
    assert placing.ask("DELETE", "/resource_classes/CUSTOM_MAGIC").status == 409
    assert placing.ask("DELETE", "/resource_classes/CUSTOM_LESS").status == 204
    assert placing.ask("DELETE", "/resource_classes/VCPU").status == 400
    assert placing.ask("GET", "/resource_classes/CUSTOM_NONE").status == 404
    assert placing.ask("GET", "/resource_classes", version="1.1").status == 404


def test_aggregates_are_those_of_compute(placing: Placing) -> None:
    compute = Asking(placing.client)
    made = compute.post("/os-aggregates", {"aggregate": {"name": "a", "availability_zone": "east"}}, "2.41").json()
    aggregate = made["aggregate"]
    compute.post(f"/os-aggregates/{aggregate['id']}/action", {"add_host": {"host": "fake-1"}})
    (host,) = placing.get(f"/resource_providers?member_of={aggregate['uuid']}")["resource_providers"]
    assert host["name"] == "fake-1"
    placing.put(host["uuid"], "aggregates", aggregates=[])
    assert compute.get(f"/os-aggregates/{aggregate['id']}").json()["aggregate"]["hosts"] == []
    assert compute.get("/os-services?host=fake-1").json()["services"][0]["zone"] == "nova"


def test_an_aggregate_is_shown_as_it_was_written(placing: Placing) -> None:
    path = f"/resource_providers/{placing.provider('pool')}/aggregates"
    plain, dashed = "f519e5c202ba46d6ac912c8d4078b7d4", "f519e5c2-02ba-46d6-ac91-2c8d4078b7d5"
    assert placing.ask("PUT", path, [dashed, plain], "1.18").json() == {"aggregates": [dashed, plain]}
    for each in (plain, dashed):
        found = placing.ask("GET", f"/resource_providers?member_of={each}").json()["resource_providers"]
        assert [provider["name"] for provider in found] == ["pool"]
    assert placing.ask("PUT", path, ["f519e5c2"], "1.18").status == 400


def test_aggregates_have_no_generation_before_1_19(placing: Placing) -> None:
    path = f"/resource_providers/{placing.provider('pool')}/aggregates"
    refused = placing.ask("PUT", path, ["abc"], "1.18")
    assert refused.status == 400 and "'abc' is not a 'uuid'" in refused.json()["errors"][0]["detail"]
    one, other = str(uuid4()), str(uuid4())
    assert placing.ask("PUT", path, [one], "1.18").json() == {"aggregates": [one]}
    assert placing.ask("PUT", path, [one], "1.19").status == 400
    query = f"/resource_providers?member_of=in:{one},{other}"
    assert len(placing.get(query, "1.3")["resource_providers"]) == 1
    assert placing.get(f"{query}&member_of=!{one}")["resource_providers"] == []
    assert placing.ask("GET", f"/resource_providers?member_of={one},{other}").status == 400


# -- allocations


def test_a_consumer_may_be_named_in_upper_case(placing: Placing) -> None:
    pool, me = placing.provider("pool", DISK_GB=10), str(uuid4())
    assert placing.take(me.upper(), of={pool: {"DISK_GB": 4}}).status == 204
    for name in (me, me.upper()):
        assert placing.get(f"/allocations/{name}")["allocations"].keys() == {pool}
    assert placing.ask("DELETE", f"/allocations/{me.upper()}").status == 204
    assert placing.usages(pool) == {"DISK_GB": 0}
    # One with another name than an id has nothing.
    assert placing.get("/allocations/me")["allocations"] == {}
    assert placing.ask("DELETE", "/allocations/me").status == 404


def test_allocations_are_written_for_one_generation_of_the_consumer(placing: Placing) -> None:
    pool, me = placing.provider("pool", DISK_GB=10), str(uuid4())
    assert placing.take(me, of={pool: {"DISK_GB": 4}}).status == 204
    found = placing.get(f"/allocations/{me}")
    assert found["allocations"] == {pool: {"generation": placing.generation(pool), "resources": {"DISK_GB": 4}}}
    assert (found["consumer_generation"], found["consumer_type"], found["project_id"]) == (1, "INSTANCE", "project")
    assert placing.generation(pool) == 2  # one for the inventory, one for this
    assert code(placing.take(me, of={pool: {"DISK_GB": 5}})) == (409, "concurrent_update")
    assert placing.take(me, 1, of={pool: {"DISK_GB": 10}}).status == 204
    assert placing.generation(pool) == 3
    assert placing.usages(pool) == {"DISK_GB": 10}
    assert code(placing.take(str(uuid4()), of={pool: {"DISK_GB": 1}}))[0] == 409
    assert code(placing.ask("DELETE", f"/resource_providers/{pool}")) == (409, "resource_provider.inuse")
    assert code(placing.ask("DELETE", f"/resource_providers/{pool}/inventories")) == (409, "inventory.inuse")
    assert placing.take(me, 2, of={}).status == 204
    assert placing.get(f"/allocations/{me}") == {"allocations": {}}
    assert placing.usages(pool) == {"DISK_GB": 0}


def test_an_allocation_keeps_to_units_and_steps(placing: Placing) -> None:
    pool = placing.provider("pool")
    limits = {"total": 100, "min_unit": 10, "max_unit": 40, "step_size": 10}
    placing.put(pool, "inventories", inventories={"DISK_GB": limits})
    for amount, status in ((5, 409), (15, 409), (50, 409), (40, 204)):
        assert placing.take(str(uuid4()), of={pool: {"DISK_GB": amount}}).status == status
    assert placing.take(str(uuid4()), of={pool: {"VCPU": 1}}).status == 409
    assert placing.take(str(uuid4()), of={UNKNOWN: {"VCPU": 1}}).status == 400
    assert placing.take(str(uuid4()), of={pool: {"CUSTOM_NONE": 1}}).status == 400
    assert placing.take("no-uuid", of={pool: {"DISK_GB": 10}}).status == 400


def test_allocations_of_old_are_lists_and_name_nobody(placing: Placing) -> None:
    pool, me, other = placing.provider("pool", VCPU=4), str(uuid4()), str(uuid4())
    old = {"allocations": [{"resource_provider": {"uuid": pool}, "resources": {"VCPU": 2}}]}
    assert [placing.ask("PUT", f"/allocations/{id}", old, None).status for id in (me, me, other)] == [204, 204, 204]
    assert placing.get(f"/allocations/{me}", None).keys() == {"allocations"}
    assert placing.ask("PUT", f"/allocations/{me}", old, "1.8").status == 400
    assert placing.ask("PUT", f"/allocations/{me}", {**old, "project_id": "p", "user_id": "u"}, "1.8").status == 204
    nobody = "00000000-0000-0000-0000-000000000000"
    found = placing.get(f"/allocations/{other}", "1.12")
    assert (found["project_id"], found["user_id"]) == (nobody, nobody)
    assert placing.get("/usages?project_id=p", "1.9") == {"usages": {"VCPU": 2}}
    for wrong in (
        "project_id=",
        f"project_id={'p' * 256}",
        "project_id=p&user_id=",
        f"project_id=p&user_id={'u' * 256}",
    ):
        assert placing.ask("GET", f"/usages?{wrong}").status == 400
    assert placing.get("/usages?project_id=p") == {"usages": {"unknown": {"consumer_count": 1, "VCPU": 2}}}
    assert placing.ask("GET", "/usages").status == 400
    assert placing.ask("DELETE", f"/allocations/{me}").status == 204
    assert placing.ask("DELETE", f"/allocations/{me}").status == 404


def test_several_consumers_get_all_or_nothing(placing: Placing) -> None:
    pool, one, other = placing.provider("pool", VCPU=4), str(uuid4()), str(uuid4())

    def wish(amount: int) -> dict[str, Any]:
        resources = {pool: {"resources": {"VCPU": amount}}}
        return {
            "allocations": resources, "project_id": "p", "user_id": "u", "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }  # fmt: skip

    assert placing.ask("POST", "/allocations", {one: wish(3), other: wish(3)}).status == 409
    assert placing.usages(pool) == {"VCPU": 0}
    assert placing.ask("POST", "/allocations", {one: wish(3), other: wish(1)}).status == 204
    shown = placing.get(f"/resource_providers/{pool}/allocations")["allocations"]
    assert shown == {
        one: {"resources": {"VCPU": 3}, "consumer_generation": 1},
        other: {"resources": {"VCPU": 1}, "consumer_generation": 1},
    }
    usages = placing.get("/usages?project_id=p&consumer_type=INSTANCE")["usages"]
    assert usages == {"INSTANCE": {"consumer_count": 2, "VCPU": 4}}


@pytest.mark.parametrize("version", ["1.13", "1.27", "1.28"])
def test_among_several_consumers_one_may_get_nothing(placing: Placing, version: str) -> None:
    pool, one, other = placing.provider("pool", VCPU=4), str(uuid4()), str(uuid4())
    generation = {"consumer_generation": 1} if version == "1.28" else {}
    assert placing.take(one, of={pool: {"VCPU": 4}}).status == 204
    owner = {"project_id": "p", "user_id": "u"}
    moved = {
        one: {"allocations": {}, **owner, **generation},
        other: {"allocations": {pool: {"resources": {"VCPU": 4}}}, **owner, **dict.fromkeys(generation)},
    }
    assert placing.ask("POST", "/allocations", moved, version).status == 204
    assert placing.get(f"/allocations/{one}")["allocations"] == {}
    assert placing.get(f"/allocations/{other}")["allocations"][pool]["resources"] == {"VCPU": 4}
    assert placing.ask("PUT", f"/allocations/{other}", {"allocations": {}, **owner}, "1.27").status == 400


@pytest.mark.parametrize("mappings", [{}, {"": []}, {"a group": ["POOL"]}])
def test_mappings_say_something(placing: Placing, mappings: dict[str, list[str]]) -> None:
    pool, me = placing.provider("pool", VCPU=4), str(uuid4())
    body = {
        "allocations": {pool: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u",
        "consumer_generation": None, "mappings": {name: [pool for _ in ids] for name, ids in mappings.items()},
    }  # fmt: skip
    assert placing.ask("PUT", f"/allocations/{me}", body, "1.34").status == 400
    assert placing.ask("PUT", f"/allocations/{me}", body | {"mappings": {"": [pool]}}, "1.34").status == 204


def test_nobody_is_named_twice_in_one_body(placing: Placing) -> None:
    pool, me = placing.provider("pool", VCPU=4), str(uuid4())
    twice = placing.take(me, of={pool: {"VCPU": 1}, pool.upper(): {"VCPU": 2}})
    assert twice.status == 400 and "several times" in twice.body.decode()
    one = {
        "allocations": {pool: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u",
        "consumer_generation": None, "consumer_type": "INSTANCE",
    }  # fmt: skip
    assert placing.ask("POST", "/allocations", {me: one, me.replace("-", ""): one}).status == 400
    assert placing.usages(pool) == {"VCPU": 0}


def test_all_that_is_in_use_is_told(placing: Placing) -> None:
    pool = placing.provider("pool", DISK_GB=10, VCPU=4, MEMORY_MB=5)
    assert placing.take(str(uuid4()), of={pool: {"DISK_GB": 1, "VCPU": 1}}).status == 204
    answer = placing.ask("DELETE", f"/resource_providers/{pool}/inventories")
    assert "'DISK_GB, VCPU'" in answer.body.decode()


def test_a_server_holds_what_its_flavor_says(placing: Placing, cloud: MemoryCloud) -> None:
    demo = Asking(cloud.client("demo"))
    server_id = demo.boot(flavorRef="2")
    found = placing.get(f"/allocations/{server_id}")
    ((host, share),) = found["allocations"].items()
    assert share["resources"] == {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}
    assert (found["consumer_type"], found["project_id"]) == ("INSTANCE", demo.server(server_id)["tenant_id"])
    assert found["user_id"] == demo.server(server_id)["user_id"]
    assert placing.usages(host) == {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20}
    demo.delete(f"/servers/{server_id}")
    cloud.settle()
    assert placing.get(f"/allocations/{server_id}") == {"allocations": {}}
    assert placing.usages(host) == {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}


def test_what_clients_take_of_hosts_is_no_servers(placing: Placing, cloud: MemoryCloud) -> None:
    demo = Asking(cloud.client("demo"))
    for name in ("fake-1", "fake-2", "fake-3"):
        (host,) = placing.get(f"/resource_providers?name={name}")["resource_providers"]
        left = placing.get(f"/resource_providers/{host['uuid']}/inventories")["inventories"]["MEMORY_MB"]
        rest = left["total"] - left["reserved"] - (0 if name == "fake-3" else 1)
        if name != "fake-2":
            assert placing.take(str(uuid4()), of={host["uuid"]: {"MEMORY_MB": rest}}).status == 204
    assert Asking(placing.client).server(demo.boot())["OS-EXT-SRV-ATTR:host"] == "fake-2"


def test_the_reshaper_moves_inventories_with_what_is_taken_of_them(placing: Placing) -> None:
    root, me = placing.provider("root", VCPU=4), str(uuid4())
    child = placing.provider("child", root)
    assert placing.take(me, of={root: {"VCPU": 4}}).status == 204
    body = {
        "inventories": {
            root: {"resource_provider_generation": placing.generation(root), "inventories": {}},
            child: {
                "resource_provider_generation": placing.generation(child), "inventories": {"VCPU": {"total": 4}},
            },
        },
        "allocations": {
            me: {
                "allocations": {child: {"resources": {"VCPU": 4}}}, "project_id": "p", "user_id": "u",
                "consumer_generation": 1, "consumer_type": "INSTANCE",
            },
        },
    }  # fmt: skip
    unknown = {**body, "inventories": {UNKNOWN: body["inventories"][root]}}
    # 404 would say that there is no reshaper.
    assert code(placing.ask("POST", "/reshaper", unknown)) == (400, "resource_provider.not_found")
    half = {**body, "allocations": {}}
    assert code(placing.ask("POST", "/reshaper", half)) == (409, "inventory.inuse")
    assert placing.usages(root) == {"VCPU": 4}
    assert placing.ask("POST", "/reshaper", body).status == 204
    assert (placing.usages(root), placing.usages(child)) == ({}, {"VCPU": 4})
    assert code(placing.ask("POST", "/reshaper", body)) == (409, "concurrent_update")
    taken = {"allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": 2, "consumer_type": "X"}
    # Without inventories it has nothing to do.
    assert placing.ask("POST", "/reshaper", {"inventories": {}, "allocations": {me: taken}}).status == 400


def test_answers_are_not_to_be_kept_from_1_15_on(placing: Placing) -> None:
    def kept(path: str, version: str) -> tuple[str | None, bool]:
        headers = placing.ask("GET", path, version=version).headers
        return headers.get("Cache-Control"), "Last-Modified" in headers

    for path in ("/resource_providers", "/"):
        assert (kept(path, "1.15"), kept(path, "1.14")) == (("no-cache", True), (None, False))
    # What only says that a class was made has nothing that could be kept.
    assert "Cache-Control" not in placing.ask("PUT", "/resource_classes/CUSTOM_MAGIC").headers


def test_who_asks_for_an_unknown_version_is_told_which_there_are(placing: Placing) -> None:
    (error,) = placing.ask("GET", "/resource_providers", version="1.999").json()["errors"]
    assert [error[name] for name in ("status", "min_version", "max_version")] == [406, "1.0", LATEST]
    (error,) = placing.ask("GET", "/resource_providers", version="pony.horse").json()["errors"]
    assert error["status"] == 400 and "max_version" not in error


@pytest.mark.parametrize(
    "query", ["colour=red", "resources=VCPU", "resources=VCPU:0", "uuid=x", "in_tree=x", "name=a&name=b", "member_of=x"]
)
def test_a_wrong_query_is_refused(placing: Placing, query: str) -> None:
    assert code(placing.ask("GET", f"/resource_providers?{query}"))[0] == 400


@pytest.mark.parametrize(
    ("type", "status"),
    [("INSTANCE", 200), ("all", 200), ("unknown", 200), ("instance", 400), ("A,B", 400), ("in:A", 400), ("All", 400)],
)
def test_usages_are_of_what_can_be_a_type_of_consumers(placing: Placing, type: str, status: int) -> None:
    assert placing.ask("GET", f"/usages?project_id=p&consumer_type={type}").status == status


# -- what the scheduler makes of it


def booted(cloud: MemoryCloud, specs: dict[str, str], **wishes: Any) -> str | None:
    """The host of a new server whose flavor has these extra specs."""
    admin, demo = Asking(cloud.client("admin")), Asking(cloud.client("demo"))
    assert admin.post("/flavors/1/os-extra_specs", {"extra_specs": specs}).status == 200
    body = demo.body() | wishes
    server_id = demo.post("/servers", body).json()["server"]["id"]
    cloud.settle()
    host: str | None = admin.server(server_id)["OS-EXT-SRV-ATTR:host"]
    return host


def host_id(placing: Placing, name: str) -> str:
    return str(placing.get(f"/resource_providers?name={name}")["resource_providers"][0]["uuid"])


def test_flavors_choose_by_traits_and_classes_that_clients_have_made(placing: Placing, cloud: MemoryCloud) -> None:
    for path in ("/traits/CUSTOM_GOLD", "/resource_classes/CUSTOM_CARD"):
        assert placing.ask("PUT", path).status == 201
    second, third = host_id(placing, "fake-2"), host_id(placing, "fake-3")
    placing.put(second, "traits", traits=["COMPUTE_NODE", "CUSTOM_GOLD"])
    assert booted(cloud, {"trait:CUSTOM_GOLD": "required"}) == "fake-2"
    assert booted(cloud, {"trait:CUSTOM_GOLD": "forbidden"}) in ("fake-1", "fake-3")
    card = {"resource_class": "CUSTOM_CARD", "total": 1}
    assert placing.ask("POST", f"/resource_providers/{third}/inventories", card).status == 201
    cloud.advance(15)  # what the driver tells of the host takes nothing away
    assert booted(cloud, {"resources:CUSTOM_CARD": "1"}) == "fake-3"
    assert placing.usages(third)["CUSTOM_CARD"] == 1
    assert booted(cloud, {"resources:CUSTOM_CARD": "1"}) is None


def test_hints_choose(placing: Placing, cloud: MemoryCloud) -> None:
    hosts = Asking(placing.client).get("/os-hypervisors/detail").json()["hypervisors"]
    empty = hosts[0]["free_disk_gb"] * 1024
    used = {"os:scheduler_hints": {"query": f'["<", "$free_disk_mb", {empty}]'}}
    assert booted(cloud, {}, **used) is None
    assert booted(cloud, {}) == booted(cloud, {}, **used)
    assert booted(cloud, {}, **{"os:scheduler_hints": {"query": "no JSON"}}) is None
    near = {"build_near_host_ip": "127.0.0.9", "cidr": "/24"}
    assert booted(cloud, {}, **{"os:scheduler_hints": near}) is not None
    far = {"build_near_host_ip": "10.0.0.9", "cidr": "/24"}
    assert booted(cloud, {}, **{"os:scheduler_hints": far}) is None


def test_flavors_choose_by_aggregates(placing: Placing, cloud: MemoryCloud) -> None:
    compute = Asking(placing.client)
    made = compute.post("/os-aggregates", {"aggregate": {"name": "fast"}}).json()["aggregate"]
    path = f"/os-aggregates/{made['id']}/action"
    compute.post(path, {"add_host": {"host": "fake-3"}})
    compute.post(path, {"set_metadata": {"metadata": {"disk": "ssd"}}})
    assert booted(cloud, {"aggregate_instance_extra_specs:disk": "ssd"}) == "fake-3"
