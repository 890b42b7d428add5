"""Turns the body of a create into the domain's request. Reference: compute.md, section 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloudctl.compute.api import gates
from cloudctl.compute.api.server_bodies import (
    BlockDevice,
    CreateRequest,
    CreateServer,
    InjectedFile,
    LegacyDevice,
    NetworkItem,
)
from cloudctl.compute.block_devices import BLANK, IMAGE, LOCAL, ROOT, SNAPSHOT, VOLUME, NewDevice
from cloudctl.compute.creation import NewServer
from cloudctl.compute.injected_files import NewFile
from cloudctl.compute.networking import Automatic, NewInterface
from cloudctl.compute.options import ComputeOptions
from cloudctl.errors import Invalid
from cloudctl.rest.body import MISSING, BodyError, Missing, Problem
from cloudctl.rest.body import uuid as canonical
from cloudctl.rest.versions import Version


def wanted(request: CreateRequest, version: Version, options: ComputeOptions) -> NewServer:
    """Raises BodyError, Invalid."""
    body = request.server
    image_id = body.imageRef or ""
    if body.block_device_mapping and body.block_device_mapping_v2:
        raise Invalid("Using different block_device_mapping syntaxes is not allowed in the same request.")
    devices = _legacy_devices(body.block_device_mapping or (), image_id) or _devices(body)
    if any(device.boot_index == 0 and device.is_volume for device in devices) and body.block_device_mapping:
        # In the old form the volume is the root disk, whatever image is named as well.
        image_id = ""
    if not image_id and not devices:
        raise Invalid("Missing imageRef attribute")
    least, most = _counts(body)
    return NewServer(
        name=body.name,
        flavor_id=body.flavorRef,
        image_id=image_id,
        networks=_networks(body.networks, version, options),
        devices=devices,
        knows_multiattach=version in gates.MULTIATTACH,
        description=_description(body, version),
        hostname=_hostname(body, version),
        dots_in_hostname=version in gates.FULL_HOSTNAME,
        key_name=body.key_name or None,
        security_groups=tuple(dict.fromkeys(group.name for group in body.security_groups or ())),
        user_data=body.user_data or None,
        zone=body.availability_zone or None,
        host=body.host or None,
        node=body.hypervisor_hostname or None,
        metadata=body.metadata or {},
        admin_password=body.adminPass or None,
        config_drive=bool(body.config_drive),
        personality=files(body.personality),
        least=least,
        most=most,
        disk_config=body.disk_config or "MANUAL",
        access_ip_v4=body.accessIPv4 or "",
        access_ip_v6=body.accessIPv6 or "",
        tags=tuple(body.tags or ()),
        trusted_certs=tuple(body.trusted_image_certificates or ()),
        hints=_hints(request),
    )


def files(given: Sequence[InjectedFile] | Missing) -> tuple[NewFile, ...]:
    return tuple(NewFile(each.path, "".join(each.contents.split())) for each in given or ())


def _counts(body: CreateServer) -> tuple[int, int]:
    least = body.min_count or 1
    return least, body.max_count or least


def _description(body: CreateServer, version: Version) -> str | None:
    if version not in gates.DESCRIPTION:
        return body.name
    return body.description or None


def _hostname(body: CreateServer, version: Version) -> str | None:
    if not body.hostname:
        return None
    return checked_hostname(body.hostname, version)


def checked_hostname(text: str, version: Version, key: str = "server") -> str:
    """A label of 2 to 63 characters; from 2.94 on a full domain name. `key`: of its body. Raises BodyError."""
    full = version in gates.FULL_HOSTNAME
    labels = text.split(".") if full else [text]
    for label in labels:
        too_short = len(label) < (1 if full else 2)
        strange = not label.replace("-", "").isalnum() and not full
        if too_short or len(label) > 63 or label.startswith("-") or label.endswith("-") or strange:
            raise BodyError([Problem(f"$.{key}.hostname", f"{text!r} is not a 'hostname'")])
    return text


def _hints(request: CreateRequest) -> Mapping[str, Any]:
    return {**(request.sdk_hints or {}), **(request.hints or {})}


# -- networks


def _networks(
    given: str | Sequence[NetworkItem] | Missing, version: Version, options: ComputeOptions
) -> Sequence[NewInterface] | Automatic:
    if given is MISSING or isinstance(given, Missing):
        if options.require_networks or version in gates.NETWORKS:
            raise BodyError([Problem("$.server", "'networks' is a required property", "required")])
        return "any"
    if isinstance(given, str):
        if version not in gates.NETWORKS:
            raise BodyError([Problem("$.server.networks", f"{given!r} is not of type 'array'", "type")])
        return "none" if given == "none" else "auto"
    if not given:
        return "auto" if version in gates.NETWORKS else "any"
    return [_network(item) for item in given]


def _network(item: NetworkItem) -> NewInterface:
    if not item.port and not item.uuid:
        raise Invalid("Bad networks format: each network has a uuid or a port.")
    return NewInterface(
        network_id=None if item.port else item.uuid or None,
        port_id=item.port or None,
        fixed_ip=item.fixed_ip or None,
        tag=item.tag or None,
    )


# -- block devices


def _devices(body: CreateServer) -> tuple[NewDevice, ...]:
    return tuple(_device(item) for item in body.block_device_mapping_v2 or () if not item.no_device)


def _legacy_devices(items: Sequence[LegacyDevice], image_id: str) -> tuple[NewDevice, ...]:
    """The root disk is identified by its name; without an image it is the first, if none has that name."""
    wanted = [item for item in items if not item.no_device]
    names = [device_name(item.device_name) for item in wanted]
    root = names.index(ROOT) if ROOT in names else 0 if not image_id else None
    return tuple(_legacy_device(item, names[at], at == root) for at, item in enumerate(wanted))


def _legacy_device(item: LegacyDevice, name: str | None, is_root: bool) -> NewDevice:
    source_id = item.snapshot_id or item.volume_id
    if not source_id:
        raise Invalid("Block Device Mapping is Invalid: a volume or a snapshot must be named.")
    return NewDevice(
        source_type=SNAPSHOT if item.snapshot_id else VOLUME,
        destination_type=VOLUME,
        source_id=_id(source_id),
        boot_index=0 if is_root else None,
        volume_size=item.volume_size or None,
        delete_on_termination=item.delete_on_termination,
        device_name=name,
    )


def _device(item: BlockDevice) -> NewDevice:
    source_id = None
    if item.uuid and item.source_type != BLANK:
        source_id = _id(item.uuid)
    elif item.uuid:
        source_id = item.uuid
    return NewDevice(
        source_type=item.source_type,
        destination_type=item.destination_type or (LOCAL if item.source_type in (IMAGE, BLANK) else VOLUME),
        source_id=source_id,
        boot_index=None if item.boot_index is MISSING else item.boot_index,
        volume_size=item.volume_size or None,
        volume_type=item.volume_type or None,
        delete_on_termination=item.delete_on_termination,
        device_name=device_name(item.device_name),
        disk_bus=item.disk_bus or None,
        device_type=item.device_type or None,
        guest_format=item.guest_format or None,
        tag=item.tag or None,
    )


def _id(text: str) -> str:
    try:
        return canonical(text)
    except ValueError:
        raise Invalid(f"Block Device Mapping is Invalid: {text[:64]!r} is not a uuid.") from None


def device_name(given: str | Missing | None) -> str | None:
    """`vdb` and `/dev/vdb` are the same; nothing given is None."""
    if not given:
        return None
    return given if given.startswith("/dev/") else f"/dev/{given}"
