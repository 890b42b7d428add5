"""Versions, extensions, quotas, tags, zones, and what is not offered. Reference: network.md, sections 12 to 19."""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import directlyProvides

from cloudctl.drivers.interfaces import INetworkBackend
from cloudctl.network import api
from cloudctl.network.api.extensions import offered
from cloudctl.network.api.ports import PORTS
from tests.network.conftest import Neutron

DEFAULTS = {
    "network": 100, "subnet": 100, "port": 500, "router": 10, "floatingip": 50, "security_group": 10,
    "security_group_rule": 100, "rbac_policy": 10, "subnetpool": -1, "trunk": -1,
}  # fmt: skip


@pytest.mark.parametrize("path", ["/networking", "/networking/"])
def test_the_version_document_needs_no_token(neutron: Neutron, path: str) -> None:
    href = "http://cloud.example.com/networking/v2.0/"
    versions = [{"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": href}]}]
    for user in ("", "nonsense"):
        assert neutron.expect(200, "GET", path, user=user) == {"versions": versions}


@pytest.mark.parametrize(
    ("method", "path", "user", "status", "allowed"),
    [
        ("HEAD", "/networks", "demo", 405, "GET, POST"),
        ("HEAD", "/networks/x", "demo", 405, "DELETE, GET, PUT"),
        ("HEAD", "/networks", "", 405, "GET, POST"),
        ("HEAD", "/nothing", "demo", 404, None),
        ("HEAD", "/", "", 200, None),
        ("HEAD", "/networking", "", 200, None),
        ("HEAD", "/networks.json", "demo", 405, "GET, POST"),
        ("HEAD", "/nothing.json", "demo", 404, None),
        ("PATCH", "/networks", "demo", 405, "GET, POST"),
        ("PATCH", "/networks.json", "demo", 405, "GET, POST"),
        ("POST", "/routers/x/add_router_interface.json", "demo", 405, "PUT"),
        ("PATCH", "/networks/.json", "demo", 405, "DELETE, GET, PUT"),
        ("PATCH", "/nothing.json", "demo", 404, None),
        ("PATCH", "/networks/x.json", "demo", 405, "DELETE, GET, PUT"),
        ("PATCH", "/", "", 405, "GET, HEAD"),
    ],
)
def test_head_is_for_what_everybody_may_read(
    neutron: Neutron, method: str, path: str, user: str, status: int, allowed: str | None
) -> None:
    answer = neutron.ask(method, path, user=user)
    assert (answer.status, answer.headers.get("allow")) == (status, allowed)
    assert method != "HEAD" or answer.body == b""


def test_the_resources_are_listed_and_there(neutron: Neutron) -> None:
    for path in ("/networking/v2.0", "/networking/v2.0/"):
        resources = neutron.expect(200, "GET", path, user="")["resources"]
    assert {"network", "subnet", "port"} <= {resource["name"] for resource in resources}
    for resource in resources:
        (link,) = resource["links"]
        neutron.get(link["href"].removeprefix("http://cloud.example.com"), "admin")


