"""What a create answers: the record as a GET shows it, though what a new record cannot have is not looked up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.network.conftest import Neutron
from tests.statements import asked

MADE = [
    ("/networks", "network", {}),
    ("/networks", "network", {"shared": True, "tags": ["b", "a"]}),
    ("/networks", "network", {"router:external": True}),
    ("/security-groups", "security_group", {"tags": ["b", "a"]}),
    ("/address-groups", "address_group", {"addresses": ["192.0.2.1/32"]}),
    ("/address-scopes", "address_scope", {"ip_version": 4}),
    ("/address-scopes", "address_scope", {"ip_version": 6, "shared": True}),
    ("/subnetpools", "subnetpool", {"prefixes": ["10.9.0.0/16"]}),
    ("/subnetpools", "subnetpool", {"prefixes": ["10.9.0.0/16"], "shared": True, "tags": ["a"]}),
    ("/qos/policies", "policy", {}),
    ("/qos/policies", "policy", {"shared": True, "tags": ["a"]}),
    ("/routers", "router", {"tags": ["a"]}),
]


@pytest.mark.parametrize(("path", "name", "wanted"), MADE)
def test_a_create_answers_what_is_then_shown(neutron: Neutron, path: str, name: str, wanted: dict[str, Any]) -> None:
    body = {"name": "n", "project_id": "demo", **wanted}
    made = neutron.expect(201, "POST", path, {name: body}, "admin")[name]
    assert neutron.expect(200, "GET", f"{path}/{made['id']}", None, "admin")[name] == made


@pytest.mark.parametrize("wanted", [{}, {"tags": ["b", "a"]}])
def test_so_do_those_of_networks(neutron: Neutron, wanted: dict[str, Any]) -> None:
    network = neutron.network()
    subnet = {"network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/24", **wanted}
    for path, name, body in [
        ("/subnets", "subnet", subnet),
        ("/ports", "port", {"network_id": network["id"], **wanted}),
    ]:
        made = neutron.expect(201, "POST", path, {name: body})[name]
        assert neutron.expect(200, "GET", f"{path}/{made['id']}")[name] == made


def test_what_several_bodies_ask_for_is_shown_of_each(neutron: Neutron) -> None:
    made = neutron.expect(201, "POST", "/networks", {"networks": [{"name": "a"}, {"name": "b", "tags": ["t"]}]})
    assert [each["tags"] for each in made["networks"]] == [[], ["t"]]


def test_nothing_is_read_that_a_new_record_cannot_have(neutron: Neutron) -> None:
    network = neutron.network()
    with asked() as seen:
        neutron.create("network")
        neutron.create("port", network_id=network["id"])
    read = " ".join(text for text, _ in seen if text.startswith("SELECT"))
    assert "FROM ports" in read or "FROM networks" in read
    assert not [table for table in ("network_tags", "rbac_policies", "trunks", "subnet_pools") if table in read]
