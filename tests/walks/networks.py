"""What a walk does to networks, ports, routers, security groups, floating addresses and trunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.walks.servers import boot
from tests.walks.walk import V2, Action, Actions, Walk

NAME = "walked"  # of what walks make, unlike what is there from the start

Found = dict[str, Any]


def networks(walk: Walk) -> list[Found]:
    """Those that the walk has made."""
    return walk.shown(f"{V2}/networks?name={NAME}", "networks")


def routers(walk: Walk) -> list[Found]:
    """Those that the walk has made: the first one keeps its gateway, or no address could be reached."""
    return walk.shown(f"{V2}/routers?name={NAME}", "routers")


def subnets(walk: Walk) -> list[Found]:
    return walk.shown(f"{V2}/subnets?name={NAME}", "subnets")


def groups(walk: Walk) -> list[Found]:
    return walk.shown(f"{V2}/security-groups?name={NAME}", "security_groups")


def addresses(walk: Walk) -> list[Found]:
    return walk.shown(f"{V2}/floatingips", "floatingips")


def make(kind: str, **wishes: Any) -> Action:
    return lambda walk: walk.ask("POST", f"{V2}/{kind.replace('_', '-')}s", {kind: {"name": NAME, **wishes}})


def change(kind: str, among: Callable[[Walk], list[Found]], **wishes: tuple[Any, ...]) -> Action:
    """Each field becomes one of its values."""

    def change(walk: Walk) -> None:
        if found := walk.pick(among(walk)):
            chosen = {name: walk.pick(values) for name, values in wishes.items()}
            walk.ask("PUT", f"{V2}/{kind}s/{found['id']}", {kind: chosen})

    return change


def remove(kind: str, among: Callable[[Walk], list[Found]]) -> Action:
    def remove(walk: Walk) -> None:
        if found := walk.pick(among(walk)):
            walk.ask("DELETE", f"{V2}/{kind}s/{found['id']}")

    return remove


# -- networks and routers


def make_subnet(walk: Walk) -> None:
    if network := walk.pick(networks(walk)):
        number = walk.chance.randrange(200)
        ipv4 = {"ip_version": 4, "cidr": f"10.{number}.0.0/24", "enable_dhcp": walk.often(0.7)}
        slaac = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        ipv6 = {"ip_version": 6, "cidr": f"fd00:{number}::/64", **slaac}
        chosen = ipv4 if walk.often(0.5) else ipv6
        walk.ask("POST", f"{V2}/subnets", {"subnet": {"network_id": network["id"], "name": NAME, **chosen}})


def add_interface(walk: Walk) -> None:
    router, subnet = walk.pick(walk.shown(f"{V2}/routers", "routers")), walk.pick(subnets(walk))
    if router and subnet:
        walk.ask("PUT", f"{V2}/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]})


def remove_interface(walk: Walk) -> None:
    found = walk.shown(f"{V2}/ports?device_owner=network:router_interface", "ports")
    if port := walk.pick([each for each in found if each["network_id"] != walk.private]):
        path = f"{V2}/routers/{port['device_id']}/remove_router_interface"
        walk.ask("PUT", path, {"port_id": port["id"]})


def change_gateway(walk: Walk) -> None:
    if router := walk.pick(routers(walk)):
        gateway = {"network_id": walk.public} if walk.often(0.5) else None
        walk.ask("PUT", f"{V2}/routers/{router['id']}", {"router": {"external_gateway_info": gateway}})


# -- ports


def make_port(walk: Walk) -> None:
    walk.ask("POST", f"{V2}/ports", {"port": {"network_id": walk.private}})


def boot_with_a_port_of_another_network(walk: Walk) -> None:
    if network := walk.pick(networks(walk)):
        made = walk.ask("POST", f"{V2}/ports", {"port": {"network_id": network["id"]}})
        if made.status == 201:
            boot(walk, networks=[{"port": made.json()["port"]["id"]}, {"uuid": network["id"]}])


def change_addresses(walk: Walk) -> None:
    if port := walk.pick(walk.ports()):
        found = walk.shown(f"{V2}/subnets?network_id={port['network_id']}", "subnets")
        chosen = walk.chance.sample(found, min(len(found), walk.chance.randrange(3)))
        fixed = [{"subnet_id": each["id"]} for each in chosen]
        walk.ask("PUT", f"{V2}/ports/{port['id']}", {"port": {"fixed_ips": fixed}})


def change_groups(walk: Walk) -> None:
    if port := walk.pick(walk.ports()):
        found = walk.shown(f"{V2}/security-groups", "security_groups")
        chosen = walk.chance.sample(found, min(len(found), 2))
        walk.ask("PUT", f"{V2}/ports/{port['id']}", {"port": {"security_groups": [each["id"] for each in chosen]}})


# -- security groups


def make_rule(walk: Walk) -> None:
    if group := walk.pick(groups(walk)):
        remote = walk.pick(walk.shown(f"{V2}/security-groups", "security_groups")) if walk.often(0.5) else None
        ports = {"port_range_min": walk.chance.randrange(1, 5), "port_range_max": 10}
        wishes = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp", **ports}
        wishes["remote_group_id"] = remote["id"] if remote else None
        walk.ask("POST", f"{V2}/security-group-rules", {"security_group_rule": wishes})


def delete_rule(walk: Walk) -> None:
    if rule := walk.pick([each for group in groups(walk) for each in group["security_group_rules"]]):
        walk.ask("DELETE", f"{V2}/security-group-rules/{rule['id']}")


# -- floating addresses


def make_address(walk: Walk) -> None:
    walk.ask("POST", f"{V2}/floatingips", {"floatingip": {"floating_network_id": walk.public}})


def give_address(walk: Walk) -> None:
    address, port = walk.pick(addresses(walk)), walk.pick(walk.ports())
    if address:
        wishes = {"port_id": port["id"] if port and walk.often(0.7) else None}
        walk.ask("PUT", f"{V2}/floatingips/{address['id']}", {"floatingip": wishes})


def forward_port(walk: Walk) -> None:
    address, port = walk.pick(addresses(walk)), walk.pick([each for each in walk.ports() if each["fixed_ips"]])
    if address and port:
        inner = {"internal_port_id": port["id"], "internal_ip_address": port["fixed_ips"][0]["ip_address"]}
        numbers = {"internal_port": 80, "external_port": walk.chance.randrange(1000, 1010), "protocol": "tcp"}
        path = f"{V2}/floatingips/{address['id']}/port_forwardings"
        walk.ask("POST", path, {"port_forwarding": inner | numbers})


# -- trunks


def make_trunk(walk: Walk) -> None:
    parent, below = walk.pick(walk.ports()), walk.pick(walk.ports())
    if parent and below:
        vlan = {"port_id": below["id"], "segmentation_type": "vlan", "segmentation_id": 7}
        wishes = {"port_id": parent["id"], "sub_ports": [vlan] if parent["id"] != below["id"] else []}
        walk.ask("POST", f"{V2}/trunks", {"trunk": wishes})


def trunks(walk: Walk) -> list[Found]:
    return walk.shown(f"{V2}/trunks", "trunks")


ROUTE = {"destination": "192.168.7.0/24", "nexthop": "10.0.0.99"}

ACTIONS: Actions = (
    (0.8, make("network")),
    (0.8, make_subnet),
    (0.4, make("router")),
    (0.8, add_interface),
    (0.4, remove_interface),
    (0.6, change_gateway),
    (0.4, remove("network", networks)),
    (0.3, remove("subnet", subnets)),
    (0.3, remove("router", routers)),
    (0.3, change("network", networks, admin_state_up=(True, False))),
    (0.3, change("subnet", subnets, enable_dhcp=(True, False))),
    (0.2, change("subnet", subnets, dns_nameservers=([], ["9.9.9.9"]))),
    (0.2, change("router", routers, routes=([], [ROUTE]))),
    (2.4, make_port),
    (1.6, remove("port", lambda walk: walk.ports(free=True))),
    (0.5, boot_with_a_port_of_another_network),
    (0.4, change_addresses),
    (0.4, change_groups),
    (0.4, change("port", Walk.ports, admin_state_up=(True, False))),
    (0.3, change("port", Walk.ports, allowed_address_pairs=([], [{"ip_address": "10.0.0.77"}]))),
    (0.4, make("security_group")),
    (0.4, make_rule),
    (0.3, delete_rule),
    (0.3, remove("security-group", groups)),
    (1.6, make_address),
    (1.6, give_address),
    (0.8, remove("floatingip", addresses)),
    (0.4, forward_port),
    (0.3, make_trunk),
    (0.3, remove("trunk", trunks)),
)
