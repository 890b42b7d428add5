"""`/routers`: the record, gateways, routes and the driver. Reference: network-rules.md, section 6."""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import directlyProvides

from cloudctl.drivers.interfaces import INetworkBackend
from cloudctl.network import api
from tests.network.conftest import Neutron


def show(neutron: Neutron, router: Any, user: str = "demo") -> Any:
    return neutron.get(f"/routers/{router['id']}", user)["router"]


def put(neutron: Neutron, router: Any, user: str = "demo", **fields: Any) -> Any:
    return neutron.expect(200, "PUT", f"/routers/{router['id']}", {"router": fields}, user)["router"]


def held(neutron: Neutron, router: Any) -> Any:
    """What the driver holds of it."""
    neutron.settle()
    return neutron.driver.routers.get(router["id"])


def refused(
    neutron: Neutron, status: int, type: str, router: Any, action: str = "", user: str = "demo", **sent: Any
) -> Any:
    path = f"/routers/{router['id']}" + (f"/{action}" if action else "")
    return neutron.refused(status, type, "PUT", path, sent if action else {"router": sent}, user)


REMOVE = "remove_router_interface"


class TestTheRecord:
    def test_what_a_new_one_is(self, neutron: Neutron) -> None:
        made = neutron.create("router", name="r", description="d", tags=["b", "a"])
        seen = {**made}
        assert seen.pop("id") and seen.pop("created_at") == seen.pop("updated_at")
        assert seen == {
            "name": "r", "description": "d", "status": "ACTIVE", "admin_state_up": True, "external_gateway_info": None,
            "routes": [], "availability_zone_hints": [], "availability_zones": ["nova"], "flavor_id": None,
            "external_gateways": [], "conntrack_helpers": [], "enable_ndp_proxy": False, "evpn_vni": None,
            "enable_default_route_bfd": False, "enable_default_route_ecmp": False,
            "service_type_id": None, "project_id": "demo", "tenant_id": "demo", "revision_number": 0,
            "tags": ["a", "b"],
        }  # fmt: skip
        assert show(neutron, made) == made
        as_admin = show(neutron, made, "admin")
        assert (as_admin["distributed"], as_admin["ha"]) == (False, False)
        assert held(neutron, made).id == made["id"]

    def test_what_can_be_changed(self, neutron: Neutron) -> None:
        made = neutron.router()
        changed = put(neutron, made, name="new", description="x", admin_state_up=False)
        assert (changed["name"], changed["description"], changed["admin_state_up"]) == ("new", "x", False)
        assert changed["revision_number"] > made["revision_number"]
        assert held(neutron, made).admin_state_up is False

    def test_administrators_alone_say_how_it_is_made(self, neutron: Neutron) -> None:
        put(neutron, neutron.router(), "admin", distributed=False, ha=False)
        for name in ("distributed", "ha"):
            neutron.expect(403, "POST", "/routers", {"router": {name: False}})

    def test_several_are_made_at_once_or_none(self, neutron: Neutron) -> None:
        bad = {"external_gateway_info": {"network_id": neutron.network()["id"]}}
        neutron.refused(400, "BadRequest", "POST", "/routers", {"routers": [{"name": "a"}, bad]})
        assert neutron.get("/routers")["routers"] == []
        made = neutron.expect(201, "POST", "/routers", {"routers": [{"name": "a"}, {"name": "b"}]})["routers"]
        assert [each["name"] for each in made] == ["a", "b"]

    def test_the_quota_is_kept(self, neutron: Neutron) -> None:
        neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"router": 1}}, "admin")
        neutron.router()
        neutron.refused(409, "OverQuota", "POST", "/routers", {"router": {}})
        assert neutron.get("/quotas/demo/details")["quota"]["router"] == {"limit": 1, "used": 1, "reserved": 0}

    def test_a_zone_is_asked_for(self, neutron: Neutron) -> None:
        assert neutron.router(availability_zone_hints=["nova"])["availability_zone_hints"] == ["nova"]
        body = {"router": {"availability_zone_hints": ["mars"]}}
        neutron.refused(404, "AvailabilityZoneNotFound", "POST", "/routers", body)

    def test_a_stale_revision_is_refused(self, neutron: Neutron) -> None:
        made = neutron.router()
        for method, body in (("PUT", {"router": {"name": "x"}}), ("DELETE", None)):
            neutron.expect(412, method, f"/routers/{made['id']}", body, If_Match="revision_number=99")

    def test_lists_filter_sort_and_page(self, neutron: Neutron) -> None:
        for name in ("b", "a", "c"):
            neutron.router(name=name, admin_state_up=name != "c")

        def names(query: str) -> list[str]:
            return [each["name"] for each in neutron.get(f"/routers?{query}")["routers"]]

        assert names("name=a&name=b&sort_key=name&sort_dir=asc") == ["a", "b"]
        assert names("admin_state_up=false") == ["c"]
        first = neutron.get("/routers?limit=2&sort_key=name&sort_dir=asc")
        assert [each["name"] for each in first["routers"]] == ["a", "b"]
        assert names(first["routers_links"][0]["href"].partition("?")[2]) == ["c"]
        assert neutron.get("/routers?fields=name&name=a")["routers"] == [{"name": "a"}]

    def test_it_has_tags(self, neutron: Neutron) -> None:
        made = neutron.router()
        neutron.expect(200, "PUT", f"/routers/{made['id']}/tags", {"tags": ["x"]})
        assert [each["id"] for each in neutron.get("/routers?tags=x")["routers"]] == [made["id"]]


