"""What tenants may ask for: each wish is granted with the caller's own resources, which it names as `$kind`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

NETWORKING, VOLUME, COMPUTE = "/networking/v2.0", "/volume/v3", "/compute/v2.1"


@frozen
class Wish:
    """`at`: the Operation's path below its API; a `$kind` in it is always the caller's own."""

    api: str
    method: str
    at: str
    body: Any
    granted: bool = True  # with the caller's own
    version: str = ""  # the microversion of compute, if not the newest

    @property
    def kinds(self) -> list[str]:
        return sorted(set(kinds_in(self.body)))


def kinds_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from kinds_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from kinds_in(each)
    elif isinstance(value, str) and value.startswith("$"):
        yield value[1:]


CARRIED = [{"port_id": "$carried", "segmentation_type": "vlan", "segmentation_id": 9}]
POOL = {"name": "x", "prefixes": ["10.128.0.0/16"], "default_prefixlen": 24}
WITHIN = {"network_id": "$addressed", "ip_version": 4, "cidr": "10.11.0.0/24"}
ROUTED = {"network_id": "$addressed", "fixed_ips": [{"subnet_id": "$within", "ip_address": "10.11.0.77"}]}
NIC = [{"port": "$port"}]
# Kind → path, key of the body, body; with a fourth item: created by an administrator, for the project.
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
    "cg": (f"{VOLUME}/consistencygroups", "consistencygroup", {"volume_types": "$together"}),
    "in_cg": (f"{VOLUME}/volumes", "volume", {"size": 1, "volume_type": "$together", "consistencygroup_id": "$cg"}),
    "cgsnapshot": (f"{VOLUME}/cgsnapshots", "cgsnapshot", {"consistencygroup_id": "$cg"}),
    "local_ip": (f"{NETWORKING}/local_ips", "local_ip", {"network_id": "$network"}),
    "server_group": (f"{COMPUTE}/os-server-groups", "server_group", {"name": "x", "policy": "affinity"}),
}  # fmt: skip


def network(method: str, at: str, key: str = "", *, granted: bool = True, **fields: Any) -> Wish:
    return Wish("networking", method, f"/v2.0/{at}", {key: fields} if key else fields, granted)


def volume(method: str, at: str, key: str, **fields: Any) -> Wish:
    return Wish("volume", method, f"/v3/{at}", {key: fields})


def compute(method: str, at: str, key: str, *, granted: bool = True, version: str = "", **fields: Any) -> Wish:
    return Wish("compute", method, f"/v2.1/{at}", {key: fields}, granted, version)


def boots(hints: dict[str, str] | None = None, **more: Any) -> list[Wish]:
    body: dict[str, Any] = {"server": {"name": "y", "imageRef": "$tiny", "flavorRef": "1", "networks": "none", **more}}
    if hints is not None:
        body["os:scheduler_hints"] = hints
    paths = {"servers": "", "os-volumes_boot": "2.102"}
    return [Wish("compute", "POST", f"/v2.1/{at}", body, version=version) for at, version in paths.items()]


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
THROUGH: dict[str, Any] = {"port_id": "$routed", "router_id": "$gateway"}
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
    network("POST", "floatingips", "floatingip", floating_network_id="$external", **THROUGH),
    network("POST", "floatingips", "floatingip", granted=False, floating_network_id="$external", subnet_id="$subnet"),
    network("PUT", "floatingips/$floatingip", "floatingip", port_id="$routed"),
    network("PUT", "floatingips/$floatingip", "floatingip", **THROUGH),
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
    network("PUT", "subnets/$subnet", "subnet", granted=False, segment_id="$segment"),
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
    volume("POST", "volumes", "volume", size=1, consistencygroup_id="$cg", volume_type="$together"),
    volume("POST", "consistencygroups/create_from_src", "consistencygroup-from-src", source_cgid="$cg"),
    volume("POST", "consistencygroups/create_from_src", "consistencygroup-from-src", cgsnapshot_id="$cgsnapshot"),
    volume("PUT", "consistencygroups/$cg2/update", "consistencygroup", add_volumes="$typed"),
    volume("PUT", "consistencygroups/$cg2", "consistencygroup", add_volumes="$typed"),
    volume("POST", "cgsnapshots", "cgsnapshot", consistencygroup_id="$cg"),
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
    compute("POST", "servers/$server/action", "addFixedIp", version="2.1", networkId="$network"),
    compute("POST", "servers/$server/os-interface", "interfaceAttachment", net_id="$addressed"),
    compute("POST", "servers/$server/os-interface", "interfaceAttachment", port_id="$spare"),
    compute("POST", ATTACHED, "volumeAttachment", volumeId="$volume"),
    compute("PUT", f"{ATTACHED}/$volume2", "volumeAttachment", granted=False, volumeId="$volume"),
    compute(
        "POST", "os-security-group-rules", "security_group_rule", version="2.1", parent_group_id="$security_group",
        group_id="$security_group2", ip_protocol="tcp", from_port=1, to_port=2,
    ),
    compute("POST", "os-volumes", "volume", version="2.1", size=1, snapshot_id="$snapshot"),
    compute("POST", "os-snapshots", "snapshot", version="2.1", volume_id="$volume"),
]  # fmt: skip
# A server is named without proof, since it may be a machine elsewhere; another project's server is refused.
CLAIMS = [
    volume("POST", "attachments", "attachment", volume_uuid="$volume", instance_uuid="$server"),
    volume("POST", "volumes/$volume/action", "os-attach", instance_uuid="$server", mountpoint="/dev/vdz"),
]


def path_kinds(wish: Wish) -> list[str]:
    return [part[1:] for part in wish.at.split("/") if part.startswith("$")]
