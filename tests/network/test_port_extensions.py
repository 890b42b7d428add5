"""What ports can have beside addresses and groups: bindings of several hosts, local IPs, logs."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.db.columns import utc
from cloudctl.network import ports
from tests.network.conftest import Neutron


def held(neutron: Neutron, port: Any) -> Any:
    """What the driver holds of it."""
    neutron.settle()
    return neutron.driver.ports.get(port["id"])


def plugged(neutron: Neutron, network: Any, **fields: Any) -> Any:
    """A server's port on host h1."""
    made = neutron.create("port", network_id=network["id"], device_id="s", **fields)
    said = {"binding:host_id": "h1", "device_owner": "compute:nova"}
    neutron.expect(200, "PUT", f"/ports/{made['id']}", {"port": said}, "admin")
    neutron.settle()
    return made


class TestBindings:
    def test_a_port_moves_to_a_host_and_back(self, neutron: Neutron) -> None:
        port = plugged(neutron, neutron.network())
        path = f"/ports/{port['id']}/bindings"

        def ask(method: str, path: str, status: int = 200, **said: Any) -> Any:
            return neutron.expect(status, method, path, {"binding": said} if said else None, "admin")["binding"]

        made = ask("POST", path, 201, host="h2", profile={"a": "b"})
        assert made == {
            "host": "h2", "vif_type": "unbound", "vif_details": {}, "vnic_type": "normal", "profile": {"a": "b"},
            "status": "INACTIVE", "project_id": "demo",
        }  # fmt: skip
        assert held(neutron, port).hosts == ("h1", "h2")
        seen = neutron.get(path, "admin")["bindings"]
        assert [(each["host"], each["status"], each["vif_type"]) for each in seen] == [
            ("h1", "ACTIVE", "fake"), ("h2", "INACTIVE", "fake"),
        ]  # fmt: skip
        again = {"binding": {"host": "h2"}}
        neutron.refused(409, "PortBindingAlreadyExists", "POST", path, again, "admin")
        neutron.refused(409, "PortBindingAlreadyActive", "PUT", f"{path}/h1/activate", user="admin")
        assert ask("PUT", f"{path}/h2/activate")["status"] == "ACTIVE"
        neutron.settle()
        shown = neutron.get(f"/ports/{port['id']}", "admin")["port"]
        assert (shown["binding:host_id"], shown["binding:profile"], shown["status"]) == ("h2", {"a": "b"}, "ACTIVE")
        assert neutron.get(f"{path}?status=INACTIVE", "admin")["bindings"][0]["host"] == "h1"
        assert ask("PUT", f"{path}/h1", profile={"c": "d"})["profile"] == {"c": "d"}
        neutron.expect(204, "DELETE", f"{path}/h1", user="admin")
        assert held(neutron, port).hosts == ("h2",)
        neutron.refused(404, "PortBindingNotFound", "GET", f"{path}/h1", user="admin")
        neutron.expect(204, "DELETE", f"{path}/h2", user="admin")
        assert held(neutron, port) is None

    def test_each_of_its_changes_changes_its_port(self, neutron: Neutron) -> None:
        port = plugged(neutron, neutron.network())
        path = f"/ports/{port['id']}"
        one, revisions = f"{path}/bindings/h2", []
        first = neutron.get(path, "admin")["port"]["revision_number"]
        for method, where, body in (
            ("POST", f"{path}/bindings", {"host": "h2"}),
            ("PUT", one, {"profile": {"a": "b"}}),
            ("PUT", one, {}),
            ("DELETE", one, None),
        ):
            neutron.clock.advance(60)
            neutron.ask(method, where, None if body is None else {"binding": body}, "admin")
            shown = neutron.get(path, "admin")["port"]
            revisions.append((shown["revision_number"] - first, shown["updated_at"][14:16]))
        assert revisions == [(1, "01"), (2, "02"), (2, "02"), (3, "04")]

    @pytest.mark.parametrize("by", ("request", "compute"))
    def test_a_port_bound_to_a_host_that_it_may_move_to_has_one_binding_there(self, neutron: Neutron, by: str) -> None:
        port = plugged(neutron, neutron.network())
        path = f"/ports/{port['id']}/bindings"
        neutron.expect(201, "POST", path, {"binding": {"host": "h2"}}, "admin")
        if by == "request":
            neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"binding:host_id": "h2"}}, "admin")
        else:
            now = utc(neutron.clock.seconds())
            neutron.transact(ports.bind, port["id"], "s", "h2", "compute:nova", now)
        seen = neutron.get(path, "admin")["bindings"]
        assert [(each["host"], each["status"]) for each in seen] == [("h2", "ACTIVE")]
        neutron.expect(201, "POST", path, {"binding": {"host": "h3"}}, "admin")
        neutron.expect(200, "PUT", f"{path}/h3/activate", user="admin")
        neutron.settle()
        assert {each["host"] for each in neutron.get(path, "admin")["bindings"]} == {"h2", "h3"}

    def test_who_may_and_of_what(self, neutron: Neutron) -> None:
        port = neutron.create("port", network_id=neutron.network()["id"])
        path = f"/ports/{port['id']}/bindings"
        neutron.expect(403, "GET", path)
        neutron.refused(400, "InvalidInput", "POST", path, {"binding": {"host": "h"}}, "service")
        assert neutron.get(path, "service") == {"bindings": []}

    def test_they_go_with_their_port(self, neutron: Neutron) -> None:
        port = plugged(neutron, neutron.network())
        path = f"/ports/{port['id']}/bindings"
        neutron.expect(201, "POST", path, {"binding": {"host": "h2"}}, "admin")
        neutron.settle()
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")
        assert held(neutron, port) is None