class TestGateways:
    def test_one_has_an_address_outside_that_only_administrators_see_as_a_port(self, neutron: Neutron) -> None:
        external = neutron.external()
        made = neutron.router(external=external)
        subnet = external["subnets"][0]
        fixed = [{"subnet_id": subnet, "ip_address": "203.0.113.2"}]
        wanted = {"network_id": external["id"], "enable_snat": True, "external_fixed_ips": fixed, "qos_policy_id": None}
        assert made["external_gateway_info"] == wanted
        neutron.settle()
        assert neutron.get("/ports")["ports"] == []
        (port,) = neutron.get(f"/ports?device_id={made['id']}", "admin")["ports"]
        assert (port["device_owner"], port["project_id"], port["status"]) == ("network:router_gateway", "", "ACTIVE")
        assert port["security_groups"] == [] and port["fixed_ips"] == fixed
        gateway = held(neutron, made).gateway
        assert (gateway.port_id, gateway.addresses) == (port["id"], ("203.0.113.2/24",))
        assert neutron.get("/quotas/demo/details")["quota"]["port"]["used"] == 0

    @pytest.mark.parametrize("nothing", [None, {}])
    def test_it_is_taken_away(self, neutron: Neutron, nothing: Any) -> None:
        made = neutron.router(external=neutron.external())
        assert put(neutron, made, external_gateway_info=nothing)["external_gateway_info"] is None
        assert held(neutron, made).gateway is None
        assert neutron.get("/ports?device_owner=network:router_gateway", "admin")["ports"] == []
        assert put(neutron, made, external_gateway_info=nothing)["external_gateway_info"] is None

    def test_the_same_network_keeps_the_address(self, neutron: Neutron) -> None:
        external = neutron.external()
        first = neutron.router(external=external)
        neutron.router(external=external)
        again = put(neutron, first, external_gateway_info={"network_id": external["id"]})
        assert again["external_gateway_info"] == first["external_gateway_info"]

    def test_another_network_is_another_address(self, neutron: Neutron) -> None:
        made, other = neutron.router(external=neutron.external()), neutron.external("198.51.100.0/24")
        moved = put(neutron, made, external_gateway_info={"network_id": other["id"]})["external_gateway_info"]
        assert [each["ip_address"] for each in moved["external_fixed_ips"]] == ["198.51.100.2"]
        assert len(neutron.ports(user="admin")) == 1

    def test_administrators_choose_addresses_and_source_nat(self, neutron: Neutron) -> None:
        external = neutron.external()
        made = neutron.router()
        fixed = [{"subnet_id": external["subnets"][0], "ip_address": "203.0.113.77"}]
        info = {"network_id": external["id"], "enable_snat": False, "external_fixed_ips": fixed, "qos_policy_id": None}
        for each in ({"enable_snat": False}, {"external_fixed_ips": fixed}):
            asked = {"external_gateway_info": {"network_id": external["id"], **each}}
            neutron.expect(403, "PUT", f"/routers/{made['id']}", {"router": asked})
        assert put(neutron, made, "admin", external_gateway_info=info)["external_gateway_info"] == info
        assert held(neutron, made).enable_snat is False
        changed = put(neutron, made, "admin", external_gateway_info={**info, "external_fixed_ips": [
            {"ip_address": "203.0.113.78"}]})["external_gateway_info"]  # fmt: skip
        assert changed["external_fixed_ips"][0]["ip_address"] == "203.0.113.78"
        plain = put(neutron, made, external_gateway_info={"network_id": external["id"]})["external_gateway_info"]
        assert plain["enable_snat"] and plain["external_fixed_ips"] == changed["external_fixed_ips"]
        assert held(neutron, made).gateway.addresses == ("203.0.113.78/24",)

    def test_addresses_that_others_have_are_refused(self, neutron: Neutron) -> None:
        external = neutron.external()
        made = neutron.router()
        for ip, status, type in (
            ("203.0.113.1", 400, "BadRequest"),
            ("10.9.9.9", 400, "InvalidIpForNetwork"),
        ):
            info = {"network_id": external["id"], "external_fixed_ips": [{"ip_address": ip}]}
            refused(neutron, status, type, made, user="admin", external_gateway_info=info)
        assert show(neutron, made)["external_gateway_info"] is None

    def test_networks_that_do_not_lead_out_are_refused(self, neutron: Neutron) -> None:
        made = neutron.router()
        inside, theirs = neutron.network(), neutron.network(user="other")
        for id, status, type in (
            (inside["id"], 400, "BadRequest"), (theirs["id"], 404, "NetworkNotFound"),
            ("0" * 8 + "-0000-4000-8000-" + "0" * 12, 404, "NetworkNotFound"),
        ):  # fmt: skip
            refused(neutron, status, type, made, external_gateway_info={"network_id": id})
        neutron.expect(
            400, "PUT", f"/routers/{made['id']}", {"router": {"external_gateway_info": {"enable_snat": True}}}
        )

    def test_a_network_without_subnets_gives_no_address(self, neutron: Neutron) -> None:
        made = neutron.router(external=neutron.external(None))
        assert made["external_gateway_info"]["external_fixed_ips"] == []

    def test_the_outside_does_not_overlap_the_inside(self, neutron: Neutron) -> None:
        made = neutron.router(neutron.network("203.0.113.0/25"))
        refused(neutron, 400, "BadRequest", made, external_gateway_info={"network_id": neutron.external()["id"]})

    def test_an_outside_without_addresses_is_full(self, neutron: Neutron) -> None:
        external = neutron.external("203.0.113.0/30")
        neutron.router(external=external)
        body = {"router": {"external_gateway_info": {"network_id": external["id"]}}}
        neutron.refused(409, "IpAddressGenerationFailure", "POST", "/routers", body)

    def test_a_network_with_gateways_stays_external(self, neutron: Neutron) -> None:
        external = neutron.external()
        made = neutron.router(external=external)
        path, body = f"/networks/{external['id']}", {"network": {"router:external": False}}
        neutron.refused(409, "ExternalNetworkInUse", "PUT", path, body, "admin")
        neutron.refused(409, "NetworkInUse", "DELETE", path, user="admin")
        put(neutron, made, external_gateway_info=None)
        assert neutron.expect(200, "PUT", path, body, "admin")["network"]["router:external"] is False