def test_a_body_may_name_a_project_where_something_else_says_whose_the_record_is(neutron: Neutron) -> None:
    external, network = neutron.external(), neutron.network()
    router = neutron.router(network, external=external)
    port = neutron.create("port", network_id=network["id"])
    ip = neutron.create("floatingip", floating_network_id=external["id"])
    local = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"network_id": network["id"]}})["local_ip"]
    bound = neutron.create("port", "admin", network_id=network["id"], project_id="demo", binding__host_id="h1")
    forwarding = {"internal_port_id": port["id"], "internal_port": 22, "external_port": 2222, "protocol": "tcp"}
    for path, key, said in (
        (
            f"/routers/{router['id']}/conntrack_helpers",
            "conntrack_helper",
            {"protocol": "tcp", "port": 21, "helper": "ftp"},
        ),
        (f"/floatingips/{ip['id']}/port_forwardings", "port_forwarding", forwarding),
        (f"/local_ips/{local['id']}/port_associations", "port_association", {"fixed_port_id": bound["id"]}),
    ):
        for wrong in ({"project_id": "other"}, {"tenant_id": "other"}, {"project_id": "demo", "tenant_id": "other"}):
            neutron.refused(400, "HTTPBadRequest", "POST", path, {key: {**said, **wrong}})
        own = {"project_id": "demo", "tenant_id": "demo"}
        made = neutron.expect(201, "POST", path, {key: {**said, **own}})[key]
        assert not own.keys() & made.keys()
    for path, key, said in (
        ("/flavors", "flavor", {"service_type": "L3_ROUTER_NAT"}),
        ("/service_profiles", "service_profile", {"metainfo": "m"}),
        ("/default-security-group-rules", "default_security_group_rule", {"direction": "ingress", "protocol": "tcp"}),
        ("/segments", "segment", {"network_id": network["id"], "network_type": "vxlan"}),
    ):
        made = neutron.expect(201, "POST", path, {key: {**said, "project_id": "demo"}}, "admin")[key]
        assert "project_id" not in made


def test_extensions(neutron: Neutron) -> None:
    extensions = neutron.get("/extensions")["extensions"]
    for extension in extensions:
        assert set(extension) == {"alias", "name", "description", "updated", "links"}
        assert neutron.get(f"/extensions/{extension['alias']}") == {"extension": extension}
    neutron.refused(404, "ExtensionsNotFound", "GET", "/extensions/bgp")
    aliases = {extension["alias"] for extension in extensions}
    assert {"security-group", "external-net", "quotas", "tag", "tag-creation"} <= aliases


def test_what_the_driver_cannot_do_is_not_offered(neutron: Neutron) -> None:
    class Plain:
        pass

    plain = Plain()
    directlyProvides(plain, INetworkBackend)
    left, all_of_them = offered(plain), offered(neutron.driver)
    assert set(all_of_them) == {each["alias"] for each in neutron.get("/extensions")["extensions"]}
    missing = {"router", "trunk", "extra_dhcp_opt", "floating-ip-port-forwarding", "dhcp_agent_scheduler", "qos-pps"}
    assert missing <= all_of_them.keys() - left.keys()
    names = {each.name for each in PORTS.of(plain).attributes}
    assert {"name", "dns_name"} <= names and not {"extra_dhcp_opts", "trunk_details"} & names
    made: Any = api.build
    paths = {path for path, _ in made(neutron.api.pipeline.http, None, plain, "plain", neutron.options).operations}
    assert not [path for path in paths if "trunks" in path or "port_forwardings" in path or "dscp_marking" in path]


@pytest.mark.parametrize("path", ["/bgp-speakers", "/vpnservices", "/nothing/x/tags", "/networks/x/y"])
def test_what_is_not_offered_is_an_unknown_path(neutron: Neutron, path: str) -> None:
    neutron.refused(404, "HTTPNotFound", "GET", path, user="admin")


def test_clients_may_say_that_they_want_json_at_the_end_of_a_path(neutron: Neutron) -> None:
    """fog does, wherever it changes a network, a port or a router."""
    network, router = neutron.network(), neutron.create("router")
    path, subnet = f"/networks/{network['id']}", {"subnet_id": network["subnets"][0]}
    assert neutron.expect(200, "PUT", f"{path}.json", {"network": {"name": "new"}})["network"]["name"] == "new"
    assert [each["name"] for each in neutron.get("/networks.json?name=new")["networks"]] == ["new"]
    neutron.expect(200, "PUT", f"/routers/{router['id']}/add_router_interface.json", subnet)
    neutron.expect(201, "PUT", f"{path}/tags/site.json")
    assert neutron.get(f"{path}/tags.json") == {"tags": ["site.json"]}


