"""JSON patches of an image: operations → the fields and properties that they ask for. Reference: image.md, section 6.

Pure: `apply` turns what the image is now into what it is to be; all operations take effect or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from attrs import define, field, fields, frozen, resolve_types

from cloudctl.errors import Conflict, Forbidden, Invalid
from cloudctl.rest.body import BodyError, Items, Length, Problem, Range, structure

V21 = "application/openstack-images-v2.1-json-patch"
V20 = "application/openstack-images-v2.0-json-patch"
MEDIA_TYPES = (V21, V20)
MOST_OPERATIONS = 1000

Tag = Annotated[str, Length(1, 255)]
Tags = Annotated[list[Tag], Items(0, 1000)]
Visibility = Literal["public", "private", "shared", "community"]
ContainerFormat = Literal["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"]
DiskFormat = Literal["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"]


@frozen
class Fields:
    """The fields that a client may set, with what they take."""

    name: Annotated[str, Length(0, 255)] | None
    owner: Annotated[str, Length(1, 255)] | None
    visibility: Visibility
    protected: bool
    os_hidden: bool
    container_format: ContainerFormat | None
    disk_format: DiskFormat | None
    min_disk: Annotated[int, Range(0)]
    min_ram: Annotated[int, Range(0)]
    tags: Tags


resolve_types(Fields)
WRITABLE: Mapping[str, Any] = {attribute.name: attribute.type for attribute in fields(Fields)}

READ_ONLY = frozenset({
    "created_at", "updated_at", "status", "checksum", "size", "virtual_size", "direct_url", "self", "file", "schema",
    "id", "os_hash_algo", "os_hash_value", "stores",
})  # fmt: skip
LOCATIONS = "locations"
RESERVED = frozenset({"location", LOCATIONS, "deleted", "deleted_at"})
RESERVED_PREFIX = "os_glance_"


def check_name(name: str) -> None:
    """Raises Forbidden unless a client may write this key."""
    if name in READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if is_reserved(name):
        raise Forbidden(f"Attribute '{name[:64]}' is reserved.")


def is_reserved(name: str) -> bool:
    return name in RESERVED or name.startswith(RESERVED_PREFIX)


@frozen
class Operation:
    op: str  # "add", "replace" or "remove"
    name: str
    value: Any = None
    member: str | None = None  # of LOCATIONS: which of them


@define
class Draft:
    """What an image is to be: the writable fields (including tags) and the custom properties."""

    fields: dict[str, Any]
    properties: dict[str, str] = field(factory=dict)
    touched: set[str] = field(factory=set)  # fields that an operation named


def operations(media: str, body: Any) -> list[Operation]:
    """A parsed body of one of MEDIA_TYPES. Raises Invalid."""
    if not isinstance(body, list):
        raise Invalid("The body of a JSON patch is an array of operations.")
    if len(body) > MOST_OPERATIONS:
        raise Invalid(f"The patch has {len(body)} operations; at most {MOST_OPERATIONS} are taken.")
    parse = _operation_21 if media == V21 else _operation_20
    return [parse(entry) for entry in body]


def _operation_21(entry: Any) -> Operation:
    if not isinstance(entry, dict) or not isinstance(entry.get("op"), str):
        raise Invalid("Every operation is an object with the key 'op'.")
    return _operation(entry["op"], entry.get("path"), entry)


def _operation_20(entry: Any) -> Operation:
    named = [op for op in ("add", "replace", "remove") if isinstance(entry, dict) and op in entry]
    if len(named) != 1:
        raise Invalid("Every operation is an object with one of the keys 'add', 'replace' and 'remove'.")
    return _operation(named[0], entry[named[0]], entry)


def _operation(op: str, path: Any, entry: Mapping[str, Any]) -> Operation:
    if op not in ("add", "replace", "remove"):
        raise Invalid(f"The operation {op[:64]!r} is not one of 'add', 'replace' and 'remove'.")
    if op != "remove" and "value" not in entry:
        raise Invalid(f"The operation {op!r} needs a 'value'.")
    name, member = pointed(path)
    return Operation(op, name, entry.get("value"), member)


def pointed(path: Any) -> tuple[str, str | None]:
    """The key that a JSON pointer names, and the member of LOCATIONS. Raises Invalid."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise Invalid("The path of an operation begins with '/'.")
    parts = path[1:].split("/")
    if "" in parts or any(re.search(r"~(?![01])", part) for part in parts):
        raise Invalid(f"Malformed path {path[:64]!r}.")
    name, *inner = (part.replace("~1", "/").replace("~0", "~") for part in parts)
    if len(inner) > (1 if name == LOCATIONS else 0):
        raise Invalid(f"The path {path[:64]!r} is too deep.")
    if len(name) > 255:
        raise Invalid("A property's name has at most 255 characters.")
    return name, next(iter(inner), None)


def apply(draft: Draft, wanted: Sequence[Operation], *, adds_once: bool = False) -> None:
    """Change the draft. `adds_once`: adding an existing property is a conflict, as in the older form.

    Raises Forbidden, Conflict, BodyError.
    """
    for operation in wanted:
        check_name(operation.name)
        if operation.name in WRITABLE:
            _apply_to_field(draft, operation)
        else:
            _apply_to_property(draft, operation, adds_once)


def _apply_to_field(draft: Draft, operation: Operation) -> None:
    name = operation.name
    if operation.op == "remove":
        raise Forbidden(f"Property '{name}' may not be removed.")
    draft.fields[name] = structure(operation.value, WRITABLE[name], f"$.{name}")
    draft.touched.add(name)


def _apply_to_property(draft: Draft, operation: Operation, adds_once: bool) -> None:
    name = operation.name
    there = name in draft.properties
    if operation.op == "add" and there and adds_once:
        raise Conflict(f"Property {name[:64]} already present.")
    if operation.op != "add" and not there:
        raise Conflict(f"Property {name[:64]} does not exist.")
    if operation.op == "remove":
        del draft.properties[name]
    else:
        draft.properties[name] = property_value(name, operation.value)


def property_value(name: str, value: Any) -> str:
    """Raises BodyError unless it is a string."""
    if not isinstance(value, str):
        raise BodyError([Problem(f"$.{name[:64]}", "the value of a property is a string", "type")])
    return value
