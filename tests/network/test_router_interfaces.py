"""The interfaces of routers, and what they keep others from. Reference: network-rules.md, sections 5 and 6."""

from __future__ import annotations

from tests.network.conftest import Neutron
from tests.network.test_routers import REMOVE, held, refused, show

ADD = "add_router_interface"


class TestInterfaces:
    def test_a_subnet_is_joined_at_its_gateway(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.router()
        joined = neutron.join(made, subnet_id=network["subnets"][0])
        (port,) = neutron.ports()
        assert joined == {
            "id": made["id"], "project_id": "demo", "tenant_id": "demo", "port_id": port["id"],
            "network_id": network["id"], "subnet_id": network["subnets"][0], "subnet_ids": network["subnets"],
        }  # fmt: skip
        assert (port["device_id"], port["device_owner"]) == (made["id"], "network:router_interface")
        assert (port["fixed_ips"][0]["ip_address"], port["project_id"], port["status"]) == ("10.0.0.1", "demo", "DOWN")
        assert show(neutron, made)["revision_number"] > made["revision_number"]
        (interface,) = held(neutron, made).interfaces
        assert (interface.network_id, interface.addresses) == (network["id"], ("10.0.0.1/24",))
        assert neutron.get(f"/ports/{port['id']}")["port"]["status"] == "ACTIVE"

    def test_it_parts_and_its_port_goes(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.router(network)
        (joined,) = neutron.ports()
        parted = neutron.part(made, subnet_id=network["subnets"][0])
        assert (parted["port_id"], parted["subnet_ids"]) == (joined["id"], network["subnets"])
        assert neutron.ports() == [] and held(neutron, made).interfaces == ()
        refused(neutron, 404, "RouterInterfaceNotFoundForSubnet", made, REMOVE, subnet_id=network["subnets"][0])

    def test_a_port_becomes_an_interface(self, neutron: Neutron) -> None:
        network, made = neutron.network(), neutron.router()
        port = neutron.create("port", network_id=network["id"])
        joined = neutron.join(made, port_id=port["id"])
        assert (joined["port_id"], joined["subnet_id"]) == (port["id"], network["subnets"][0])
        assert held(neutron, made).interfaces[0].addresses == ("10.0.0.2/24",)
        # A second router may be there, too, with another address.
        neutron.router(network)
        other = neutron.network("10.1.0.0/24")
        refused(neutron, 400, "SubnetMismatchForPort", made, REMOVE, port_id=port["id"], subnet_id=other["subnets"][0])
        neutron.part(made, port_id=port["id"], subnet_id=network["subnets"][0])
        neutron.expect(404, "GET", f"/ports/{port['id']}")

    def test_one_that_carries_a_trunk_stays(self, neutron: Neutron) -> None:
        network, made = neutron.network(), neutron.router()
        port = neutron.create("port", network_id=network["id"])
        trunk = neutron.create("trunk", port_id=port["id"])
        neutron.join(made, port_id=port["id"])
        refused(neutron, 409, "PortInUseAsTrunkParent", made, REMOVE, port_id=port["id"])
        neutron.expect(204, "DELETE", f"/trunks/{trunk['id']}")
        neutron.part(made, port_id=port["id"])

    def test_one_of_the_two_is_named(self, neutron: Neutron) -> None:
        network, made = neutron.network(), neutron.router()
        port = neutron.create("port", network_id=network["id"])
        both = {"subnet_id": network["subnets"][0], "port_id": port["id"]}
        for action in (ADD, REMOVE):
            assert "must be specified." in refused(neutron, 400, "BadRequest", made, action)
        refused(neutron, 400, "BadRequest", made, ADD, **both)

    def test_what_does_not_fit_is_refused(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.router(network)
        twice = refused(neutron, 400, "BadRequest", made, ADD, subnet_id=network["subnets"][0])
        assert twice == f"Bad router request: Router already has a port on subnet {network['subnets'][0]}."
        overlapping = neutron.network("10.0.0.0/16")
        told = refused(neutron, 400, "BadRequest", made, ADD, subnet_id=overlapping["subnets"][0])
        assert "overlaps with cidr 10.0.0.0/24" in told
        bare = neutron.network(None)
        subnet = neutron.create("subnet", network_id=bare["id"], ip_version=4, cidr="10.2.0.0/24", gateway_ip=None)
        refused(neutron, 400, "BadRequest", made, ADD, subnet_id=subnet["id"])
        refused(neutron, 404, "SubnetNotFound", made, ADD, subnet_id=made["id"])
        refused(neutron, 404, "PortNotFound", made, ADD, port_id=made["id"])
        refused(neutron, 404, "RouterInterfaceNotFound", made, REMOVE, port_id=made["id"])
        refused(neutron, 404, "SubnetNotFound", made, REMOVE, subnet_id=made["id"])

    def test_a_gateway_address_is_one_ports(self, neutron: Neutron) -> None:
        network = neutron.network()
        neutron.router(network)
        refused(
            neutron, 409, "IpAddressAlreadyAllocated", neutron.router(), ADD, subnet_id=network["subnets"][0]
        )  # fmt: skip

    def test_ports_that_are_in_use_or_cannot_serve_are_refused(self, neutron: Neutron) -> None:
        network, made = neutron.network(), neutron.router()
        used = neutron.create("port", network_id=network["id"], device_id="server")
        refused(neutron, 409, "PortInUse", made, ADD, port_id=used["id"])
        bare = neutron.create("port", network_id=network["id"], fixed_ips=[])
        refused(neutron, 400, "BadRequest", made, ADD, port_id=bare["id"])
        second = neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.3.0.0/24")
        both = [{"subnet_id": network["subnets"][0]}, {"subnet_id": second["id"]}]
        port = neutron.create("port", network_id=network["id"], fixed_ips=both)
        refused(neutron, 400, "BadRequest", made, ADD, port_id=port["id"])

    def test_subnets_of_others_are_joined_by_administrators_only(self, neutron: Neutron) -> None:
        shared, theirs = neutron.network(user="admin", shared=True), neutron.network("10.8.0.0/24", user="other")
        made = neutron.router()
        refused(neutron, 400, "BadRequest", made, ADD, subnet_id=shared["subnets"][0])
        refused(neutron, 404, "SubnetNotFound", made, ADD, subnet_id=theirs["subnets"][0])
        neutron.join(made, subnet_id=shared["subnets"][0], user="admin")
        their_port = neutron.create("port", "other", network_id=shared["id"])
        refused(neutron, 404, "PortNotFound", made, ADD, port_id=their_port["id"])
        refused(neutron, 409, "DeviceIDNotOwnedByTenant", neutron.router(), ADD, user="admin", port_id=their_port["id"])

    def test_those_of_a_network_that_is_shared_with_the_project_are_joined_too(self, neutron: Neutron) -> None:
        """Being shared with everybody does not let everybody take its gateway address."""
        network, made = neutron.network(user="admin"), neutron.router()
        share = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}
        body = {"rbac_policy": {**share, "target_tenant": "demo"}}
        policy = neutron.expect(201, "POST", "/rbac-policies", body, "admin")["rbac_policy"]
        neutron.join(made, subnet_id=network["subnets"][0])
        neutron.refused(409, "RbacPolicyInUse", "DELETE", f"/rbac-policies/{policy['id']}", user="admin")
        neutron.part(made, subnet_id=network["subnets"][0])
        neutron.expect(204, "DELETE", f"/rbac-policies/{policy['id']}", user="admin")

    def test_all_ipv6_subnets_of_a_network_are_on_one_port(self, neutron: Neutron) -> None:
        network = neutron.network("2001:db8:1::/64")
        first = network["subnets"][0]
        more = {"network_id": network["id"], "ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        second = neutron.create("subnet", cidr="2001:db8:2::/64", **more)["id"]
        made = neutron.router(network)
        port_id = neutron.ports()[0]["id"]
        assert neutron.join(made, subnet_id=second)["port_id"] == port_id
        assert held(neutron, made).interfaces[0].addresses == ("2001:db8:1::1/64", "2001:db8:2::1/64")
        other = neutron.create("port", network_id=network["id"], fixed_ips=[{"subnet_id": first}])
        refused(neutron, 400, "BadRequest", made, ADD, port_id=other["id"])
        assert neutron.part(made, subnet_id=first)["subnet_ids"] == [first]
        assert held(neutron, made).interfaces[0].addresses == ("2001:db8:2::1/64",)
        neutron.part(made, port_id=port_id)
        assert held(neutron, made).interfaces == ()

    def test_a_subnet_whose_routes_come_from_outside_is_refused(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        subnet = neutron.create(
            "subnet", network_id=network["id"], ip_version=6, cidr="2001:db8::/64", ipv6_address_mode="slaac"
        )
        refused(neutron, 400, "BadRequest", neutron.router(), ADD, subnet_id=subnet["id"])


class TestWhatInterfacesKeepOthersFrom:
    def test_their_router_network_and_subnet_stay(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.router(network, external=neutron.external())
        port = neutron.get("/ports?device_owner=network:router_interface")["ports"][0]["id"]
        neutron.refused(409, "RouterInUse", "DELETE", f"/routers/{made['id']}")
        neutron.refused(409, "NetworkInUse", "DELETE", f"/networks/{network['id']}")
        neutron.refused(409, "SubnetInUse", "DELETE", f"/subnets/{network['subnets'][0]}")
        neutron.part(made, subnet_id=network["subnets"][0])
        neutron.expect(204, "DELETE", f"/routers/{made['id']}")
        neutron.expect(204, "DELETE", f"/networks/{network['id']}")
        neutron.refused(404, "RouterNotFound", "DELETE", f"/routers/{made['id']}")
        assert held(neutron, made) is None and port not in neutron.driver.ports.objects
        ports = neutron.get("/ports", "admin")["ports"]
        assert {each["device_owner"] for each in ports} == {"network:dhcp"}

    def test_ports_of_routers_go_with_them(self, neutron: Neutron) -> None:
        network = neutron.network()
        neutron.router(network, external=neutron.external())
        for port in neutron.ports(user="admin"):
            told = neutron.refused(409, "ServicePortInUse", "DELETE", f"/ports/{port['id']}", user="admin")
            assert told.endswith(f"has device owner {port['device_owner']}.")

    def test_ports_of_routers_stay_theirs(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.router(network)
        path = f"/ports/{neutron.ports()[0]['id']}"
        for fields in ({"device_id": "x"}, {"device_owner": ""}, {"binding:host_id": "h1"}):
            neutron.refused(409, "PortInUse", "PUT", path, {"port": fields}, "admin")
        neutron.expect(200, "PUT", path, {"port": {"name": "x", "device_id": made["id"]}})

    def test_a_port_does_not_look_like_one_of_anothers_router(self, neutron: Neutron) -> None:
        network, theirs = neutron.network(), neutron.router(user="other")
        owner = {"device_id": theirs["id"], "device_owner": "network:router_interface"}
        body = {"port": {"network_id": network["id"], **owner}}
        neutron.refused(409, "DeviceIDNotOwnedByTenant", "POST", "/ports", body)
        port = neutron.create("port", network_id=network["id"])
        neutron.refused(409, "DeviceIDNotOwnedByTenant", "PUT", f"/ports/{port['id']}", {"port": owner})

    def test_the_gateway_of_the_subnet_stays(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.router(network)
        path = f"/subnets/{network['subnets'][0]}"
        for other in ("10.0.0.254", None):
            neutron.refused(409, "GatewayIpInUse", "PUT", path, {"subnet": {"gateway_ip": other}})
        neutron.expect(200, "PUT", path, {"subnet": {"gateway_ip": "10.0.0.1", "name": "x"}})
        neutron.part(made, subnet_id=network["subnets"][0])
        pools = [{"start": "10.0.0.2", "end": "10.0.0.99"}]
        neutron.expect(200, "PUT", path, {"subnet": {"gateway_ip": "10.0.0.254", "allocation_pools": pools}})

    def test_addresses_of_an_interface_are_changed_if_they_fit(self, neutron: Neutron) -> None:
        network, other = neutron.network(), neutron.network("10.0.0.0/25")
        made = neutron.router(network)
        path = f"/ports/{neutron.ports()[0]['id']}"
        neutron.expect(200, "PUT", path, {"port": {"fixed_ips": [{"ip_address": "10.0.0.9"}]}})
        assert held(neutron, made).interfaces[0].addresses == ("10.0.0.9/24",)
        neutron.refused(400, "BadRequest", "PUT", path, {"port": {"fixed_ips": []}})
        refused(neutron, 400, "BadRequest", made, ADD, subnet_id=other["subnets"][0])

    def test_they_stay_where_something_goes_through_them(self, neutron: Neutron) -> None:
        network, external = neutron.network(), neutron.external()
        other = neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.1.0/24")["id"]
        made = neutron.router(network, external=external)
        interface = f"/ports/{neutron.ports('?device_owner=network:router_interface')[0]['id']}"
        moves = {"port": {"fixed_ips": [{"subnet_id": other}]}}
        route = {"destination": "10.9.0.0/16", "nexthop": "10.0.0.77"}
        neutron.expect(200, "PUT", f"/routers/{made['id']}", {"router": {"routes": [route]}})
        neutron.refused(409, "RouterInterfaceInUseByRoute", "PUT", interface, moves)
        neutron.expect(200, "PUT", f"/routers/{made['id']}", {"router": {"routes": []}})
        port = neutron.create("port", network_id=network["id"], fixed_ips=[{"subnet_id": network["subnets"][0]}])
        floating = neutron.create("floatingip", floating_network_id=external["id"], port_id=port["id"])
        neutron.refused(409, "RouterInterfaceInUseByFloatingIP", "PUT", interface, moves)
        neutron.expect(204, "DELETE", f"/floatingips/{floating['id']}")
        neutron.expect(200, "PUT", interface, moves)

    def test_an_interface_that_is_down_passes_nothing(self, neutron: Neutron) -> None:
        made = neutron.router(neutron.network())
        port = neutron.ports()[0]["id"]
        neutron.expect(200, "PUT", f"/ports/{port}", {"port": {"admin_state_up": False}})
        assert held(neutron, made).interfaces == ()
        assert neutron.get(f"/ports/{port}")["port"]["status"] == "DOWN"
        neutron.expect(200, "PUT", f"/ports/{port}", {"port": {"admin_state_up": True}})
        assert len(held(neutron, made).interfaces) == 1
        assert neutron.get(f"/ports/{port}")["port"]["status"] == "ACTIVE"

    def test_interfaces_of_a_router_that_is_down_are_ready(self, neutron: Neutron) -> None:
        made = neutron.router(neutron.network(), admin_state_up=False)
        assert not held(neutron, made).admin_state_up
        assert neutron.ports()[0]["status"] == "ACTIVE"
