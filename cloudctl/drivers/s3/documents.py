"""The store's XML documents."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from cloudctl.drivers.errors import Unreachable


def read(raw: bytes) -> Element:
    """The document, with names stripped of their namespace. Raises Unreachable."""
    if b"<!DOCTYPE" in raw:
        raise Unreachable("the store's answer cannot be read: it has a document type")
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise Unreachable(f"the store's answer cannot be read: {error}") from error
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
    return root


def text(element: Element, name: str) -> str:
    return element.findtext(name) or ""


def moment(element: Element, name: str) -> float:
    """Seconds since the epoch. Raises Unreachable."""
    try:
        return datetime.fromisoformat(text(element, name)).astimezone(UTC).timestamp()
    except ValueError as error:
        raise Unreachable(f"the store's answer cannot be read: {error}") from error