class TestLocalIps:
    def test_a_port_of_ones_own_is_not_made_for_one_by_its_owners_word(self, neutron: Neutron) -> None:
        port = neutron.create("port", network_id=neutron.network()["id"], device_owner="network:local_ip")
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")

    def test_one_leads_to_ports(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"network_id": network["id"]}})["local_ip"]
        own = neutron.get(f"/ports/{made['local_port_id']}")["port"]
        assert own["fixed_ips"][0]["ip_address"] == made["local_ip_address"]
        assert (own["device_owner"], made["ip_mode"]) == ("network:local_ip", "translate")
        neutron.refused(409, "ServicePortInUse", "DELETE", f"/ports/{own['id']}")
        port = plugged(neutron, network)
        path = f"/local_ips/{made['id']}/port_associations"
        body = {"port_association": {"fixed_port_id": port["id"]}}
        association = neutron.expect(201, "POST", path, body)["port_association"]
        address = port["fixed_ips"][0]["ip_address"]
        assert association == {
            "local_ip_id": made["id"], "local_ip_address": made["local_ip_address"], "fixed_port_id": port["id"],
            "fixed_ip": address, "host": "h1",
        }  # fmt: skip
        assert neutron.get(path)["port_associations"] == [association]
        assert neutron.get(f"{path}/{port['id']}")["port_association"] == association
        (led,) = held(neutron, port).spec.local_ips
        assert (led.address, led.fixed_address) == (made["local_ip_address"], address)
        neutron.refused(409, "LocalIPAssociationAlreadyExists", "POST", path, body)
        neutron.refused(409, "LocalIPInUse", "DELETE", f"/local_ips/{made['id']}")
        neutron.expect(404, "GET", path, user="other")
        neutron.expect(204, "DELETE", f"{path}/{port['id']}")
        neutron.refused(404, "LocalIPAssociationNotFound", "GET", f"{path}/{port['id']}")
        assert held(neutron, port).spec.local_ips == ()
        neutron.expect(204, "DELETE", f"/local_ips/{made['id']}")
        neutron.expect(404, "GET", f"/ports/{own['id']}")

    def test_its_port_lets_through_what_others_of_the_network_do(self, neutron: Neutron) -> None:
        network = neutron.network(user="other")
        policy = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}
        body = {"rbac_policy": {**policy, "target_tenant": "demo"}}
        neutron.expect(201, "POST", "/rbac-policies", body, "other")
        made = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"network_id": network["id"]}})["local_ip"]
        own = neutron.get(f"/ports/{made['local_port_id']}")["port"]
        assert (own["port_security_enabled"], own["security_groups"]) == (True, [])

    def test_none_leads_to_an_address_that_the_port_gives_up(self, neutron: Neutron) -> None:
        network = neutron.network()
        made = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"network_id": network["id"]}})["local_ip"]
        port = plugged(neutron, network)
        path = f"/local_ips/{made['id']}/port_associations"
        neutron.expect(201, "POST", path, {"port_association": {"fixed_port_id": port["id"]}})
        both = [*port["fixed_ips"], {"ip_address": "10.0.0.99"}]
        neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"fixed_ips": both}})
        assert len(neutron.get(path)["port_associations"]) == 1
        neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": {"fixed_ips": both[1:]}})
        assert neutron.get(path)["port_associations"] == []
        assert held(neutron, port).spec.local_ips == ()

    def test_an_automatic_subnet_goes_with_none_and_without_what_leads_to_its_addresses(self, neutron: Neutron) -> None:
        network = neutron.network()
        modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        automatic = neutron.create("subnet", network_id=network["id"], ip_version=6, cidr="2001:db8::/64", **modes)
        own, port = neutron.create("port", network_id=network["id"]), plugged(neutron, network)
        (theirs,), (mine,) = (
            [each["ip_address"] for each in some["fixed_ips"] if each["subnet_id"] == automatic["id"]]
            for some in (own, port)
        )
        said = {"local_port_id": own["id"], "local_ip_address": theirs}
        local = neutron.expect(201, "POST", "/local_ips", {"local_ip": said})["local_ip"]
        neutron.refused(409, "SubnetInUse", "DELETE", f"/subnets/{automatic['id']}")
        assert neutron.get(f"/ports/{own['id']}")["port"]["fixed_ips"] == own["fixed_ips"]
        neutron.expect(204, "DELETE", f"/local_ips/{local['id']}")

        other = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"network_id": network["id"]}})["local_ip"]
        path = f"/local_ips/{other['id']}/port_associations"
        neutron.expect(201, "POST", path, {"port_association": {"fixed_port_id": port["id"], "fixed_ip": mine}})
        assert len(held(neutron, port).spec.local_ips) == 1
        neutron.expect(204, "DELETE", f"/subnets/{automatic['id']}")
        assert neutron.get(path)["port_associations"] == []
        assert held(neutron, port).spec.local_ips == ()

    def test_one_on_a_network_of_both_families_has_an_ipv4_address(self, neutron: Neutron) -> None:
        network = neutron.network("2001:db8::/64")
        on_it = {"local_ip": {"network_id": network["id"]}}
        neutron.refused(400, "BadRequest", "POST", "/local_ips", on_it)
        assert neutron.get("/ports?device_owner=network:local_ip")["ports"] == []
        neutron.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
        made = neutron.expect(201, "POST", "/local_ips", on_it)["local_ip"]
        port = neutron.get(f"/ports/{made['local_port_id']}")["port"]
        assert made["local_ip_address"].startswith("10.0.0.")
        assert {"." in each["ip_address"] for each in port["fixed_ips"]} >= {True}

    def test_two_may_have_the_same_port(self, neutron: Neutron) -> None:
        """It goes with the last of them: with the first, the other one would go too, although it leads to ports."""
        network = neutron.network()
        first = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"network_id": network["id"]}})["local_ip"]
        own = f"/ports/{first['local_port_id']}"
        neutron.expect(200, "PUT", own, {"port": {"fixed_ips": [
            {"ip_address": first["local_ip_address"]}, {"ip_address": "10.0.0.99"},
        ]}})  # fmt: skip
        said = {"local_port_id": first["local_port_id"], "local_ip_address": "10.0.0.99"}
        other = neutron.expect(201, "POST", "/local_ips", {"local_ip": said})["local_ip"]
        path = f"/local_ips/{other['id']}"
        port = plugged(neutron, network)
        body = {"port_association": {"fixed_port_id": port["id"]}}
        neutron.expect(201, "POST", f"{path}/port_associations", body)
        neutron.expect(204, "DELETE", f"/local_ips/{first['id']}")
        assert [each.address for each in held(neutron, port).spec.local_ips] == ["10.0.0.99"]
        neutron.expect(204, "DELETE", f"{path}/port_associations/{port['id']}")
        neutron.expect(204, "DELETE", path)
        neutron.expect(404, "GET", own)

    def test_one_that_goes_with_somebodys_port_no_longer_leads_anywhere(self, neutron: Neutron) -> None:
        network = neutron.network()
        own = neutron.create("port", network_id=network["id"])
        made = neutron.expect(201, "POST", "/local_ips", {"local_ip": {"local_port_id": own["id"]}})["local_ip"]
        port = plugged(neutron, network)
        body = {"port_association": {"fixed_port_id": port["id"]}}
        neutron.expect(201, "POST", f"/local_ips/{made['id']}/port_associations", body)
        assert len(held(neutron, port).spec.local_ips) == 1
        neutron.expect(204, "DELETE", f"/ports/{own['id']}")
        assert held(neutron, port).spec.local_ips == ()

    def test_which_address_is_meant(self, neutron: Neutron) -> None:
        network = neutron.network()
        port = neutron.create(
            "port", network_id=network["id"], fixed_ips=[{"ip_address": "10.0.0.8"}, {"ip_address": "10.0.0.9"}]
        )
        for said, type in (
            ({}, "LocalIPPortOrNetworkRequired"),
            ({"local_port_id": port["id"]}, "LocalIPNoRequestedIP"),
            ({"local_port_id": neutron.create("port", network_id=network["id"], fixed_ips=[])["id"]}, "LocalIPNoIP"),
            ({"local_port_id": port["id"], "local_ip_address": "10.0.0.7"}, "LocalIPRequestedIPNotFound"),
        ):
            neutron.refused(400, type, "POST", "/local_ips", {"local_ip": said})
        said = {"local_port_id": port["id"], "local_ip_address": "10.0.0.9", "name": "a"}
        made = neutron.expect(201, "POST", "/local_ips", {"local_ip": said})["local_ip"]
        assert (made["network_id"], made["local_ip_address"]) == (network["id"], "10.0.0.9")
        neutron.refused(409, "LocalIPAlreadyExists", "POST", "/local_ips", {"local_ip": said})
        neutron.expect(404, "POST", "/local_ips", {"local_ip": said}, "other")
        assert neutron.expect(200, "PUT", f"/local_ips/{made['id']}", {"local_ip": {"name": "b"}})
        # Others would get its address, and lose what is sent to them on the hosts where it leads elsewhere.
        taken = {"port": {"fixed_ips": [{"ip_address": "10.0.0.66"}]}}
        neutron.refused(400, "BadRequest", "PUT", f"/ports/{port['id']}", taken)
        # Somebody's own port takes its local IP along.
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")
        neutron.expect(404, "GET", f"/local_ips/{made['id']}")


