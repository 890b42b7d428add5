"""The bodies of creating and updating servers, in every microversion. Reference: compute.md, sections 5 and 6.2."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.rest.body import (
    MISSING,
    Body,
    Check,
    Items,
    Length,
    LooseBool,
    LooseInt,
    Missing,
    Pattern,
    Range,
    Uuid,
    ValueProblem,
    gated,
    wire,
)
from cloudctl.rest.body import uuid as canonical
from cloudctl.rest.standing import shown
from cloudctl.rest.versions import Span, since, until

USER_DATA_LENGTH = 65535
# Of a file injected into a guest: more than any quota allows, and less than a request may hold.
CONTENTS_LENGTH = 1 << 20
# Hints that name other servers.
OTHERS = ("same_host", "different_host")
METADATA_KEY = re.compile(r"[A-Za-z0-9\-_:. ]{1,255}")


def printable(value: str) -> str:
    """No control characters, and no white space around it."""
    if value != value.strip():
        raise ValueProblem(f"{shown(value)} has leading or trailing whitespace")
    # Of all spaces, Python takes only ASCII's as printable; East Asian names are written with another one.
    if not all(char.isprintable() or unicodedata.category(char) == "Zs" for char in value):
        raise ValueProblem(f"{shown(value)} contains non-printable characters")
    return value


def last_segment(value: str) -> str:
    """An id, or the last part of a URL that ends in one."""
    return value.rstrip("/").rpartition("/")[2] if "://" in value else value


def _flavor_ref(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueProblem(f"{shown(value)} is not of type 'string', 'integer'", "type")
    text = last_segment(str(value)) if isinstance(value, str) else str(value)
    if not 1 <= len(text) <= 255:
        raise ValueProblem(f"{shown(value)} is not a flavor reference")
    return text


def _image_ref(value: str) -> str:
    return canonical(last_segment(value)) if value else ""


def _base64(value: str) -> str:
    """The value as it came; encoders like to break it into lines."""
    try:
        base64.b64decode("".join(value.split()).encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise ValueProblem("it is not base64") from None
    return value


def _metadata(value: Mapping[str, str]) -> Mapping[str, str]:
    for key, item in value.items():
        if METADATA_KEY.fullmatch(key) is None:
            raise ValueProblem(f"the key {shown(key)} is not 1 to 255 letters, digits, spaces and -_:.")
        if len(item) > 255:
            raise ValueProblem(f"the value of {shown(key)} is too long (at most 255 characters)")
    return value


def _address(version: int) -> Check:
    def test(value: str) -> str:
        try:
            found = ipaddress.ip_address(value)
        except ValueError:
            raise ValueProblem(f"{shown(value)} is not a 'ipv{version}'") from None
        if found.version != version or "%" in value:
            raise ValueProblem(f"{shown(value)} is not a 'ipv{version}'")
        # As it is shown: in its one shortest form.
        return str(found)

    return Check(test)


def _any_address(value: str) -> str:
    try:
        found = ipaddress.ip_address(value)
    except ValueError:
        raise ValueProblem(f"{shown(value)} is not a 'ip_address'") from None
    if "%" in value:
        raise ValueProblem(f"{shown(value)} has a zone index, which is not allowed here")
    return str(found)


def tag(value: str) -> str:
    if "," in value or "/" in value:
        raise ValueProblem(f"{shown(value)} contains ',' or '/'")
    return value


def _tags(value: list[str]) -> list[str]:
    return sorted(set(value))


def _boot_index(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**31 - 1:
        raise ValueProblem(f"{shown(value)} is not of type 'integer', 'string', 'null'", "type")
    return None if value < 0 else int(value)


def _hint(value: Any) -> Any:
    """Free-form, but within bounds: it is stored with the server."""
    if isinstance(value, str | int | bool | float) or value is None:
        if isinstance(value, str) and len(value) > 1024:
            raise ValueProblem("it is longer than 1024 characters")
        return value
    if isinstance(value, list) and len(value) <= 100:
        return [_hint(item) for item in value if not isinstance(item, list | dict)]
    raise ValueProblem("it is not a string, a number or a list of these")


def _others(value: Any) -> Any:
    """The id of a server, or a list of them: a server that was named in another way would be avoided in vain."""
    if isinstance(value, str):
        return canonical(value)
    if isinstance(value, list) and len(value) <= 100 and all(isinstance(each, str) for each in value):
        return [canonical(each) for each in value]
    raise ValueProblem(f"{shown(value)} is not the id of a server or a list of ids")


def _hints(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueProblem(f"{shown(value)} is not of type 'object'", "type")
    if len(value) > 50 or any(len(key) > 255 for key in value):
        raise ValueProblem("it has too many or too long names")
    group = value.get("group", "")
    if group != "" and not isinstance(group, str):
        raise ValueProblem(f"group: {shown(group)} is not of type 'string'")
    made = {key: (_others if key in OTHERS else _hint)(item) for key, item in value.items()}
    if group:
        made["group"] = canonical(group)
    return made


ServerName = Annotated[str, Length(1, 255, blank=False), Check(printable)]
FlavorRef = Annotated[Any, Check(_flavor_ref)]
ImageRef = Annotated[str, Length(0, 2048), Check(_image_ref)]
Metadata = Annotated[dict[str, str], Items(0, 1000), Check(_metadata)]
Contents = Annotated[str, Length(0, CONTENTS_LENGTH), Check(_base64)]
UserData = Annotated[str, Length(0, USER_DATA_LENGTH), Check(_base64)]
Tag = Annotated[str, Length(1, 60), Check(tag)]
Tags = Annotated[list[Tag], Items(0, 50), Check(_tags)]
DeviceTag = Annotated[str, Length(1, 60), Pattern(r"[^,/]*", "a tag without ',' or '/'")]
Address = Annotated[str, Length(1, 64), Check(_any_address)]
Address4 = Annotated[str, _address(4)]
Address6 = Annotated[str, _address(6)]
DiskConfig = Literal["AUTO", "MANUAL"]
# A label up to 2.93, a full domain name after.
Hostname = Annotated[str, Length(1, 255), Pattern(r"[A-Za-z0-9\-._]+", "a host name")]
DeviceName = Annotated[str, Length(0, 255), Pattern(r"(?:/dev/)?[A-Za-z0-9]{1,32}", "a device such as /dev/vdb")]
Count = Annotated[LooseInt, Range(1, 2**31 - 1)]
Hints = Annotated[Any, Check(_hints)]
BootIndex = Annotated[Any, Check(_boot_index)]
TrustedCerts = Annotated[list[Annotated[str, Length(1, 255)]], Items(1, 50)]

TAGGED = (Span((2, 32), (2, 36)), since(2, 42))
DEVICE_TAGGED = (Span((2, 32), (2, 32)), since(2, 42))


@frozen
class NetworkItem:
    uuid: Uuid | Missing = MISSING
    port: Uuid | Missing | None = MISSING
    fixed_ip: Address | Missing = MISSING
    tag: DeviceTag | Missing = gated(*TAGGED)


@frozen
class GroupName:
    name: Annotated[str, Length(1, 255)]


@frozen
class BlockDevice:
    """An item of block_device_mapping_v2."""

    source_type: Literal["image", "volume", "snapshot", "blank"]
    uuid: Annotated[str, Length(0, 64)] | Missing = MISSING
    destination_type: Literal["local", "volume"] | Missing = MISSING
    boot_index: BootIndex | Missing = MISSING
    volume_size: Annotated[LooseInt, Range(0)] | Missing = MISSING
    delete_on_termination: LooseBool = False
    device_name: DeviceName | Missing | None = MISSING
    disk_bus: Literal["fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml"] | Missing | None = MISSING
    device_type: Annotated[str, Length(0, 16)] | Missing | None = MISSING
    guest_format: Annotated[str, Length(0, 64)] | Missing | None = MISSING
    no_device: LooseBool | Missing | None = MISSING
    tag: DeviceTag | Missing = gated(*DEVICE_TAGGED)
    volume_type: Annotated[str, Length(0, 255)] | Missing | None = gated(since(2, 67))


@frozen
class LegacyDevice:
    """An item of block_device_mapping: an existing volume, or one to be created from a snapshot."""

    device_name: DeviceName | Missing = MISSING
    volume_id: Annotated[str, Length(0, 64)] | Missing | None = MISSING
    snapshot_id: Annotated[str, Length(0, 64)] | Missing | None = MISSING
    volume_size: Annotated[LooseInt, Range(0)] | Missing | Literal[""] | None = MISSING
    delete_on_termination: LooseBool = False
    no_device: Any = MISSING
    virtual_name: Annotated[str, Length(0, 255)] | Missing = MISSING
    connection_info: Annotated[str, Length(0, 65535)] | Missing = MISSING


@frozen
class InjectedFile:
    path: Annotated[str, Length(1, 4096)]
    contents: Contents


Personality = Annotated[list[InjectedFile], Items(0, 1000)]


@frozen
class CreateServer:
    name: ServerName
    flavorRef: FlavorRef
    imageRef: ImageRef | Missing = MISSING
    networks: Literal["auto", "none"] | Annotated[list[NetworkItem], Items(0, 100)] | Missing = MISSING
    key_name: Annotated[str, Length(1, 255)] | Missing | None = MISSING
    security_groups: Annotated[list[GroupName], Items(0, 100)] | Missing = MISSING
    user_data: UserData | Missing | None = MISSING
    availability_zone: Annotated[str, Length(1, 255)] | Missing | None = MISSING
    metadata: Metadata | Missing = MISSING
    adminPass: Annotated[str, Length(0, 255)] | Missing = MISSING
    config_drive: LooseBool | Missing | None = MISSING
    min_count: Count | Missing = MISSING
    max_count: Count | Missing = MISSING
    return_reservation_id: LooseBool | Missing = MISSING
    block_device_mapping: Annotated[list[LegacyDevice], Items(0, 100)] | Missing = MISSING
    block_device_mapping_v2: Annotated[list[BlockDevice], Items(0, 100)] | Missing = MISSING
    disk_config: DiskConfig | Missing = wire("OS-DCF:diskConfig", default=MISSING)
    accessIPv4: Address4 | Missing = MISSING
    accessIPv6: Address6 | Missing = MISSING
    personality: Personality | Missing = gated(until(2, 56))
    description: Annotated[str, Length(0, 255)] | Missing | None = gated(since(2, 19))
    tags: Tags | Missing = gated(since(2, 52))
    trusted_image_certificates: TrustedCerts | Missing | None = gated(since(2, 63))
    host: Annotated[str, Length(1, 255)] | Missing = gated(since(2, 74))
    hypervisor_hostname: Annotated[str, Length(1, 255)] | Missing = gated(since(2, 74))
    hostname: Hostname | Missing = gated(since(2, 90))


@frozen
class CreateRequest:
    """The whole body: scheduler hints are beside the server."""

    server: CreateServer
    hints: Hints | Missing = wire("os:scheduler_hints", default=MISSING)
    # As openstacksdk sends them.
    sdk_hints: Hints | Missing = wire("OS-SCH-HNT:scheduler_hints", default=MISSING)


@frozen
class UpdateServer:
    name: ServerName | Missing = MISSING
    accessIPv4: Address4 | Missing = MISSING
    accessIPv6: Address6 | Missing = MISSING
    disk_config: DiskConfig | Missing = wire("OS-DCF:diskConfig", default=MISSING)
    description: Annotated[str, Length(0, 255)] | Missing | None = gated(since(2, 19))
    hostname: Hostname | Missing = gated(since(2, 90))
    pinned_availability_zone: Annotated[str, Length(1, 255)] | Missing | None = gated(since(2, 104))


CREATE = Body(CreateRequest)
UPDATE = Body(UpdateServer, key="server")
