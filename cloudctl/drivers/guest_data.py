"""What a guest may know about itself: the EC2 and OpenStack trees of the config drive and of the metadata service.

Reference: compute.md, section 18. Pure: a GuestSpec in, files out.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from cloudctl.drivers.specs import FixedIp, GuestSpec, PortSpec, SubnetSpec

EC2_VERSIONS = (
    "1.0",
    "2007-01-19",
    "2007-03-01",
    "2007-08-29",
    "2007-10-10",
    "2007-12-15",
    "2008-02-01",
    "2008-09-01",
    "2009-04-04",
)
OPENSTACK_VERSIONS = (
    "2012-08-10",
    "2013-04-04",
    "2013-10-17",
    "2015-10-15",
    "2016-06-30",
    "2016-10-06",
    "2017-02-22",
    "2018-08-27",
    "2020-10-14",
)
LATEST = "latest"
SEED_BYTES = 512

# The version that introduced a key of meta_data.json, or a file beside it.
KEY_SINCE = {
    "random_seed": "2013-04-04",
    "project_id": "2015-10-15",
    "devices": "2016-06-30",
    "dedicated_cpus": "2020-10-14",
}
VENDOR_SINCE, NETWORK_SINCE, VENDOR_2_SINCE = "2013-10-17", "2015-10-15", "2016-10-06"

# How a hypervisor plugs a port → its name in network_data.json. Anything else is a physical device to the guest.
LINK_TYPES = {"bridge": "bridge", "ovs": "ovs", "tap": "tap", "vhostuser": "vhostuser"}
DHCP_TYPES_V6 = {"slaac": "ipv6_slaac", "dhcpv6-stateless": "ipv6_dhcpv6-stateless"}


def files(spec: GuestSpec) -> Mapping[str, bytes]:
    """Path → content, of both trees in all their versions: what a config drive holds.

    The admin password is included if the spec has one: the metadata service takes it out of the spec first. Vendor data
    is always empty. Each call has a new `random_seed`.
    """
    seed = base64.b64encode(secrets.token_bytes(SEED_BYTES)).decode()
    found: dict[str, bytes] = {}
    for version in (*OPENSTACK_VERSIONS, LATEST):
        for name, content in openstack_files(spec, version, seed).items():
            found[f"openstack/{version}/{name}"] = content
    for number, file in enumerate(spec.files):
        found[f"openstack/{content_path(number)}"] = base64.b64decode(file.contents)
    for version in (EC2_VERSIONS[-1], LATEST):
        found[f"ec2/{version}/meta-data.json"] = _json(ec2_metadata(spec))
        if spec.user_data is not None:
            found[f"ec2/{version}/user-data"] = user_data(spec)
    return found


def openstack_files(spec: GuestSpec, version: str, seed: str) -> dict[str, bytes]:
    """File name → content, for this version of the OpenStack tree."""
    found = {"meta_data.json": _json(metadata(spec, version, seed))}
    if spec.user_data is not None:
        found["user_data"] = user_data(spec)
    if version >= VENDOR_SINCE:
        found["vendor_data.json"] = b"{}"
    if version >= VENDOR_2_SINCE:
        found["vendor_data2.json"] = b"{}"
    if version >= NETWORK_SINCE:
        found["network_data.json"] = _json(network_data(spec))
    return found


def user_data(spec: GuestSpec) -> bytes:
    """The bytes that the user gave; empty if there are none."""
    return base64.b64decode(spec.user_data or "")


# -- OpenStack


def metadata(spec: GuestSpec, version: str, seed: str) -> dict[str, Any]:
    """meta_data.json."""
    shown: dict[str, Any] = {
        "uuid": spec.id,
        "name": spec.name,
        "hostname": hostname(spec),
        "launch_index": spec.launch_index,
        "availability_zone": spec.availability_zone,
        "random_seed": seed,
        "project_id": spec.project_id,
        "devices": devices(spec),
        "dedicated_cpus": [],
    }
    if spec.metadata:
        shown["meta"] = dict(spec.metadata)
    if spec.files:
        paths = ((file.path, f"/{content_path(number)}") for number, file in enumerate(spec.files))
        shown["files"] = [{"path": path, "content_path": content} for path, content in paths]
    if spec.public_key is not None:
        name = spec.keypair_name or "default"
        shown["public_keys"] = {name: spec.public_key}
        shown["keys"] = [{"name": name, "type": "ssh", "data": spec.public_key}]
    if spec.admin_password:
        shown["admin_pass"] = spec.admin_password
    return {key: value for key, value in shown.items() if version >= KEY_SINCE.get(key, "")}


def content_path(number: int) -> str:
    """The path of the file with this number, below `openstack`."""
    return f"content/{number:04d}"


def hostname(spec: GuestSpec) -> str:
    return spec.hostname or spec.name


def devices(spec: GuestSpec) -> list[dict[str, Any]]:
    """The interfaces and volumes that have a tag, by which the guest tells them from the others."""
    nics = [{"type": "nic", "mac": port.mac, "tags": [port.tag]} for port in spec.ports if port.tag]
    disks = [
        {"type": "disk", "serial": volume.volume_id, "path": volume.device or "", "tags": [volume.tag]}
        for volume in spec.volumes
        if volume.tag
    ]
    return nics + disks


def network_data(spec: GuestSpec) -> dict[str, Any]:
    """network_data.json: links are interfaces, networks are their addresses, services are name servers."""
    subnets = {subnet.id: subnet for network in spec.networks for subnet in network.subnets}
    networks: list[dict[str, Any]] = []
    for port in spec.ports:
        for address in port.fixed_ips:
            if (subnet := subnets.get(address.subnet_id)) is not None:
                networks.append(_network(len(networks), port, address, subnet))
    services = [service for network in networks for service in network.get("services", ())]
    return {
        "links": [_link(port, subnets) for port in spec.ports],
        "networks": networks,
        "services": _each_once(services),
    }


def _link(port: PortSpec, subnets: Mapping[str, SubnetSpec]) -> dict[str, Any]:
    own = (subnets.get(address.subnet_id) for address in port.fixed_ips)
    by_dhcp = any(subnet is not None and subnet.enable_dhcp for subnet in own)
    return {
        "id": link_id(port),
        "vif_id": port.id,
        "type": LINK_TYPES.get(str((port.binding or {}).get("vif_type")), "phy"),
        "mtu": None if by_dhcp else port.mtu,
        "ethernet_mac_address": port.mac,
    }


def link_id(port: PortSpec) -> str:
    return f"tap{port.id[:11]}"


def _network(index: int, port: PortSpec, address: FixedIp, subnet: SubnetSpec) -> dict[str, Any]:
    cidr = ip_network(subnet.cidr)
    shown = {"id": f"network{index}", "link": link_id(port), "network_id": port.network_id}
    if cidr.version == 6 and (subnet.enable_dhcp or subnet.ipv6_address_mode):
        return {**shown, "type": DHCP_TYPES_V6.get(subnet.ipv6_address_mode or "", "ipv6_dhcpv6-stateful")}
    if subnet.enable_dhcp:
        return {**shown, "type": "ipv4_dhcp"}
    return {
        **shown,
        "type": f"ipv{cidr.version}",
        "ip_address": address.ip_address,
        "netmask": str(cidr.netmask),
        "routes": list(_routes(subnet, cidr.version)),
        "services": [{"type": "dns", "address": server} for server in subnet.dns_nameservers],
    }


def _routes(subnet: SubnetSpec, version: int) -> Iterator[dict[str, str]]:
    if subnet.gateway_ip:
        everything = "0.0.0.0" if version == 4 else "::"
        yield {"network": everything, "netmask": everything, "gateway": subnet.gateway_ip}
    for route in subnet.host_routes:
        to = ip_network(route.destination)
        yield {"network": str(to.network_address), "netmask": str(to.netmask), "gateway": route.nexthop}


def _each_once(services: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({service["address"]: service for service in services}.values())


# -- EC2


def ec2_metadata(spec: GuestSpec) -> dict[str, Any]:
    """The EC2 tree below `meta-data`: a dict is a directory, a list is lines, all else is text."""
    address = local_ipv4(spec)
    shown: dict[str, Any] = {
        "ami-id": ec2_image_id(spec.image.id) if spec.image is not None else "",
        "ami-launch-index": str(spec.launch_index),
        # EC2 itself answers this for machines without a manifest.
        "ami-manifest-path": "(unknown)",
        "block-device-mapping": _block_devices(spec),
        "hostname": hostname(spec),
        "instance-action": "none",
        "instance-id": f"i-{spec.number:08x}",
        "instance-type": spec.flavor_name,
        "local-hostname": hostname(spec),
        "local-ipv4": address,
        "placement": {"availability-zone": spec.availability_zone},
        "public-hostname": hostname(spec),
        "public-ipv4": spec.public_ipv4,
        "reservation-id": spec.reservation_id,
        "security-groups": list(spec.security_groups),
    }
    if spec.public_key is not None:
        shown["public-keys"] = {"0": {"_name": f"0={spec.keypair_name or 'default'}", "openssh-key": spec.public_key}}
    if spec.image is not None:
        for key in ("kernel", "ramdisk"):
            if image_id := spec.image.properties.get(f"{key}_id"):
                shown[f"{key}-id"] = ec2_image_id(image_id, {"kernel": "aki", "ramdisk": "ari"}[key])
    return shown


def ec2_image_id(image_id: str, kind: str = "ami") -> str:
    """EC2's ids have eight hexadecimal digits: the first ones of ours."""
    return f"{kind}-{image_id.replace('-', '')[:8]}"


def local_ipv4(spec: GuestSpec) -> str:
    """The first IPv4 address, in the order of the interfaces; "" if there is none."""
    addresses = (each.ip_address for port in spec.ports for each in port.fixed_ips)
    return next((address for address in addresses if ip_address(address).version == 4), "")


def _block_devices(spec: GuestSpec) -> dict[str, str]:
    root = next((volume.device for volume in spec.volumes if volume.boot_index == 0), None) or "/dev/vda"
    shown = {"ami": root.rpartition("/")[2], "root": root}
    others = [volume for volume in spec.volumes if volume.boot_index != 0 and volume.device]
    return shown | {f"ebs{index}": str(volume.device) for index, volume in enumerate(others)}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