def test_zones_and_providers(neutron: Neutron) -> None:
    zones = [{"name": "nova", "resource": resource, "state": "available"} for resource in ("network", "router")]
    assert neutron.get("/availability_zones") == {"availability_zones": zones}
    kinds = {each["name"]: each for each in neutron.get("/service-providers")["service_providers"]}
    assert set(kinds) == {"dvr", "dvrha", "ha", "single_node"}
    assert kinds["ha"] == {"service_type": "L3_ROUTER_NAT", "name": "ha", "default": False}
    (default,) = neutron.get("/service-providers?default=true&fields=name")["service_providers"]
    assert default == {"name": "single_node"}
    neutron.expect(400, "GET", "/service-providers?colour=red")
    made = neutron.network(availability_zone_hints=["nova"])
    assert (made["availability_zone_hints"], made["availability_zones"]) == (["nova"], ["nova"])


class TestQuotas:
    def test_a_project_begins_with_the_defaults(self, neutron: Neutron) -> None:
        for path in ("/quotas/demo", "/quotas/demo/default"):
            assert neutron.get(path) == {"quota": DEFAULTS}
        assert neutron.get("/quotas", "admin") == {"quotas": []}
        assert neutron.get("/quotas/tenant") == {"tenant": {"tenant_id": "demo"}}
        assert neutron.get("/quotas/project") == {"project": {"project_id": "demo"}}

    def test_administrators_set_and_reset_them(self, neutron: Neutron) -> None:
        wanted = {"network": "5", "port": -1}
        expected = DEFAULTS | {"network": 5, "port": -1}
        assert neutron.expect(200, "PUT", "/quotas/demo", {"quota": wanted}, "admin") == {"quota": expected}
        assert neutron.get("/quotas/demo") == {"quota": expected}
        listed = [{**expected, "project_id": "demo", "tenant_id": "demo"}]
        assert neutron.get("/quotas", "admin") == {"quotas": listed}
        neutron.expect(204, "DELETE", "/quotas/demo", user="admin")
        assert neutron.get("/quotas/demo", "admin") == {"quota": DEFAULTS}

    def test_details_show_what_is_used(self, neutron: Neutron) -> None:
        neutron.create("port", network_id=neutron.network()["id"])
        for path in ("/quotas/demo/details", "/quotas/demo/details.json"):
            details = neutron.get(path)["quota"]
            assert {name: each["used"] for name, each in details.items()} == {
                "network": 1, "subnet": 1, "port": 2, "router": 0, "floatingip": 0, "security_group": 1,
                "security_group_rule": 4, "rbac_policy": 0, "subnetpool": 0, "trunk": 0,
            }  # fmt: skip
            # The second gives out the network's addresses.
            assert details["port"] == {"limit": 500, "used": 2, "reserved": 0}

    def test_a_limit_below_the_use_needs_force(self, neutron: Neutron) -> None:
        neutron.network()
        neutron.expect(400, "PUT", "/quotas/demo", {"quota": {"network": 0}}, "admin")
        neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"network": 0, "force": True}}, "admin")
        assert neutron.get("/quotas/demo")["quota"]["network"] == 0

    @pytest.mark.parametrize(
        "quota", [{"network": -2}, {"network": 2**31}, {"network": None}, {"vpn": 1}, {"network": "x"}]
    )
    def test_values_that_are_none_are_refused(self, neutron: Neutron, quota: dict[str, Any]) -> None:
        neutron.refused(400, "HTTPBadRequest", "PUT", "/quotas/demo", {"quota": quota}, "admin")