class TestRoutes:
    @pytest.fixture
    def router(self, neutron: Neutron) -> Any:
        return neutron.router(neutron.network())

    @staticmethod
    def route(destination: str = "192.0.2.0/24", nexthop: str = "10.0.0.9") -> dict[str, str]:
        return {"destination": destination, "nexthop": nexthop}

    def test_they_are_replaced(self, neutron: Neutron, router: Any) -> None:
        one, two = self.route(), self.route("198.51.100.7/24")
        assert put(neutron, router, routes=[one, one])["routes"] == [one]
        assert put(neutron, router, routes=[two])["routes"] == [self.route("198.51.100.0/24")]
        assert [each.destination for each in held(neutron, router).routes] == ["198.51.100.0/24"]
        assert put(neutron, router, routes=None)["routes"] == []

    def test_they_are_added_and_removed(self, neutron: Neutron, router: Any) -> None:
        one, two = self.route(), self.route("198.51.100.0/24")
        for action, routes, wanted in (
            ("add_extraroutes", [one], [one]), ("add_extraroutes", [one, two], [one, two]),
            ("remove_extraroutes", [one], [two]), ("remove_extraroutes", [one], [two]),
        ):  # fmt: skip
            path = f"/routers/{router['id']}/{action}"
            assert neutron.expect(200, "PUT", path, {"router": {"routes": routes}})["router"]["routes"] == wanted

    @pytest.mark.parametrize(
        "nexthop", ["10.99.0.1", "10.0.0.1", "2001:db8::1"], ids=["not connected", "its own", "other family"]
    )
    def test_a_next_hop_is_a_neighbour(self, neutron: Neutron, router: Any, nexthop: str) -> None:
        refused(neutron, 400, "InvalidRoutes", router, routes=[self.route(nexthop=nexthop)])

    def test_there_are_not_too_many(self, neutron: Neutron, router: Any) -> None:
        many = [self.route(f"192.0.{number}.0/24") for number in range(31)]
        refused(neutron, 400, "RoutesExhausted", router, routes=many)

    def test_what_they_need_stays(self, neutron: Neutron, router: Any) -> None:
        put(neutron, router, routes=[self.route()])
        subnet = neutron.get("/subnets")["subnets"][0]["id"]
        refused(neutron, 409, "RouterInterfaceInUseByRoute", router, REMOVE, subnet_id=subnet)
        external = neutron.external()
        put(neutron, router, external_gateway_info={"network_id": external["id"]}, routes=[
            self.route(nexthop="203.0.113.99")])  # fmt: skip
        refused(neutron, 409, "RouterInterfaceInUseByRoute", router, external_gateway_info=None)
        assert put(neutron, router, external_gateway_info=None, routes=[])["routes"] == []


