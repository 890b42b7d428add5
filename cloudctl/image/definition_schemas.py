"""JSON schemas of metadata definitions, as `/v2/schemas/metadefs/…` answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

NAME = {"type": "string", "maxLength": 80}
TYPES = ["array", "boolean", "integer", "number", "object", "string"]
COUNT = {"type": "integer", "minimum": 0}
STRINGS = {"type": "array", "items": {"type": "string"}}


def _maybe(most: int, description: str) -> Schema:
    return {"type": ["null", "string"], "maxLength": most, "description": description}


def _served(description: str) -> Schema:
    return {"type": "string", "readOnly": True, "description": description}


TIMES = {
    "created_at": {**_served("When it was made"), "format": "date-time"},
    "updated_at": {**_served("When it was last changed"), "format": "date-time"},
}
LINKS = {"self": _served("Path of this record"), "schema": _served("Path of this schema")}

# The keywords that define a property: a part of JSON schema, and a few of OpenStack's.
KEYWORDS: Mapping[str, Schema] = {
    "title": {"type": "string", "description": "What people are shown"},
    "type": {"type": "string", "enum": TYPES, "description": "The type of its values"},
    "description": {"type": "string"},
    "operators": {**STRINGS, "description": "Words that may stand before a value"},
    "readonly": {"type": "boolean"},
    "confidential": {"type": "boolean"},
    "default": {},
    "enum": {"type": "array"},
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    "minLength": COUNT,
    "maxLength": COUNT,
    "pattern": {"type": "string", "format": "regex"},
    "items": {"type": "object", "properties": {"type": {"type": "string", "enum": TYPES}, "enum": {"type": "array"}}},
    "additionalItems": {"type": "boolean"},
    "uniqueItems": {"type": "boolean"},
    "minItems": COUNT,
    "maxItems": COUNT,
}

PROPERTY: Schema = {
    "name": "property",
    "required": ["name", "title", "type"],
    "properties": {"name": NAME, **KEYWORDS},
    "additionalProperties": False,
}
PROPERTIES: Schema = {
    "type": "object",
    "additionalProperties": {"type": "object", "required": ["title", "type"], "properties": {"name": NAME, **KEYWORDS}},
}
OBJECT: Schema = {
    "name": "object",
    "required": ["name"],
    "properties": {
        "name": NAME,
        "description": {"type": ["null", "string"], "description": "What the object is"},
        "required": {**STRINGS, "description": "Properties that it cannot be without"},
        "properties": PROPERTIES,
        **TIMES,
        **LINKS,
    },
    "additionalProperties": False,
}
TAG: Schema = {
    "name": "tag",
    "required": ["name"],
    "properties": {"name": NAME, **TIMES},
    "additionalProperties": False,
}
ASSOCIATION: Schema = {
    "name": "resource_type_association",
    "required": ["name"],
    "properties": {
        "name": {**NAME, "description": "The resource type, by the name that Heat gives it"},
        "prefix": _maybe(80, "What the names of properties begin with on resources of this type"),
        "properties_target": _maybe(80, "Which of a resource's sets of keys these are for"),
        **TIMES,
    },
    "additionalProperties": False,
}
NAMESPACE: Schema = {
    "name": "namespace",
    "required": ["namespace"],
    "properties": {
        "namespace": {**NAME, "description": "The name, which no other namespace has"},
        "display_name": _maybe(80, "What people are shown"),
        "description": _maybe(500, "What the namespace is for"),
        "visibility": {"type": "string", "enum": ["public", "private"]},
        "protected": {"type": "boolean", "description": "If true, nothing of it is deleted"},
        "owner": _maybe(255, "The project that it belongs to"),
        **TIMES,
        **LINKS,
        "resource_type_associations": {
            "type": "array",
            "items": {"type": "object", "properties": ASSOCIATION["properties"]},
        },
        "properties": PROPERTIES,
        "objects": {"type": "array", "items": {"type": "object", "properties": OBJECT["properties"]}},
        "tags": {"type": "array", "items": {"type": "object", "properties": TAG["properties"]}},
    },
    "additionalProperties": False,
}


def _plural(name: str, item: Schema) -> Schema:
    members: Schema = {"type": "array", "items": {"type": "object", "properties": item["properties"]}}
    links = {"first": {"type": "string"}, "next": {"type": "string"}, "schema": {"type": "string"}}
    return {
        "name": name,
        "properties": {name: members, **links},
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    }


SCHEMAS: Mapping[str, Schema] = {
    "namespace": NAMESPACE,
    "namespaces": _plural("namespaces", NAMESPACE),
    "resource_type": ASSOCIATION,
    "resource_types": _plural("resource_type_associations", ASSOCIATION),
    "property": PROPERTY,
    "properties": {"name": "properties", "properties": {"properties": PROPERTIES}, "additionalProperties": False},
    "object": OBJECT,
    "objects": _plural("objects", OBJECT),
    "tag": TAG,
    "tags": _plural("tags", TAG),
}
