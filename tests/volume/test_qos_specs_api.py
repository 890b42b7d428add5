"""QoS specs over HTTP. Reference: volume.md, section 8."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.volume import qos_specs
from tests.volume.asking import LATEST, V3, act

URL, TYPES = f"{V3}/qos-specs", f"{V3}/types"


@pytest.fixture
def gold(admin: Any) -> dict[str, Any]:
    answer = admin.post(URL, {"qos_specs": {"name": "gold", "consumer": "front-end", "read_iops_sec": "2000"}})
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json()["qos_specs"]
    return found


def made_type(admin: Any, name: str) -> str:
    return str(admin.post(TYPES, {"volume_type": {"name": name}}).json()["volume_type"]["id"])


def test_qos_specs_live_and_go(admin: Any, gold: dict[str, Any]) -> None:
    one = f"{URL}/{gold['id']}"
    assert gold == {
        "id": gold["id"], "name": "gold", "consumer": "front-end", "specs": {"read_iops_sec": "2000"},
    }  # fmt: skip
    shown = admin.get(one).json()
    assert shown["qos_specs"] == gold and [link["rel"] for link in shown["links"]] == ["self", "bookmark"]
    assert admin.get(URL).json() == {"qos_specs": [gold]}
    assert admin.put(one, {"qos_specs": {"iops": "5"}}).json() == {"qos_specs": {"iops": "5"}}
    assert admin.put(one, {"qos_specs": {"consumer": "both"}}).json() == {"qos_specs": {"consumer": "both"}}
    changed = admin.get(one).json()["qos_specs"]
    assert changed["consumer"] == "both" and changed["specs"] == {"read_iops_sec": "2000", "iops": "5"}
    assert admin.put(f"{one}/delete_keys", {"keys": ["iops"]}).status == 202
    assert admin.put(f"{one}/delete_keys", {"keys": ["iops"]}).status == 404
    assert admin.get(one).json()["qos_specs"]["specs"] == gold["specs"]
    assert admin.delete(one).status == 202
    assert [admin.get(one).status, admin.delete(one).status] == [404, 404]


def test_names_are_taken_once(admin: Any, gold: dict[str, Any]) -> None:
    assert admin.post(URL, {"qos_specs": {"name": "gold"}}).status == 409
    silver = admin.post(URL, {"qos_specs": {"name": "silver"}}).json()["qos_specs"]
    assert silver["consumer"] == "back-end"
    assert [each["name"] for each in admin.get(f"{URL}?consumer=back-end").json()["qos_specs"]] == ["silver"]
    page = admin.get(f"{URL}?limit=1&sort=name:asc").json()
    assert [each["name"] for each in page["qos_specs"]] == ["gold"] and "qos_specs_links" in page


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "x", "consumer": "nobody"}, {"name": "x", "iops": 5}, {"name": "x", "a/b": "c"},
     {"name": "x", "iops": "y" * 256}],
)  # fmt: skip
def test_wrong_specs_are_refused(admin: Any, body: Any) -> None:
    assert admin.post(URL, {"qos_specs": body}).status == 400


def test_types_have_qos_specs(admin: Any, gold: dict[str, Any]) -> None:
    one, fast, slow = f"{URL}/{gold['id']}", made_type(admin, "fast"), made_type(admin, "slow")
    for type_id in (fast, slow, fast):
        assert admin.get(f"{one}/associate?vol_type_id={type_id}").status == 202
    assert admin.get(f"{one}/associations").json() == {
        "qos_associations": [
            {"association_type": "volume_type", "name": "fast", "id": fast},
            {"association_type": "volume_type", "name": "slow", "id": slow},
        ]
    }
    assert admin.get(f"{TYPES}/{fast}").json()["volume_type"]["qos_specs_id"] == gold["id"]
    other = admin.post(URL, {"qos_specs": {"name": "other"}}).json()["qos_specs"]["id"]
    assert admin.get(f"{URL}/{other}/associate?vol_type_id={fast}").status == 400
    assert admin.get(f"{URL}/{other}/disassociate?vol_type_id={fast}").status == 202
    assert admin.delete(one).status == 409
    assert admin.get(f"{one}/disassociate?vol_type_id={fast}").status == 202
    assert [each["id"] for each in admin.get(f"{one}/associations").json()["qos_associations"]] == [slow]
    assert admin.delete(f"{TYPES}/{slow}").status == 202
    admin.get(f"{one}/associate?vol_type_id={fast}")
    assert admin.get(f"{one}/disassociate_all").status == 202
    assert admin.get(f"{one}/associations").json() == {"qos_associations": []}
    assert admin.get(f"{one}/associate").status == 400
    assert admin.get(f"{one}/associate?vol_type_id=none").status == 404


def test_specs_that_types_have_go_by_force(admin: Any, gold: dict[str, Any]) -> None:
    fast = made_type(admin, "fast")
    admin.get(f"{URL}/{gold['id']}/associate?vol_type_id={fast}")
    assert admin.delete(f"{URL}/{gold['id']}?force=true").status == 202
    assert admin.get(f"{TYPES}/{fast}").json()["volume_type"]["qos_specs_id"] is None


def test_they_are_for_administrators(demo: Any, gold: dict[str, Any]) -> None:
    asked = (demo.get(URL), demo.get(f"{URL}/{gold['id']}"), demo.delete(f"{URL}/{gold['id']}"),
             demo.post(URL, {"qos_specs": {"name": "x"}}))  # fmt: skip
    assert {answer.status for answer in asked} == {403}


@pytest.mark.parametrize(("consumer", "told"), [("front-end", True), ("both", True), ("back-end", False)])
def test_who_connects_a_volume_is_told_what_it_may_do(
    admin: Any, demo: Any, make: Any, consumer: str, told: bool
) -> None:
    specs = {"total_iops_sec_per_gb": "100", "total_iops_sec_max": "150", "read_bytes_sec": "9", "note": "x"}
    gold = admin.post(URL, {"qos_specs": {"name": "gold", "consumer": consumer, **specs}}).json()["qos_specs"]["id"]
    made = admin.post(f"{V3}/types", {"volume_type": {"name": "fast"}}).json()["volume_type"]["id"]
    assert admin.get(f"{URL}/{gold}/associate?vol_type_id={made}").status == 202
    expected = {"total_iops_sec": 150, "read_bytes_sec": "9", "note": "x"} if told else None
    id, connector = make(size=2, volume_type="fast")["id"], {"host": "h1"}
    info = act(demo, id, "os-initialize_connection", {"connector": connector}).json()["connection_info"]
    assert info["data"]["qos_specs"] == expected
    body = {"attachment": {"volume_uuid": id, "connector": connector}}
    attachment = demo.post(f"{V3}/attachments", body, headers=LATEST).json()["attachment"]
    assert attachment["connection_info"]["qos_specs"] == expected


@pytest.mark.parametrize(
    ("specs", "found"),
    [
        ({"write_bytes_sec_per_gb": "5"}, {"write_bytes_sec": 20}),
        ({"write_bytes_sec_per_gb": "5", "write_bytes_sec_per_gb_min": "30"}, {"write_bytes_sec": 30}),
        ({"write_bytes_sec_per_gb": "5", "write_bytes_sec_max": "10"}, {"write_bytes_sec": 10}),
        ({"write_bytes_sec_max": "10"}, {"write_bytes_sec_max": "10"}),
        ({"read_iops_sec_per_gb": "many"}, {"read_iops_sec_per_gb": "many"}),
        ({"read_iops_sec_per_gb": "1", "read_iops_sec_max": "few"}, {"read_iops_sec": 4}),
    ],
)
def test_what_a_volume_may_do_may_depend_on_its_size(specs: dict[str, str], found: dict[str, Any]) -> None:
    assert qos_specs.resolved(specs, 4) == found
