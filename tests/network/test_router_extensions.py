"""What routers can have beside interfaces and a gateway: kinds, flavors, helpers, proxies, meters, several gateways."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.network.options import NetworkOptions
from tests.network.conftest import Neutron

DVR = "neutron.services.l3_router.service_providers.dvr.DvrDriver"


def held(neutron: Neutron, router: Any) -> Any:
    """What the driver holds of it."""
    neutron.settle()
    return neutron.driver.routers.get(router["id"])


def put(neutron: Neutron, path: str, user: str = "demo", **fields: Any) -> Any:
    key = path.split("/")[1].replace("-", "_")[:-1]
    return neutron.expect(200, "PUT", path, {key: fields}, user)[key]


class TestFlavors:
    def test_a_flavor_says_how_a_router_is_made(self, neutron: Neutron) -> None:
        profile = neutron.expect(201, "POST", "/service_profiles", {"service_profile": {"driver": DVR}}, "admin")
        id = profile["service_profile"]["id"]
        flavor = neutron.create("flavor", "admin", name="wide", service_type="L3_ROUTER_NAT")
        path = f"/flavors/{flavor['id']}/service_profiles"
        body = {"service_profile": {"id": id}}
        assert neutron.expect(201, "POST", path, body, "admin") == body
        neutron.refused(409, "FlavorServiceProfileBindingExists", "POST", path, body, "admin")
        assert neutron.get(f"/flavors/{flavor['id']}")["flavor"] == {**flavor, "service_profiles": [id]}
        assert neutron.get(path) == {"service_profiles": [{"id": id}]}
        router = neutron.create("router", flavor_id=flavor["id"])
        assert router["flavor_id"] == flavor["id"]
        assert held(neutron, router).distributed is True
        neutron.refused(409, "FlavorInUse", "DELETE", f"/flavors/{flavor['id']}", user="admin")
        neutron.refused(409, "ServiceProfileInUse", "DELETE", f"/service_profiles/{id}", user="admin")
        both = {"router": {"flavor_id": flavor["id"], "ha": True}}
        neutron.refused(400, "BadRequest", "POST", "/routers", both, "admin")
        put(neutron, f"/flavors/{flavor['id']}", "admin", enabled=False)
        neutron.refused(503, "FlavorDisabled", "POST", "/routers", {"router": {"flavor_id": flavor["id"]}})
        neutron.expect(204, "DELETE", f"/routers/{router['id']}")
        neutron.expect(204, "DELETE", f"{path}/{id}", user="admin")
        neutron.refused(404, "FlavorServiceProfileBindingNotFound", "DELETE", f"{path}/{id}", user="admin")
        neutron.expect(204, "DELETE", f"/flavors/{flavor['id']}", user="admin")

    def test_a_profile_says_something_that_there_is(self, neutron: Neutron) -> None:
        for said, status, type in (
            ({}, 400, "ServiceProfileEmpty"),
            ({"driver": "x.Y"}, 404, "ServiceProfileDriverNotFound"),
        ):
            neutron.refused(status, type, "POST", "/service_profiles", {"service_profile": said}, "admin")
        neutron.expect(403, "POST", "/flavors", {"flavor": {"service_type": "L3_ROUTER_NAT"}})
        neutron.expect(400, "POST", "/flavors", {"flavor": {"service_type": "NOTHING"}}, "admin")
        made = neutron.create("flavor", "admin", service_type="FLAVORS", description=None)
        assert (made["description"], made["enabled"], made["service_profiles"]) == ("", True, [])
        wrong = {"router": {"flavor_id": made["id"]}}
        neutron.refused(400, "InvalidInput", "POST", "/routers", wrong)


class TestKinds:
    def test_a_router_becomes_of_another_kind_while_it_is_down(self, neutron: Neutron) -> None:
        router = neutron.create("router", "admin", ha=True)
        assert (router["ha"], router["distributed"]) == (True, False)
        assert held(neutron, router).ha is True
        path = f"/routers/{router['id']}"
        neutron.refused(400, "BadRequest", "PUT", path, {"router": {"distributed": True}}, "admin")
        put(neutron, path, "admin", admin_state_up=False)
        assert put(neutron, path, "admin", distributed=True, ha=False)["distributed"] is True
        assert (held(neutron, router).distributed, held(neutron, router).ha) == (True, False)
        neutron.expect(403, "POST", "/routers", {"router": {"ha": False}})


class TestConntrackHelpers:
    def test_a_router_has_them(self, neutron: Neutron) -> None:
        router = neutron.create("router")
        assert router["conntrack_helpers"] == []
        path = f"/routers/{router['id']}/conntrack_helpers"
        made = neutron.expect(
            201, "POST", path, {"conntrack_helper": {"protocol": "udp", "port": 69, "helper": "tftp"}}
        )["conntrack_helper"]
        assert made == {"id": made["id"], "protocol": "udp", "port": 69, "helper": "tftp"}
        assert neutron.get(f"{path}/{made['id']}")["conntrack_helper"] == made
        assert [(each.protocol, each.port) for each in held(neutron, router).conntrack_helpers] == [("udp", 69)]
        changed = neutron.expect(200, "PUT", f"{path}/{made['id']}", {"conntrack_helper": {"port": 6969}})
        assert changed["conntrack_helper"]["port"] == 6969
        assert neutron.get(f"{path}?port=69")["conntrack_helpers"] == []
        assert neutron.get(f"/routers/{router['id']}")["router"]["conntrack_helpers"] == [
            {"protocol": "udp", "port": 6969, "helper": "tftp"}
        ]
        for said, type in (
            ({"protocol": "udp", "port": 6969, "helper": "tftp"}, "BadRequest"),
            ({"protocol": "tcp", "port": 1, "helper": "tftp"}, "InvalidProtocolForHelper"),
            ({"protocol": "tcp", "port": 1, "helper": "magic"}, "ConntrackHelperNotAllowed"),
        ):
            neutron.refused(400, type, "POST", path, {"conntrack_helper": said})
        neutron.expect(404, "GET", path, user="other")
        neutron.expect(403, "DELETE", f"{path}/{made['id']}", user="reader")
        neutron.expect(204, "DELETE", f"{path}/{made['id']}")
        neutron.refused(404, "ConntrackHelperNotFound", "GET", f"{path}/{made['id']}")
        assert held(neutron, router).conntrack_helpers == ()


class TestNdpProxies:
    @pytest.fixture
    def scoped(self, neutron: Neutron) -> Any:
        """(a router with a gateway, a network behind it), both in one address scope of IPv6."""
        scope = neutron.expect(201, "POST", "/address-scopes", {"address_scope": {"ip_version": 6}}, "admin")
        pool = neutron.expect(
            201,
            "POST",
            "/subnetpools",
            {
                "subnetpool": {
                    "name": "p",
                    "prefixes": ["2001:db8::/48"],
                    "default_prefixlen": 64,
                    "shared": True,
                    "address_scope_id": scope["address_scope"]["id"],
                }
            },
            "admin",
        )["subnetpool"]["id"]
        outside, inside = neutron.external(None), neutron.network(None)
        for network, user in ((outside, "admin"), (inside, "demo")):
            neutron.create("subnet", user, network_id=network["id"], ip_version=6, subnetpool_id=pool)
        router = neutron.router(external=outside, enable_ndp_proxy=True)
        neutron.join(router, subnet_id=neutron.get(f"/networks/{inside['id']}")["network"]["subnets"][0])
        return router, inside

    def test_a_router_answers_for_an_address(self, neutron: Neutron, scoped: Any) -> None:
        router, inside = scoped
        port = neutron.create("port", network_id=inside["id"])
        body = {"ndp_proxy": {"name": "n", "router_id": router["id"], "port_id": port["id"]}}
        made = neutron.expect(201, "POST", "/ndp_proxies", body)["ndp_proxy"]
        assert made["ip_address"] == port["fixed_ips"][0]["ip_address"]
        assert held(neutron, router).ndp_proxies == (made["ip_address"],)
        neutron.refused(409, "NDPProxyAlreadyExists", "POST", "/ndp_proxies", body)
        subnet = {"subnet_id": port["fixed_ips"][0]["subnet_id"]}
        part = f"/routers/{router['id']}/remove_router_interface"
        neutron.refused(409, "RouterInterfaceInUseByNDPProxy", "PUT", part, subnet)
        nothing: Any = {"router": {"external_gateway_info": {}}}
        neutron.refused(409, "RouterGatewayInUseByNDPProxy", "PUT", f"/routers/{router['id']}", nothing)
        assert neutron.expect(200, "PUT", f"/ndp_proxies/{made['id']}", {"ndp_proxy": {"name": "m"}})
        assert neutron.get("/ndp_proxies", "other")["ndp_proxies"] == []
        neutron.expect(404, "GET", f"/ndp_proxies/{made['id']}", user="other")
        # It goes with its port.
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")
        assert neutron.get("/ndp_proxies")["ndp_proxies"] == []
        assert held(neutron, router).ndp_proxies == ()

    def test_it_no_longer_answers_for_an_address_that_the_port_gives_up(self, neutron: Neutron, scoped: Any) -> None:
        router, inside = scoped
        port = neutron.create("port", network_id=inside["id"])
        body = {"ndp_proxy": {"router_id": router["id"], "port_id": port["id"]}}
        made = neutron.expect(201, "POST", "/ndp_proxies", body)["ndp_proxy"]
        assert held(neutron, router).ndp_proxies == (made["ip_address"],)
        neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"name": "n", "fixed_ips": port["fixed_ips"]}})
        assert len(neutron.get("/ndp_proxies")["ndp_proxies"]) == 1
        neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"fixed_ips": []}})
        assert neutron.get("/ndp_proxies")["ndp_proxies"] == []
        assert held(neutron, router).ndp_proxies == ()

    def test_what_cannot_be(self, neutron: Neutron, scoped: Any) -> None:
        router, _ = scoped
        elsewhere = neutron.network("2001:db8:9::/64")
        port = neutron.create("port", network_id=elsewhere["id"])
        body = {"router_id": router["id"], "port_id": port["id"]}
        neutron.refused(409, "PortUnreachableRouter", "POST", "/ndp_proxies", {"ndp_proxy": body})
        neutron.join(router, subnet_id=elsewhere["subnets"][0])
        neutron.refused(409, "AddressScopeConflict", "POST", "/ndp_proxies", {"ndp_proxy": body})
        four = neutron.create("port", network_id=neutron.network()["id"])
        neutron.refused(400, "BadRequest", "POST", "/ndp_proxies", {"ndp_proxy": {**body, "port_id": four["id"]}})
        for address in ("2001:db8:9::77", "2001:db8::77"):
            neutron.refused(
                400, "InvalidAddress", "POST", "/ndp_proxies", {"ndp_proxy": {**body, "ip_address": address}}
            )
        bare = neutron.create("router")
        neutron.refused(
            409, "RouterNDPProxyNotEnable", "POST", "/ndp_proxies", {"ndp_proxy": {**body, "router_id": bare["id"]}}
        )
        on = {"router": {"enable_ndp_proxy": True}}
        neutron.refused(409, "RouterGatewayNotValid", "PUT", f"/routers/{bare['id']}", on)
        neutron.refused(409, "RouterGatewayNotValid", "POST", "/routers", on)

    def test_a_router_answers_as_long_as_its_gateway_is_of_ipv6(self, neutron: Neutron, scoped: Any) -> None:
        router, _ = scoped
        outside = router["external_gateway_info"]["network_id"]
        four = neutron.create("subnet", "admin", network_id=outside, ip_version=4, cidr="198.51.100.0/24")
        path = f"/routers/{router['id']}"
        gateway = {"network_id": outside, "external_fixed_ips": [{"subnet_id": four["id"]}]}
        body = {"router": {"external_gateway_info": gateway}}
        neutron.refused(409, "RouterIPv6GatewayInUse", "PUT", path, body, "admin")
        put(neutron, path, external_gateway_info={})
        assert neutron.get(path)["router"]["enable_ndp_proxy"] is False
        put(neutron, path, external_gateway_info={"network_id": outside}, enable_ndp_proxy=True)
        put(neutron, path, external_gateway_info={"network_id": neutron.external()["id"]})
        assert neutron.get(path)["router"]["enable_ndp_proxy"] is False
        # Nor without the gateway that the same request takes away, though it answers now.
        off = {"router": {"enable_ndp_proxy": True, "external_gateway_info": {}}}
        neutron.refused(409, "RouterGatewayNotValid", "PUT", f"/routers/{router['id']}", off)


class TestGateways:
    @pytest.mark.parametrize("name", ["default_route_ecmp", "default_route_bfd"])
    def test_an_administrator_says_how_several_are_used(self, neutron: Neutron, name: str) -> None:
        asked = f"enable_{name}"
        neutron.refused(403, "PolicyNotAuthorized", "POST", "/routers", {"router": {asked: True}})
        made = neutron.create("router", "admin", **{asked: True})
        assert made[asked] is True and getattr(held(neutron, made), name) is True
        router = neutron.router()
        path = f"/routers/{router['id']}"
        assert router[asked] is False
        neutron.refused(403, "PolicyNotAuthorized", "PUT", path, {"router": {asked: True}})
        changed = neutron.expect(200, "PUT", path, {"router": {asked: True}}, "admin")["router"]
        assert changed[asked] is True and getattr(held(neutron, router), name) is True
        assert {each["id"] for each in neutron.get(f"/routers?{asked}=true", "admin")["routers"]} == {
            made["id"], router["id"],
        }  # fmt: skip

    def test_a_router_has_several(self, neutron: Neutron) -> None:
        one, two = neutron.external(), neutron.external("198.51.100.0/24")
        router = neutron.router(external=one)
        path = f"/routers/{router['id']}"

        def ask(action: str, *gateways: Any, user: str = "demo") -> Any:
            body = {"router": {"external_gateways": gateways}}
            return neutron.expect(200, "PUT", f"{path}/{action}_external_gateways", body, user)["router"]

        seen = ask("add", {"network_id": two["id"]}, {"network_id": one["id"]})
        assert [each["network_id"] for each in seen["external_gateways"]] == [one["id"], two["id"], one["id"]]
        assert seen["external_gateway_info"] == seen["external_gateways"][0]
        spec = held(neutron, router)
        assert (spec.gateway.network_id, [each.network_id for each in spec.more_gateways]) == (
            one["id"], [two["id"], one["id"]],
        )  # fmt: skip
        which = {"router": {"external_gateways": [{"network_id": one["id"]}]}}
        neutron.refused(400, "BadRequest", "PUT", f"{path}/remove_external_gateways", which)
        # As it was shown: who takes it away need not be one who may choose what it says.
        seen = ask("remove", seen["external_gateways"][0])
        assert [each["network_id"] for each in seen["external_gateways"]] == [two["id"], one["id"]]
        moved = {"network_id": two["id"], "external_fixed_ips": [{"ip_address": "198.51.100.77"}]}
        seen = ask("update", moved, user="admin")
        assert seen["external_gateways"][0]["external_fixed_ips"][0]["ip_address"] == "198.51.100.77"
        # By this the command line also sets what the first one has.
        for said, snat in (({"enable_snat": False}, False), ({}, False), ({"enable_snat": True}, True)):
            seen = ask("update", {"network_id": two["id"], **said}, user="admin")
            assert seen["external_gateway_info"]["enable_snat"] is held(neutron, router).enable_snat is snat
        seen = ask("remove", {"network_id": two["id"]}, {"network_id": one["id"]})
        assert (seen["external_gateways"], seen["external_gateway_info"]) == ([], None)
        neutron.refused(404, "RouterGatewayNotFound", "PUT", f"{path}/remove_external_gateways", which)
        assert held(neutron, router).gateway is None
        # The command line sets the first one by this, where it knows of several.
        assert neutron.expect(200, "PUT", f"{path}/remove_external_gateways", {"router": {"external_gateways": {}}})
        seen = ask("update", {"network_id": two["id"]})
        assert seen["external_gateway_info"]["network_id"] == two["id"] == held(neutron, router).gateway.network_id

    def test_those_that_are_named_leave_the_other_one(self, neutron: Neutron) -> None:
        """A list of all of them, as they were shown, one with another address: then that one is meant."""
        outside = neutron.external()
        router = neutron.router()
        path, wish = f"/routers/{router['id']}", {"network_id": outside["id"]}

        def ask(action: str, *gateways: Any) -> Any:
            body = {"router": {"external_gateways": gateways}}
            return neutron.expect(200, "PUT", f"{path}/{action}_external_gateways", body, "admin")["router"]

        first, second, third = ask("add", wish, wish, wish)["external_gateways"]
        ask("remove", third)
        seen = ask("update", {**wish, "external_fixed_ips": third["external_fixed_ips"]}, first)
        assert seen["external_gateways"] == [first, {**second, "external_fixed_ips": third["external_fixed_ips"]}]
        assert ask("remove", wish, first)["external_gateways"] == []

    def test_one_that_a_floating_ip_needs_stays(self, neutron: Neutron) -> None:
        one, two, inside = neutron.external(), neutron.external("198.51.100.0/24"), neutron.network()
        router = neutron.router(inside, external=one)
        body = {"router": {"external_gateways": [{"network_id": two["id"]}]}}
        neutron.expect(200, "PUT", f"/routers/{router['id']}/add_external_gateways", body)
        port = neutron.create("port", network_id=inside["id"])
        neutron.create("floatingip", floating_network_id=two["id"], port_id=port["id"])
        remove = f"/routers/{router['id']}/remove_external_gateways"
        neutron.refused(409, "RouterExternalGatewayInUseByFloatingIp", "PUT", remove, body)
        other = {"router": {"external_gateways": [{"network_id": one["id"]}]}}
        neutron.expect(200, "PUT", remove, other)

    def test_they_and_floating_ips_have_policies(self, neutron: Neutron) -> None:
        body = {"policy": {"name": "slow", "shared": True}}
        policy = neutron.expect(201, "POST", "/qos/policies", body, "admin")["policy"]["id"]
        rules = f"/qos/policies/{policy}/bandwidth_limit_rules"
        rule = neutron.expect(201, "POST", rules, {"bandwidth_limit_rule": {"max_kbps": 1000}}, "admin")
        outside, inside = neutron.external(), neutron.network()
        gateway = {"network_id": outside["id"], "qos_policy_id": policy}
        router = neutron.router(inside, external_gateway_info=gateway)
        assert router["external_gateway_info"]["qos_policy_id"] == policy
        port = neutron.create("port", network_id=inside["id"])
        floating = neutron.create(
            "floatingip", floating_network_id=outside["id"], port_id=port["id"], qos_policy_id=policy
        )
        assert (floating["qos_policy_id"], floating["qos_network_policy_id"]) == (policy, None)

        def rates() -> Any:
            spec = held(neutron, router)
            return [[each.max_kbps for each in one.limits] for one in (spec.gateway, *spec.floating_ips)]

        assert rates() == [[1000], [1000]]
        # Both follow the policy.
        one = f"{rules}/{rule['bandwidth_limit_rule']['id']}"
        neutron.expect(200, "PUT", one, {"bandwidth_limit_rule": {"max_kbps": 2000}}, "admin")
        assert rates() == [[2000], [2000]]
        neutron.refused(409, "QosPolicyInUse", "DELETE", f"/qos/policies/{policy}", user="admin")
        none = {"floatingip": {"qos_policy_id": None, "port_id": port["id"]}}
        assert neutron.expect(200, "PUT", f"/floatingips/{floating['id']}", none)["floatingip"]["qos_policy_id"] is None
        neutron.expect(
            200,
            "PUT",
            f"/routers/{router['id']}",
            {"router": {"external_gateway_info": {"network_id": outside["id"], "qos_policy_id": None}}},
        )
        assert rates() == [[], []]


class TestMetering:
    def test_routers_count_what_labels_say(self, neutron: Neutron) -> None:
        router, other = neutron.create("router"), neutron.create("router", "other")

        def post(what: str, **fields: Any) -> Any:
            path = f"/metering/{what.replace('_', '-')}s"
            return neutron.expect(201, "POST", path, {what: fields}, "admin")[what]

        label = post("metering_label", name="l", project_id="demo")
        assert (label["shared"], label["description"], label["project_id"]) == (False, "", "demo")
        rule = post(
            "metering_label_rule", metering_label_id=label["id"], direction="ingress", remote_ip_prefix="10.0.0.9/24"
        )
        assert (rule["remote_ip_prefix"], rule["excluded"], rule["source_ip_prefix"]) == ("10.0.0.0/24", False, None)
        assert [each.id for each in held(neutron, router).meters] == [label["id"]]
        assert held(neutron, other).meters == ()
        overlapping = {
            "metering_label_rule": {
                "metering_label_id": label["id"], "direction": "ingress", "remote_ip_prefix": "10.0.0.0/8",
            }
        }  # fmt: skip
        rules = "/metering/metering-label-rules"
        neutron.refused(409, "MeteringLabelRuleOverlaps", "POST", rules, overlapping, "admin")
        overlapping["metering_label_rule"]["metering_label_id"] = router["id"]
        neutron.refused(404, "MeteringLabelNotFound", "POST", rules, overlapping, "admin")
        everybodys = post("metering_label", shared=True)
        post(
            "metering_label_rule",
            metering_label_id=everybodys["id"],
            direction="egress",
            source_ip_prefix="10.0.0.0/24",
            destination_ip_prefix="0.0.0.0/0",
        )
        assert [each.id for each in held(neutron, other).meters] == [everybodys["id"]]
        neutron.expect(204, "DELETE", f"/metering/metering-labels/{label['id']}", user="admin")
        assert neutron.get(f"{rules}?metering_label_id={label['id']}", "admin")["metering_label_rules"] == []
        assert [each.id for each in held(neutron, router).meters] == [everybodys["id"]]


class TestWhatTheWiresAreTold:
    def test_a_router_has_a_number_of_its_own(self, neutron: Neutron) -> None:
        router = neutron.create("router", "admin", evpn_vni=500)
        assert (router["evpn_vni"], held(neutron, router).evpn_vni) == (500, 500)
        again = {"router": {"evpn_vni": 500}}
        neutron.refused(409, "EVPNVNIInUse", "POST", "/routers", again, "admin")
        # Any free one.
        assert [neutron.create("router", "admin", evpn_vni=0)["evpn_vni"] for _ in range(2)] == [1, 2]
        assert [each["id"] for each in neutron.get("/routers?evpn_vni=500", "admin")["routers"]] == [router["id"]]
        neutron.expect(204, "DELETE", f"/routers/{router['id']}", user="admin")
        assert neutron.create("router", "admin", evpn_vni="500")["evpn_vni"] == 500

    def test_who_may_choose_it_and_what_it_is(self, neutron: Neutron) -> None:
        neutron.refused(403, "PolicyNotAuthorized", "POST", "/routers", {"router": {"evpn_vni": 100}})
        for wrong in (-1, 2**24, "invalid", None):
            neutron.expect(400, "POST", "/routers", {"router": {"evpn_vni": wrong}}, "admin")
        plain = neutron.router()
        assert plain["evpn_vni"] is None
        neutron.expect(400, "PUT", f"/routers/{plain['id']}", {"router": {"evpn_vni": 100}}, "admin")

    @pytest.mark.parametrize("options", [NetworkOptions(vni_minimum=7, vni_maximum=8)])
    def test_numbers_end(self, neutron: Neutron) -> None:
        assert [neutron.create("router", "admin", evpn_vni=0)["evpn_vni"] for _ in range(2)] == [7, 8]
        neutron.refused(409, "EVPNNoVniAvailable", "POST", "/routers", {"router": {"evpn_vni": 0}}, "admin")

    def test_the_way_to_a_subnet_is_told(self, neutron: Neutron) -> None:
        network = neutron.network("10.200.0.0/16")
        router = neutron.router(network, external=neutron.external())
        path = f"/subnets/{network['subnets'][0]}"
        neutron.expect(403, "PUT", path, {"subnet": {"leak_routes": True}})
        assert neutron.get(path)["subnet"]["leak_routes"] is False and held(neutron, router).leaked == ()
        assert put(neutron, path, "admin", leak_routes=True)["leak_routes"] is True
        assert held(neutron, router).leaked == ("10.200.0.0/16",)
        # Out there they are all beside each other.
        other = neutron.network("10.200.1.0/24")
        neutron.router(other, external=neutron.external("198.51.100.0/24"))
        overlapping = f"/subnets/{other['subnets'][0]}"
        neutron.refused(400, "BadRequest", "PUT", overlapping, {"subnet": {"leak_routes": True}}, "admin")
        put(neutron, path, "admin", leak_routes=False)
        assert held(neutron, router).leaked == ()
        put(neutron, overlapping, "admin", leak_routes=True)

    def test_one_that_no_way_leads_to_is_not(self, neutron: Neutron) -> None:
        network = neutron.network()
        path, wish = f"/subnets/{network['subnets'][0]}", {"subnet": {"leak_routes": True}}
        neutron.refused(400, "BadRequest", "PUT", path, wish, "admin")
        neutron.router(network)
        neutron.refused(400, "BadRequest", "PUT", path, wish, "admin")
        new = {"network_id": network["id"], "ip_version": 4, "cidr": "10.9.0.0/24", "leak_routes": True}
        neutron.expect(400, "POST", "/subnets", {"subnet": new}, "admin")
