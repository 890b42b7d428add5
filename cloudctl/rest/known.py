"""Bodies of APIs that do not mind what they do not know."""

from __future__ import annotations

import types
from typing import Annotated, Any, Union, get_args, get_origin

import attrs

from cloudctl.rest.versions import Version


def known(value: Any, type_: Any, version: Version | None) -> Any:
    """The parsed JSON without the keys for which the body's type has no field at this microversion, at any depth."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return known(value, arguments[0], version)
    if origin in (Union, types.UnionType):
        for member in arguments:
            value = known(value, member, version)
        return value
    if origin is list and isinstance(value, list):
        return [known(item, arguments[0], version) for item in value]
    if isinstance(type_, type) and attrs.has(type_) and isinstance(value, dict):
        return _known(value, type_, version)
    return value


def _known(value: dict[str, Any], class_: Any, version: Version | None) -> dict[str, Any]:
    attrs.resolve_types(class_)
    fields = {each.metadata.get("wire", each.name): each for each in attrs.fields(class_)}
    if any(each.metadata.get("extra") for each in fields.values()):
        return value
    return {
        key: known(item, fields[key].type, version)
        for key, item in value.items()
        if key in fields and _offered(fields[key].metadata.get("spans"), version)
    }


def _offered(spans: Any, version: Version | None) -> bool:
    return spans is None or version is None or any(version in span for span in spans)