class TestLogs:
    def test_ports_are_logged(self, neutron: Neutron) -> None:
        port = plugged(neutron, neutron.network())
        (group,) = port["security_groups"]
        assert held(neutron, port).spec.logged == ()
        assert neutron.get("/log/loggable-resources", "admin") == {"loggable_resources": [{"type": "security_group"}]}
        said = {"resource_type": "security_group", "resource_id": group, "event": "DROP", "project_id": "demo"}
        made = neutron.expect(201, "POST", "/log/logs", {"log": said}, "admin")["log"]
        assert (made["enabled"], made["target_id"], made["project_id"]) == (True, None, "demo")
        assert held(neutron, port).spec.logged == ("DROP",)
        path = f"/log/logs/{made['id']}"
        neutron.expect(200, "PUT", path, {"log": {"enabled": False}}, "admin")
        assert held(neutron, port).spec.logged == ()
        every = {"log": {"resource_type": "security_group", "project_id": "demo", "target_id": port["id"]}}
        other = neutron.expect(201, "POST", "/log/logs", every, "admin")["log"]
        assert held(neutron, port).spec.logged == ("ACCEPT", "DROP")
        neutron.expect(204, "DELETE", f"/log/logs/{other['id']}", user="admin")
        assert held(neutron, port).spec.logged == ()

    def test_what_cannot_be_logged(self, neutron: Neutron) -> None:
        nothing = "00000000-0000-4000-8000-000000000000"
        for said, status, type in (
            ({"resource_type": "router"}, 400, "InvalidLogResourceType"),
            ({"resource_type": "security_group", "resource_id": nothing}, 404, "ResourceNotFound"),
            ({"resource_type": "security_group", "target_id": nothing}, 404, "TargetResourceNotFound"),
        ):
            neutron.refused(status, type, "POST", "/log/logs", {"log": said}, "admin")

    def test_one_goes_with_its_group(self, neutron: Neutron) -> None:
        group = neutron.create("security_group", name="g")
        said = {"resource_type": "security_group", "resource_id": group["id"]}
        made = neutron.expect(201, "POST", "/log/logs", {"log": said}, "admin")["log"]
        neutron.expect(204, "DELETE", f"/security-groups/{group['id']}")
        neutron.refused(404, "LogResourceNotFound", "GET", f"/log/logs/{made['id']}", user="admin")
