"""The wires that networks are on, and which numbers they get there."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.network.segment_ranges import Span, without
from tests.network.conftest import Neutron

RANGES = "/network_segment_ranges"


def test_a_network_has_a_segment_and_subnets_say_so(neutron: Neutron) -> None:
    network = neutron.network(None, "admin", provider__network_type="vxlan", provider__segmentation_id=77)
    (segment,) = neutron.get(f"/segments?network_id={network['id']}", "admin")["segments"]
    shown = {name: segment[name] for name in ("network_type", "physical_network", "segmentation_id", "name")}
    assert shown == {"network_type": "vxlan", "physical_network": None, "segmentation_id": 77, "name": None}
    path = f"/segments/{segment['id']}"
    changed = neutron.expect(200, "PUT", path, {"segment": {"name": "s", "description": None}}, "admin")["segment"]
    assert (changed["name"], changed["description"], changed["revision_number"]) == ("s", "", 1)
    subnet = neutron.create(
        "subnet", "admin", network_id=network["id"], ip_version=4, cidr="10.9.0.0/24", segment_id=segment["id"]
    )
    assert subnet["segment_id"] == segment["id"]
    other = neutron.network(None, "admin")
    body = {"subnet": {"network_id": other["id"], "ip_version": 4, "cidr": "10.8.0.0/24", "segment_id": segment["id"]}}
    neutron.refused(400, "NetworkIdsDontMatch", "POST", "/subnets", body, "admin")
    neutron.expect(204, "DELETE", f"/networks/{network['id']}", user="admin")
    neutron.refused(404, "SegmentNotFound", "GET", path, user="admin")


def make(neutron: Neutron, **fields: Any) -> Any:
    said = {"network_type": "vxlan", "minimum": 1100, "maximum": 1102, **fields}
    return neutron.expect(201, "POST", RANGES, {"network_segment_range": said}, "admin")["network_segment_range"]


def number(neutron: Neutron, user: str) -> int:
    """Of a new network."""
    made = neutron.create("network", user)
    return int(neutron.get(f"/networks/{made['id']}", "admin")["network"]["provider:segmentation_id"])


def test_a_project_has_numbers_of_its_own(neutron: Neutron) -> None:
    made = make(neutron, shared=False, project_id="demo")
    assert (made["default"], made["shared"], made["project_id"]) == (False, False, "demo")
    assert (made["used"], made["available"]) == ({}, [1100, 1101, 1102])
    found = sorted(number(neutron, "demo") for _ in range(3))
    assert found == [1100, 1101, 1102]
    # Then it has the others' numbers, as everybody has.
    assert number(neutron, "demo") not in found
    path = f"{RANGES}/{made['id']}"
    shown = neutron.get(path, "admin")["network_segment_range"]
    assert (shown["used"], shown["available"]) == ({str(each): "demo" for each in found}, [])
    body = {"network_segment_range": {"minimum": 1101}}
    neutron.refused(409, "NetworkSegmentRangeReferencedByProject", "PUT", path, body, "admin")
    neutron.refused(409, "NetworkSegmentRangeReferencedByProject", "DELETE", path, user="admin")
    wider = {"network_segment_range": {"name": "n", "minimum": 1050}}
    changed = neutron.expect(200, "PUT", path, wider, "admin")["network_segment_range"]
    assert (changed["name"], changed["minimum"]) == ("n", 1050)


def test_nobody_else_gets_them(neutron: Neutron) -> None:
    """With all but two of the configuration's numbers for one project, another one has these two."""
    most = neutron.options.vni_maximum
    for minimum, maximum in ((1, 500), (503, most)):
        make(neutron, shared=False, project_id="other", minimum=minimum, maximum=maximum)
    assert {number(neutron, "demo"), number(neutron, "demo")} == {501, 502}
    neutron.refused(503, "NoNetworkAvailable", "POST", "/networks", {"network": {}})


def test_numbers_are_low_as_long_as_there_is_room(neutron: Neutron) -> None:
    assert all(number(neutron, "demo") <= 2000 for _ in range(5))
    make(neutron, shared=False, project_id="other", minimum=1, maximum=2000)
    assert number(neutron, "demo") > 2000


