"""Ids of another project's resources, in whatever place of a body they stand: as if there were no such thing.

A wish names what it needs as `$kind`. With the caller's own resources it is granted; with one of another project in the
place of one of them it is refused in the very words that an id gets which nobody has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import attrs
import pytest
from attrs import define, field, frozen

from cloudctl.rest.body import wire_names
from cloudctl.testing.cloud import Client
from cloudctl.testing.http import Response
from tests.generated.world import UNKNOWN, VARIABLE, World

NETWORKING, VOLUME, COMPUTE = "/networking/v2.0", "/volume/v3", "/compute/v2.1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ9mYp1XpLWzVSGlcsmqpUAcUO8CJ3qXoYAuOq2Ci0V x"


@frozen
class Wish:
    """`at`: the Operation's path below its API; `$kind` of it is always the caller's own."""

    api: str
    method: str
    at: str
    body: Any
    granted: bool = True  # with the caller's own
    old: bool = False  # at the oldest microversion

    @property
    def kinds(self) -> list[str]:
        return sorted(set(_kinds(self.body)))


def _kinds(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _kinds(each)
    elif isinstance(value, list):
        for each in value:
            yield from _kinds(each)
    elif isinstance(value, str) and value.startswith("$"):
        yield value[1:]


@define
class Tenant:
    """A project, and what was made in it: kind → id."""

    world: World
    client: Client
    project_id: str
    made: dict[str, str] = field(factory=dict)

    def id(self, kind: str) -> str:
        if kind not in self.made:
            self.made[kind] = self._make(kind)
            self.world.cloud.settle()
        return self.made[kind]

    def _make(self, kind: str) -> str:
        # `$volume2` is another one like `$volume`.
        path, key, body, *by = KINDS[kind.rstrip("2")]
        body = self.filled(body)
        path = "/".join(self.filled(part) for part in path.split("/"))
        client = self.client
        if by:
            client, body = self.world.admin, {**body, "project_id": self.project_id}
        answer = client.post(path, {key: body} if key else body)
        assert answer.status < 300, (kind, answer)
        made = answer.json()[key] if key else answer.json()
        return str(made.get("id") or made["name"])

    def filled(self, value: Any, **instead: str) -> Any:
        if isinstance(value, dict):
            return {key: self.filled(each, **instead) for key, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each, **instead) for each in value]
        if isinstance(value, str) and value.startswith("$"):
            return instead.get(value[1:]) or self.id(value[1:])
        return value


CARRIED = [{"port_id": "$carried", "segmentation_type": "vlan", "segmentation_id": 9}]
POOL = {"name": "x", "prefixes": ["10.128.0.0/16"], "default_prefixlen": 24}
WITHIN = {"network_id": "$addressed", "ip_version": 4, "cidr": "10.11.0.0/24"}
ROUTED = {"network_id": "$addressed", "fixed_ips": [{"subnet_id": "$within", "ip_address": "10.11.0.77"}]}
NIC = [{"port": "$port"}]
# Kind → path, key of the body, body; a fourth one: by an administrator, for the project.
KINDS: dict[str, tuple[Any, ...]] = {
    "image": ("/image/v2/images", "", {"name": "x", "disk_format": "raw", "container_format": "bare"}),
    "network": (f"{NETWORKING}/networks", "network", {}),
    "subnet": (f"{NETWORKING}/subnets", "subnet", {"network_id": "$network", "ip_version": 4, "cidr": "10.9.0.0/24"}),
    "port": (f"{NETWORKING}/ports", "port", {"network_id": "$network", "fixed_ips": [{"subnet_id": "$subnet"}]}),
    "trunk": (f"{NETWORKING}/trunks", "trunk", {"port_id": "$port2", "sub_ports": CARRIED}),
    "security_group": (f"{NETWORKING}/security-groups", "security_group", {"name": "x"}),
    "router": (f"{NETWORKING}/routers", "router", {}),
    "address_group": (f"{NETWORKING}/address-groups", "address_group", {"addresses": ["10.0.0.0/8"]}),
    "address_scope": (f"{NETWORKING}/address-scopes", "address_scope", {"name": "x", "ip_version": 4}),
    "subnetpool": (f"{NETWORKING}/subnetpools", "subnetpool", POOL),
    "policy": (f"{NETWORKING}/qos/policies", "policy", {"name": "x"}, "by an administrator"),
    "volume": (f"{VOLUME}/volumes", "volume", {"size": 1}),
    "snapshot": (f"{VOLUME}/snapshots", "snapshot", {"volume_id": "$volume"}),
    "backup": (f"{VOLUME}/backups", "backup", {"volume_id": "$volume"}),
    "server": (f"{COMPUTE}/servers", "server", {"name": "x", "imageRef": "$tiny", "flavorRef": "1", "networks": NIC}),
    "addressed": (f"{NETWORKING}/networks", "network", {"name": "addressed"}),
    "carried": (f"{NETWORKING}/ports", "port", {"network_id": "$network"}),
    "attachment": (f"{VOLUME}/attachments", "attachment", {"volume_uuid": "$volume2"}),
    "empty": (f"{NETWORKING}/networks", "network", {}),
    "bootable": (f"{VOLUME}/volumes", "volume", {"size": 1, "imageRef": "$tiny"}),
    "frozen": (f"{VOLUME}/snapshots", "snapshot", {"volume_id": "$bootable"}),
    "within": (f"{NETWORKING}/subnets", "subnet", WITHIN),
    "spare": (f"{NETWORKING}/ports", "port", {"network_id": "$network", "fixed_ips": [{"subnet_id": "$subnet"}]}),
    "routed": (f"{NETWORKING}/ports", "port", ROUTED),
    "floatingip": (f"{NETWORKING}/floatingips", "floatingip", {"floating_network_id": "$external"}),
    "group": (f"{VOLUME}/groups", "group", {"group_type": "$alike", "volume_types": ["$together"]}),
    "typed": (f"{VOLUME}/volumes", "volume", {"size": 1, "volume_type": "$together"}),
    "grouped": (f"{VOLUME}/volumes", "volume", {"size": 1, "volume_type": "$together", "group_id": "$group"}),
    "group_snapshot": (f"{VOLUME}/group_snapshots", "group_snapshot", {"group_id": "$group"}),
    "local_ip": (f"{NETWORKING}/local_ips", "local_ip", {"network_id": "$network"}),
    "server_group": (f"{COMPUTE}/os-server-groups", "server_group", {"name": "x", "policy": "affinity"}),
}  # fmt: skip


def network(method: str, at: str, key: str = "", *, granted: bool = True, **fields: Any) -> Wish:
    return Wish("networking", method, f"/v2.0/{at}", {key: fields} if key else fields, granted)


def volume(method: str, at: str, key: str, **fields: Any) -> Wish:
    return Wish("volume", method, f"/v3/{at}", {key: fields})


def compute(method: str, at: str, key: str, *, granted: bool = True, old: bool = False, **fields: Any) -> Wish:
    return Wish("compute", method, f"/v2.1/{at}", {key: fields}, granted, old)


def boots(hints: dict[str, str] | None = None, **more: Any) -> list[Wish]:
    body: dict[str, Any] = {"server": {"name": "y", "imageRef": "$tiny", "flavorRef": "1", "networks": "none", **more}}
    if hints is not None:
        body["os:scheduler_hints"] = hints
    return [Wish("compute", "POST", f"/v2.1/{at}", body) for at in ("servers", "os-volumes_boot")]


def disk(kind: str, source: str) -> list[dict[str, Any]]:
    wanted = {"source_type": source, "destination_type": "volume", "boot_index": 0, "volume_size": 2}
    return [{"uuid": f"${kind}", **wanted}]


def gateway(network_id: str, **more: Any) -> dict[str, Any]:
    return {"external_gateway_info": {"network_id": network_id, **more}}


SHAREABLE = {
    "network": "network", "qos_policy": "policy", "security_group": "security_group", "address_group": "address_group",
    "address_scope": "address_scope", "subnetpool": "subnetpool",
}  # fmt: skip
V4: dict[str, Any] = {"ip_version": 4}
RULE: dict[str, Any] = {"security_group_id": "$security_group", "direction": "ingress"}
TAGGED = {"segmentation_type": "vlan", "segmentation_id": 5}
LED: dict[str, Any] = {
    "internal_port_id": "$routed",
    "internal_ip_address": "10.11.0.77",
    "internal_port": 5,
    "protocol": "tcp",
}
SCOPED: dict[str, Any] = {"prefixes": ["10.99.0.0/16"], "address_scope_id": "$address_scope"}
APART: dict[str, Any] = {"ip_version": 4, "cidr": "10.12.0.0/24"}
ATTACHED = "servers/$server/os-volume_attachments"
ON_IT = [{"subnet_id": "$subnet"}]

QUOTAS = {f"{VOLUME}/os-quota-sets": {"volumes": 90}, f"{COMPUTE}/os-quota-sets": {"instances": 90}}
# What all projects have.
SHARED = ("external", "tiny", "together", "alike")
WISHES = [
    network("POST", "networks", "network", qos_policy_id="$policy"),
    network("PUT", "networks/$network", "network", qos_policy_id="$policy"),
    network("POST", "subnets", "subnet", network_id="$network", cidr="10.10.0.0/24", **V4),
    network("POST", "subnets", "subnet", network_id="$empty", subnetpool_id="$subnetpool", **V4),
    network("POST", "ports", "port", network_id="$network", qos_policy_id="$policy"),
    network("POST", "ports", "port", network_id="$network", security_groups=["$security_group"]),
    network("POST", "ports", "port", network_id="$network", fixed_ips=ON_IT),
    network("PUT", "ports/$port", "port", qos_policy_id="$policy", security_groups=["$security_group"]),
    network("PUT", "ports/$port", "port", fixed_ips=ON_IT),
    network("POST", "security-group-rules", "security_group_rule", remote_group_id="$security_group2", **RULE),
    network("POST", "security-group-rules", "security_group_rule", remote_address_group_id="$address_group", **RULE),
    *(
        network(
            "POST", "rbac-policies", "rbac_policy", object_type=type_, object_id=f"${kind}",
            action="access_as_shared", target_tenant="0" * 32,
        )
        for type_, kind in SHAREABLE.items()
    ),
    network("POST", "subnetpools", "subnetpool", name="y", **SCOPED),
    network("PUT", "subnetpools/$subnetpool", "subnetpool", address_scope_id="$address_scope"),
    network("PUT", "subnetpools/$subnetpool/onboard_network_subnets", network_id="$network"),
    network("POST", "trunks", "trunk", port_id="$spare", sub_ports=[{"port_id": "$spare2", **TAGGED}]),
    network("PUT", "trunks/$trunk/add_subports", sub_ports=[{"port_id": "$spare", **TAGGED}]),
    network("PUT", "trunks/$trunk/remove_subports", sub_ports=[{"port_id": "$carried"}]),
    network("POST", "routers", "router", granted=False, **gateway("$network")),
    network("POST", "routers", "router", granted=False, **gateway("$external", external_fixed_ips=ON_IT)),
    network("PUT", "routers/$router", "router", granted=False, **gateway("$network")),
    network("PUT", "routers/$router", "router", granted=False, **gateway("$external", external_fixed_ips=ON_IT)),
    network("PUT", "routers/$router/add_router_interface", subnet_id="$subnet"),
    network("PUT", "routers/$router/add_router_interface", port_id="$spare"),
    network("PUT", "routers/$gateway/remove_router_interface", granted=False, subnet_id="$within"),
    network("PUT", "routers/$gateway/remove_router_interface", granted=False, port_id="$leg"),
    network("POST", "floatingips", "floatingip", floating_network_id="$external", port_id="$routed"),
    network("POST", "floatingips", "floatingip", granted=False, floating_network_id="$external", subnet_id="$subnet"),
    network("PUT", "floatingips/$floatingip", "floatingip", port_id="$routed"),
    network("POST", "floatingips", "floatingip", floating_network_id="$external", qos_policy_id="$policy"),
    network("PUT", "floatingips/$floatingip", "floatingip", qos_policy_id="$policy"),
    network("POST", "routers", "router", granted=False, **gateway("$external", qos_policy_id="$policy")),
    network("PUT", "routers/$router", "router", granted=False, **gateway("$external", qos_policy_id="$policy")),
    *(
        network("PUT", f"routers/$router/{change}", "router", granted=False, external_gateways=[wanted])
        for change in ("add_external_gateways", "update_external_gateways", "remove_external_gateways")
        for wanted in (
            {"network_id": "$network"},
            {"network_id": "$external", "external_fixed_ips": ON_IT},
            {"network_id": "$external", "qos_policy_id": "$policy"},
        )
    ),
    network("POST", "subnets", "subnet", granted=False, network_id="$empty", segment_id="$segment", **APART),
    network("POST", "local_ips", "local_ip", network_id="$network"),
    network("POST", "local_ips", "local_ip", local_port_id="$spare"),
    network("POST", "local_ips/$local_ip/port_associations", "port_association", fixed_port_id="$port"),
    network("POST", "ndp_proxies", "ndp_proxy", granted=False, router_id="$gateway", port_id="$routed"),
    network("POST", "floatingips/$floatingip/port_forwardings", "port_forwarding", external_port=5, **LED),
    network("PUT", "floatingips/$floatingip2/port_forwardings/$forwarding", "port_forwarding", **LED),
    volume("POST", "volumes", "volume", size=1, snapshot_id="$snapshot"),
    volume("POST", "volumes", "volume", size=1, source_volid="$volume"),
    volume("POST", "volumes", "volume", size=1, imageRef="$image"),
    volume("POST", "volumes", "volume", size=1, image_id="$image"),
    volume("POST", "volumes", "volume", size=1, backup_id="$backup"),
    volume("POST", "volumes", "volume", size=1, group_id="$group", volume_type="$together"),
    volume("POST", "attachments", "attachment", volume_uuid="$volume"),
    volume("POST", "snapshots", "snapshot", volume_id="$volume"),
    volume("POST", "volumes/$volume/action", "revert", snapshot_id="$snapshot"),
    volume("POST", "volumes/$volume/action", "os-reimage", image_id="$image"),
    volume("POST", "volumes/$volume2/action", "os-detach", attachment_id="$attachment"),
    volume("POST", "backups", "backup", volume_id="$volume", snapshot_id="$snapshot"),
    volume("POST", "backups/$backup/restore", "restore", volume_id="$volume"),
    volume("POST", "groups/action", "create-from-src", name="y", source_group_id="$group"),
    volume("POST", "groups/action", "create-from-src", name="y", group_snapshot_id="$group_snapshot"),
    volume("PUT", "groups/$group2", "group", add_volumes="$typed"),
    volume("POST", "group_snapshots", "group_snapshot", group_id="$group"),
    volume("POST", "os-volume-transfer", "transfer", volume_id="$volume"),
    volume("POST", "volume-transfers", "transfer", volume_id="$volume"),
    *boots(imageRef="$image"),
    *boots(networks=[{"port": "$spare"}]),
    *boots(networks=[{"uuid": "$addressed"}], security_groups=[{"name": "$security_group"}]),
    *boots(imageRef="", block_device_mapping_v2=disk("bootable", "volume")),
    *boots(imageRef="", block_device_mapping_v2=disk("frozen", "snapshot")),
    *boots(imageRef="", block_device_mapping_v2=disk("image", "image")),
    *boots(imageRef="", block_device_mapping=[{"device_name": "vda", "volume_id": "$bootable"}]),
    *boots(imageRef="", block_device_mapping=[{"device_name": "vda", "snapshot_id": "$frozen", "volume_size": 2}]),
    *boots(hints={"group": "$server_group"}),
    compute("POST", "servers/$server/action", "rebuild", imageRef="$image"),
    compute("POST", "servers/$server/action", "rescue", rescue_image_ref="$image"),
    compute("POST", "servers/$server/action", "addFixedIp", old=True, networkId="$network"),
    compute("POST", "servers/$server/os-interface", "interfaceAttachment", net_id="$addressed"),
    compute("POST", "servers/$server/os-interface", "interfaceAttachment", port_id="$spare"),
    compute("POST", ATTACHED, "volumeAttachment", volumeId="$volume"),
    compute("PUT", f"{ATTACHED}/$volume2", "volumeAttachment", granted=False, volumeId="$volume"),
    compute(
        "POST", "os-security-group-rules", "security_group_rule", old=True, parent_group_id="$security_group",
        group_id="$security_group2", ip_protocol="tcp", from_port=1, to_port=2,
    ),
    compute("POST", "os-volumes", "volume", old=True, size=1, snapshot_id="$snapshot"),
    compute("POST", "os-snapshots", "snapshot", old=True, volume_id="$volume"),
]  # fmt: skip
# A server is named without proof, since it may be a machine elsewhere; one of another project is refused.
CLAIMS = [
    volume("POST", "attachments", "attachment", volume_uuid="$volume", instance_uuid="$server"),
    volume("POST", "volumes/$volume/action", "os-attach", instance_uuid="$server", mountpoint="/dev/vdz"),
]

# Fields whose names say that an id stands there, and which name nothing that a project has: an id of the caller's own
# choice, what only an administrator may say, what all share.
NOBODYS = {
    "id", "owner", "member", "project_id", "tenant_id", "user_id", "tenant", "project", "host", "key_name", "nexthop",
    "device_id", "binding:host_id", "segmentation_id", "provider:segmentation_id", "target_tenant", "flavorRef",
    "floating_network_id", "flavor_id", "service_type_id", "consistencygroup_id", "backend_id", "secondary_backend_id",
    "group_specs", "return_reservation_id", "glance_image_id", "serverId",
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def tenants(world: World) -> tuple[Tenant, Tenant]:
    """Two of them; each has one of each kind."""
    admin = world.admin
    shared = {"external": external_network(world), "tiny": world.ids["compute", "image_id"]}
    for kind, path, key in (("together", "types", "volume_type"), ("alike", "group_types", "group_type")):
        made = admin.post(f"{VOLUME}/{path}", {key: {"name": kind}})
        assert made.status < 300, made
        shared[kind] = made.json()[key]["id"]
    found = []
    for name in ("member", "other"):
        client = world.clients[name]
        told = client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": str(client.token)})
        tenant = Tenant(world, client, told.json()["token"]["project"]["id"], dict(shared))
        for path, quota in QUOTAS.items():
            assert admin.put(f"{path}/{tenant.project_id}", {"quota_set": quota}).status == 200
        tenant.id("grouped")  # a group is frozen with what is in it
        router = {"external_gateway_info": {"network_id": shared["external"]}}
        made = client.post(f"{NETWORKING}/routers", {"router": router}).json()["router"]["id"]
        leg = client.put(f"{NETWORKING}/routers/{made}/add_router_interface", {"subnet_id": tenant.id("within")})
        tenant.made |= {"gateway": made, "leg": leg.json()["port_id"]}
        segments = admin.get(f"{NETWORKING}/segments?network_id={tenant.id('empty')}").json()["segments"]
        tenant.made["segment"] = segments[0]["id"]
        wish = tenant.filled({"external_port": 7, **LED, "internal_port": 7})
        forwardings = f"{NETWORKING}/floatingips/{tenant.id('floatingip2')}/port_forwardings"
        led = client.post(forwardings, {"port_forwarding": wish})
        tenant.made["forwarding"] = led.json()["port_forwarding"]["id"]
        for wish in WISHES:
            for kind in (*_kinds(wish.body), *path_kinds(wish)):
                tenant.id(kind)
        put = client.put(
            f"/image/v2/images/{tenant.id('image')}/file",
            body=b"data",
            headers={"Content-Type": "application/octet-stream"},
        )
        assert put.status == 204
        found.append(tenant)
    world.cloud.settle()
    world.save()
    return found[0], found[1]


def external_network(world: World) -> str:
    return str(world.member.get(f"{NETWORKING}/networks?router:external=true").json()["networks"][0]["id"])


def path_kinds(wish: Wish) -> list[str]:
    return [part[1:] for part in wish.at.split("/") if part.startswith("$")]


def ask(tenant: Tenant, wish: Wish, **instead: str) -> Response:
    path = "/".join(tenant.id(part[1:]) if part.startswith("$") else part for part in wish.at.split("/"))
    headers = {"OpenStack-API-Version": "compute 2.1"} if wish.old else {}
    body = tenant.filled(wish.body, **instead)
    return tenant.client.request(wish.method, f"/{wish.api}{path}", body, headers=headers)


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: f"{wish.method} {wish.at} {' '.join(wish.kinds)}")
def test_another_projects_id_is_as_one_that_nobody_has(
    world: World, tenants: tuple[Tenant, Tenant], wish: Wish
) -> None:
    mine, theirs = tenants
    wrong: list[str] = []
    answer = ask(mine, wish)
    world.restore()
    assert answer.status < 300 or not wish.granted, answer
    for kind in wish.kinds:
        if kind in SHARED:
            continue
        foreign, unknown = theirs.id(kind), UNKNOWN
        one = ask(mine, wish, **{kind: foreign})
        world.restore()
        other = ask(mine, wish, **{kind: unknown})
        world.restore()
        same = one.body.replace(foreign.encode(), b"ID") == other.body.replace(unknown.encode(), b"ID")
        if one.status < 400 or one.status != other.status or not same:
            wrong.append(f"{kind}: {one.status} {one.body[:300]!r}; unknown: {other.status} {other.body[:300]!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("wish", CLAIMS, ids=lambda wish: wish.at)
def test_nothing_is_attached_to_another_projects_server(
    world: World, tenants: tuple[Tenant, Tenant], wish: Wish
) -> None:
    mine, theirs = tenants
    for server, status in ((mine.id("server"), 2), (theirs.id("server"), 4), (UNKNOWN, 2)):
        answer = ask(mine, wish, server=server)
        world.restore()
        assert answer.status // 100 == status, answer


# -- every Operation with an id in its body is above


LOOKS_LIKE = ("id", "ids", "uuid", "ref", "volid")


def named(type_: Any, seen: frozenset[Any] = frozenset()) -> Iterator[str]:
    """Names of fields, however deep, that say that an id stands there."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        arguments = arguments[:1]
    if arguments:
        for each in arguments:
            yield from named(each, seen)
    elif isinstance(type_, type) and attrs.has(type_) and type_ not in seen:
        for name, each in wire_names(type_).items():
            if name.lower().endswith(LOOKS_LIKE):
                yield name
            yield from named(each.type, seen | {type_})


def fields(value: Any) -> Iterator[str]:
    """Names under which a `$kind` stands."""
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str) and each.startswith("$"):
                yield name
            yield from fields(each)
    elif isinstance(value, list):
        for each in value:
            yield from fields(each)


def test_every_id_that_an_operation_takes_is_asked_for(world: World) -> None:
    member = world.identity("member")
    asked = {
        (wish.api, wish.method, re.sub(r"\$\w+", "$", wish.at), name)
        for wish in (*WISHES, *CLAIMS)
        for name in fields(wish.body)
    }
    missing = []
    for api, path, operation in world.operations():
        body = next(reversed([*(operation.body or {}).values()]), None)
        may = operation.policy is not None and world.cloud.cloud.policy.might(operation.policy, member, {})
        if api == "identity" or body is None or not may:
            continue
        for name in sorted(set(named(body.type)) - NOBODYS):
            if (api, operation.method, VARIABLE.sub("$", path), name) not in asked:
                missing.append(f"{api} {operation.key} {name}")
    assert not missing, "\n".join(missing)