class TestTags:
    @pytest.fixture
    def path(self, neutron: Neutron) -> str:
        return f"/networks/{neutron.network(tags=['b', 'a'])['id']}/tags"

    def test_they_are_read_replaced_added_and_removed(self, neutron: Neutron, path: str) -> None:
        assert neutron.get(path) == {"tags": ["a", "b"]}
        assert neutron.expect(200, "PUT", path, {"tags": ["c", "c"]}) == {"tags": ["c"]}
        assert neutron.expect(201, "POST", path, {"tags": ["d"]}) == {"tags": ["c", "d"]}
        neutron.expect(201, "PUT", f"{path}/e%20f")
        neutron.expect(204, "GET", f"{path}/e%20f")
        neutron.refused(404, "TagNotFound", "GET", f"{path}/x")
        neutron.expect(204, "DELETE", f"{path}/c")
        neutron.refused(404, "TagNotFound", "DELETE", f"{path}/c")
        assert neutron.get(path.removesuffix("/tags"))["network"]["tags"] == ["d", "e f"]
        neutron.expect(204, "DELETE", path)
        assert neutron.get(path) == {"tags": []}

    def test_they_change_the_revision(self, neutron: Neutron, path: str) -> None:
        before = neutron.get(path.removesuffix("/tags"))["network"]["revision_number"]
        neutron.expect(200, "PUT", path, {"tags": []})
        assert neutron.get(path.removesuffix("/tags"))["network"]["revision_number"] == before + 1

    def test_their_number_and_length_are_limited(self, neutron: Neutron, path: str) -> None:
        many = [str(number) for number in range(51)]
        neutron.expect(400, "PUT", path, {"tags": many})
        neutron.expect(200, "PUT", path, {"tags": many[:50]})
        neutron.expect(400, "POST", path, {"tags": ["x"]})
        neutron.expect(400, "PUT", path, {"tags": ["x" * 256]})
        neutron.expect(400, "PUT", f"{path}/{'x' * 256}")
        neutron.expect(400, "PUT", path, {"tags": [""]})

    def test_readers_and_strangers_do_not_write_them(self, neutron: Neutron, path: str) -> None:
        neutron.expect(403, "PUT", path, {"tags": []}, "reader")
        shared = neutron.network(user="admin", shared=True)
        assert neutron.get(f"/networks/{shared['id']}/tags") == {"tags": []}
        neutron.expect(403, "PUT", f"/networks/{shared['id']}/tags", {"tags": ["x"]})

    def test_they_go_with_their_record(self, neutron: Neutron, path: str) -> None:
        neutron.expect(204, "DELETE", path.removesuffix("/tags"))
        from cloudctl.network.tables import NetworkTag

        assert neutron.transact(lambda conn: conn.execute(NetworkTag.table.select()).all()) == []


def test_where_floating_ips_can_be_had(neutron: Neutron) -> None:
    external, inside = neutron.external(), neutron.network()
    neutron.create("subnet", "admin", network_id=external["id"], ip_version=6, cidr="2001:db8::/64")
    (pool,) = neutron.get("/floatingip_pools")["floatingip_pools"]
    assert pool == {
        "subnet_id": external["subnets"][0], "subnet_name": "", "network_id": external["id"],
        "cidr": "203.0.113.0/24", "project_id": "admin", "tenant_id": "admin",
    }  # fmt: skip
    assert neutron.get(f"/floatingip_pools?network_id={inside['id']}") == {"floatingip_pools": []}
    assert neutron.get("/floatingip_pools?fields=cidr") == {"floatingip_pools": [{"cidr": "203.0.113.0/24"}]}
    neutron.expect(400, "GET", "/floatingip_pools?x=1")
    assert neutron.get("/floatingip-pools") == neutron.get("/floatingip_pools")


def test_types_of_rules_that_the_driver_obeys_or_all(neutron: Neutron) -> None:
    every = {"bandwidth_limit", "dscp_marking", "minimum_bandwidth", "packet_rate_limit", "minimum_packet_rate"}
    for query in ("", "?all_supported=true", "?all_rules=true"):
        assert {each["type"] for each in neutron.get(f"/qos/rule-types{query}")["rule_types"]} == every
    neutron.refused(400, "InvalidInput", "GET", "/qos/rule-types?all_rules=true&all_supported=true")