def test_the_configurations_are_listed_and_stay(neutron: Neutron) -> None:
    found = neutron.get(f"{RANGES}?default=true&sort_key=network_type&sort_dir=asc", "admin")
    vlan, vxlan = found["network_segment_ranges"]
    assert (vlan["physical_network"], vlan["minimum"], vlan["maximum"]) == ("public", 1, 4094)
    assert (vxlan["network_type"], vxlan["maximum"], vxlan["shared"]) == ("vxlan", neutron.options.vni_maximum, True)
    # By its other name, and once more, they are the same ones.
    again = neutron.get("/network-segment-ranges?default=true&sort_key=network_type&sort_dir=asc", "admin")
    assert again["network_segment_ranges"] == [vlan, vxlan]
    path = f"{RANGES}/{vlan['id']}"
    neutron.refused(400, "NetworkSegmentRangeDefaultReadOnly", "DELETE", path, user="admin")


@pytest.mark.parametrize("collection", [RANGES, "/network-segment-ranges"])
def test_they_have_tags_for_those_who_see_them(neutron: Neutron, collection: str) -> None:
    path = f"{collection}/{make(neutron, shared=False, project_id='demo', tags=['a'])['id']}/tags"
    assert neutron.expect(200, "PUT", path, {"tags": ["b", "c"]}, "admin") == {"tags": ["b", "c"]}
    assert neutron.get(path, "admin") == {"tags": ["b", "c"]}
    assert neutron.get(f"{RANGES}?tags=b,c", "admin")["network_segment_ranges"][0]["tags"] == ["b", "c"]
    for method, body in (("GET", None), ("PUT", {"tags": []})):
        neutron.refused(404, "TagResourceNotFound", method, path, body)


@pytest.mark.parametrize(
    "said",
    [
        {"network_type": "vlan", "minimum": 1, "maximum": 5000, "physical_network": "public"},
        {"network_type": "vlan", "minimum": 1, "maximum": 5},
        {"network_type": "vxlan", "minimum": 1, "maximum": 5, "physical_network": "public"},
        {"network_type": "vxlan", "minimum": 5, "maximum": 4},
        {"network_type": "vxlan", "minimum": 1, "maximum": 4, "shared": True, "project_id": "demo"},
    ],
)
def test_what_is_no_range(neutron: Neutron, said: Any) -> None:
    neutron.refused(400, "InvalidInput", "POST", RANGES, {"network_segment_range": said}, "admin")


def test_no_two_that_somebody_made_have_a_number_in_common(neutron: Neutron) -> None:
    made, other = make(neutron, default=False), make(neutron, minimum=1200, maximum=1300)
    same = {"network_segment_range": {"network_type": "vxlan", "minimum": 1102, "maximum": 1110}}
    neutron.refused(409, "NetworkSegmentRangeOverlaps", "POST", RANGES, same, "admin")
    wider = {"network_segment_range": {"minimum": 1102}}
    neutron.refused(409, "NetworkSegmentRangeOverlaps", "PUT", f"{RANGES}/{other['id']}", wider, "admin")
    # On a wire of their own they are others.
    make(neutron, network_type="vlan", physical_network="elsewhere")
    said = {"network_segment_range": {"network_type": "vxlan", "minimum": 1, "maximum": 2, "default": True}}
    neutron.refused(400, "HTTPBadRequest", "POST", RANGES, said, "admin")
    assert neutron.get(f"{RANGES}/{made['id']}", "admin")["network_segment_range"]["default"] is False


def test_spans_without_others() -> None:
    every = [Span(1, 10)]
    assert without(every, [Span(3, 4)]) == [Span(1, 2), Span(5, 10)]
    assert without(every, [Span(1, 10)]) == []
    assert without(every, [Span(0, 2), Span(9, 20)]) == [Span(3, 8)]
    assert without(every, [Span(11, 12)]) == every


def test_tunnels_of_another_kind_have_ranges_of_their_own(neutron: Neutron) -> None:
    make(neutron, network_type="geneve", shared=False, project_id="admin", minimum=2013, maximum=2013)
    made = neutron.create("network", "admin", provider__network_type="geneve")
    assert made["provider:segmentation_id"] == 2013
