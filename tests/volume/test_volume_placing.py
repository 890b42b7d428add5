"""Which pool takes a volume of a type."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.specs import Capacity
from cloudctl.volume import placing
from cloudctl.volume.placing import Pool
from tests.volume.asking import LATEST, V3, volume


def pool(name: str, free: int, multiattach: bool = True) -> Pool:
    capacity = Capacity(100, free, 100 - free, thin=False, multiattach=multiattach, storage_protocol="iSCSI")
    return Pool(f"node@{name}#{name}", capacity)


@pytest.mark.parametrize(
    ("told", "wish", "met"),
    [
        (True, "<is> True", True), (True, "<is> False", False), ("iSCSI", "iscsi", True), ("iSCSI", "s== iSCSI", True),
        ("iSCSI", "s!= iSCSI", False), ("iSCSI", "<in> SCS", True), ("iSCSI", "<or> nbd <or> iSCSI", True),
        (100, ">= 100", True), (100, "= 101", False), (100, "> 100", False), (100, "== 100", True), (100, "!= 5", True),
        ("iSCSI", ">= 5", False), (100, "", False), (100, "100", True),
    ],
)  # fmt: skip
def test_extra_specs_ask_for_capabilities(told: object, wish: str, met: bool) -> None:
    assert placing.meets(told, wish) is met


def test_the_one_with_most_room_of_those_that_fit_is_taken() -> None:
    pools = [pool("a", 10), pool("b", 30), pool("c", 20, multiattach=False)]

    def chosen(size: int = 1, **specs: str) -> str | None:
        found = placing.choose(pools, {key.replace("__", ":"): value for key, value in specs.items()}, size)
        return None if found is None else found.host

    assert chosen() == "node@b#b"
    assert chosen(31) is None
    assert chosen(volume_backend_name="c") == "node@c#c"
    assert chosen(volume_backend_name="c", multiattach="<is> True") is None
    assert chosen(capabilities__multiattach="<is> False") == "node@c#c"
    assert chosen(capabilities__colour="red") is None
    # A word without a scope of which a pool says something is asked of it, too; others are notes of people.
    assert chosen(storage_protocol="iSCSI", vendor_name="Open Source") == "node@b#b"
    assert chosen(vendor_name="Somebody") is None
    assert chosen(colour="red", provisioning__min_vol_size="9") == "node@b#b"


def test_the_only_backend_has_to_be_what_the_type_asks_for(cloud: Any, admin: Any, demo: Any, make: Any) -> None:
    for name, vendor, status in (("ours", "Open Source", "available"), ("theirs", "Somebody", "error")):
        wish = {"name": name, "extra_specs": {"vendor_name": vendor, "note": "for nobody here"}}
        assert admin.post(f"{V3}/types", {"volume_type": wish}).status == 200
        assert volume(demo, make(volume_type=name)["id"])["status"] == status
    (told,) = demo.get(f"{V3}/messages", headers=LATEST).json()["messages"]
    assert told["event_id"] == "VOLUME_VOLUME_001_003"


def test_a_volume_that_no_backend_took_is_gone_with_the_answer(admin: Any, demo: Any, make: Any) -> None:
    wish = {"name": "theirs", "extra_specs": {"vendor_name": "Somebody"}}
    type_id = admin.post(f"{V3}/types", {"volume_type": wish}).json()["volume_type"]["id"]
    id = make(volume_type="theirs")["id"]
    assert volume(admin, id)["os-vol-host-attr:host"] is None
    assert demo.delete(f"{V3}/volumes/{id}").status == 202
    # Nothing is waited for: its type is not used any more, either.
    assert demo.get(f"{V3}/volumes/{id}").status == 404
    assert admin.delete(f"{V3}/types/{type_id}").status == 202
