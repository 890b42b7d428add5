"""JSON schemas of what the API serves, as `/v2/schemas/…` answers. Reference: image.md, section 11."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudctl.image.images import (
    CONTAINER_FORMATS,
    DISK_FORMATS,
    MEMBER_STATUSES,
    STATUSES,
    VISIBILITIES,
)

Schema = Mapping[str, Any]
ID_PATTERN = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"


def _text(description: str, *, null: bool = False, most: int | None = 255, **more: Any) -> Schema:
    length = {} if most is None else {"maxLength": most}
    return {"type": ["null", "string"] if null else "string", "description": description, **length, **more}


def _served(description: str, *, null: bool = False) -> Schema:
    return _text(description, null=null, most=None, readOnly=True)


def _number(description: str, **more: Any) -> Schema:
    return {"type": ["null", "integer"] if more.get("readOnly") else "integer", "description": description, **more}


def _choice(description: str, choices: tuple[str, ...], *, null: bool = False, **more: Any) -> Schema:
    values = [None, *choices] if null else [*choices]
    return {"type": ["null", "string"] if null else "string", "description": description, "enum": values, **more}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


IMAGE: Schema = {
    "name": "image",
    "properties": {
        "id": _text("An identifier for the image", most=None, pattern=ID_PATTERN),
        "name": _text("Descriptive name for the image", null=True),
        "status": _choice("Status of the image", STATUSES, readOnly=True),
        "visibility": _choice("Scope of image accessibility", VISIBILITIES),
        "protected": _flag("If true, the image cannot be deleted"),
        "os_hidden": _flag("If true, the image is left out of default lists"),
        "owner": _text("Project that owns the image", null=True),
        "container_format": _choice("Format of the container", CONTAINER_FORMATS, null=True),
        "disk_format": _choice("Format of the disk", DISK_FORMATS, null=True),
        "size": _number("Size of the image's data in bytes", readOnly=True),
        "virtual_size": _number("Size of the disk as a guest sees it, in bytes", readOnly=True),
        "min_disk": _number("GiB of disk that the image needs", minimum=0),
        "min_ram": _number("MiB of memory that the image needs", minimum=0),
        "checksum": _served("MD5 of the image's data", null=True),
        "os_hash_algo": _served("Algorithm of os_hash_value", null=True),
        "os_hash_value": _served("Hash of the image's data", null=True),
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 255}, "description": "List of tags"},
        "created_at": _served("Time of registration"),
        "updated_at": _served("Time of the last change"),
        "stores": _served("Stores that have the image's data"),
        "self": _served("Path of the image"),
        "file": _served("Path of the image's data"),
        "schema": _served("Path of this schema"),
    },
    "additionalProperties": {"type": "string"},
    "links": [
        {"rel": "self", "href": "{self}"},
        {"rel": "enclosure", "href": "{file}"},
        {"rel": "describedby", "href": "{schema}"},
    ],
}

MEMBER: Schema = {
    "name": "member",
    "properties": {
        "image_id": _text("An identifier for the image", most=None, pattern=ID_PATTERN),
        "member_id": _text("Project that the image is shared with"),
        "status": _choice("What the project answered", MEMBER_STATUSES),
        "created_at": _served("Time of sharing"),
        "updated_at": _served("Time of the last change"),
        "schema": _served("Path of this schema"),
    },
}

_ANYTHING: Schema = {"type": ["null", "object"]}
TASK: Schema = {
    "name": "task",
    "properties": {
        "id": _text("An identifier for the task", most=None, pattern=ID_PATTERN),
        "type": _choice("The type of the task", ("import", "api_image_import")),
        "status": _choice("The status of the task", ("pending", "processing", "success", "failure")),
        "input": {**_ANYTHING, "description": "What was asked for"},
        "result": {**_ANYTHING, "description": "What came of it"},
        "owner": _served("Project of the task", null=True),
        "message": _served("Why it failed"),
        "image_id": _served("The image", null=True),
        "request_id": _served("The request that made the task"),
        "user_id": _served("The user who made the task"),
        "expires_at": _served("Time after which this record is gone", null=True),
        "created_at": _served("Time of the request"),
        "updated_at": _served("Time of the last change"),
        "self": _served("Path of the task"),
        "schema": _served("Path of this schema"),
    },
}


def _plural(name: str, item: Schema, *, paged: bool) -> Schema:
    properties: dict[str, Any] = {name: {"type": "array", "items": item}, "schema": {"type": "string"}}
    links = [{"rel": "describedby", "href": "{schema}"}]
    if paged:
        properties |= {"first": {"type": "string"}, "next": {"type": "string"}}
        links = [{"rel": "first", "href": "{first}"}, {"rel": "next", "href": "{next}"}, *links]
    return {"name": name, "properties": properties, "links": links}


SCHEMAS: Mapping[str, Schema] = {
    "image": IMAGE,
    "images": _plural("images", IMAGE, paged=True),
    "member": MEMBER,
    "members": _plural("members", MEMBER, paged=False),
    "task": TASK,
    "tasks": _plural("tasks", TASK, paged=True),
}