class TestTheDriver:
    def test_what_it_cannot_hold_is_in_error_until_it_can(self, neutron: Neutron) -> None:
        neutron.driver.behaviour.fail("ensure_router", times=None)
        made = neutron.router(neutron.network())
        neutron.settle(7200)
        failed = show(neutron, made)
        assert failed["status"] == "ERROR" and failed["revision_number"] > made["revision_number"]
        neutron.driver.behaviour.faults.clear()
        put(neutron, made, name="again")
        neutron.settle()
        assert show(neutron, made)["status"] == "ACTIVE"

    def test_it_has_the_networks_before_the_router(self, neutron: Neutron) -> None:
        network = neutron.network()
        neutron.router(network)
        neutron.settle()
        assert neutron.held[0] == [network["id"]]

    def test_a_network_that_goes_meanwhile_is_not_left_behind(self, neutron: Neutron) -> None:
        network = neutron.network()
        neutron.settle()
        neutron.driver.behaviour.delay("ensure_router", 5.0)
        made = neutron.router(network)
        neutron.clock.advance(1)
        neutron.part(made, subnet_id=network["subnets"][0])
        neutron.expect(204, "DELETE", f"/networks/{network['id']}")
        assert held(neutron, made).interfaces == ()
        assert neutron.held[0] == [] and show(neutron, made)["status"] == "ACTIVE"

    def test_a_router_that_goes_meanwhile_is_not_left_behind(self, neutron: Neutron) -> None:
        neutron.driver.behaviour.delay("ensure_router", 5.0)
        made = neutron.router()
        neutron.clock.advance(1)
        neutron.expect(204, "DELETE", f"/routers/{made['id']}")
        assert held(neutron, made) is None

    def test_a_change_of_the_networks_reaches_it(self, neutron: Neutron) -> None:
        external = neutron.external()
        neutron.router(external=external)
        neutron.settle()
        before = neutron.driver.behaviour.calls["ensure_router"]
        path, pools = f"/subnets/{external['subnets'][0]}", [{"start": "203.0.113.2", "end": "203.0.113.99"}]
        fields = {"gateway_ip": "203.0.113.254", "allocation_pools": pools}
        neutron.expect(200, "PUT", path, {"subnet": fields}, "admin")
        neutron.settle()
        assert neutron.driver.behaviour.calls["ensure_router"] == before + 1


def test_without_routers_in_the_driver_there_are_none_in_the_api(neutron: Neutron) -> None:
    class Plain:
        pass

    plain = Plain()
    directlyProvides(plain, INetworkBackend)

    def collections(driver: Any) -> set[str]:
        made: Any = api.build
        operations = made(neutron.api.pipeline.http, None, driver, "fake", neutron.options).operations
        return {part for path, _ in operations for part in path.split("/")[2:3]}

    pools = {"floatingip_pools", "floatingip-pools"}
    with_routers = {"routers", "floatingips", *pools, "auto-allocated-topology", "ndp_proxies", "metering"}
    assert collections(neutron.driver) - collections(plain) == {*with_routers, "trunks", "local_ips", "log"}
    aliases = {each["alias"] for each in neutron.get("/extensions")["extensions"]}
    assert {"router", "ext-gw-mode", "extraroute", "extraroute-atomic", "fip-port-details"} <= aliases
    assert {each["resource"] for each in neutron.get("/availability_zones")["availability_zones"]} == {
        "network", "router"
    }  # fmt: skip


def test_one_external_network_is_the_default_one(neutron: Neutron) -> None:
    first = neutron.external(is_default=True)
    assert first["is_default"] is True
    inside = neutron.network()
    assert "is_default" not in inside
    body = {"network": {"router:external": True, "is_default": True}}
    neutron.refused(409, "DefaultExternalNetworkExists", "POST", "/networks", body, "admin")
    neutron.refused(400, "InvalidInput", "PUT", f"/networks/{inside['id']}", {"network": {"is_default": True}}, "admin")
    neutron.expect(403, "PUT", f"/networks/{inside['id']}", {"network": {"is_default": False}})
    assert [each["id"] for each in neutron.get("/networks?is_default=true")["networks"]] == [first["id"]]
    path = f"/networks/{first['id']}"
    neutron.expect(200, "PUT", path, {"network": {"router:external": False}}, "admin")
    assert neutron.external(is_default=True, cidr="198.51.100.0/24")["is_default"]
