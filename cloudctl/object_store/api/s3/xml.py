"""XML for S3: documents that are read are small, and declare nothing. Reference: object-store.md, B3."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
SCHEMA = "http://www.w3.org/2001/XMLSchema-instance"
# Characters that cost the parser a step each. A list of 10,000 parts, of four elements each, has half of this.
MARKS, MOST_MARKS = "<=&\r\n", 200_000
# No XML can hold these, escaped or not.
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

Value = str | int | bool | None


class Malformed(ValueError):
    """It is not XML, or exceeds the limits."""


def parse(raw: bytes, root: str) -> Element:
    """The root element, which must have this name; namespaces are dropped. Raises Malformed.

    A document that declares a type is refused: nested entities would fill the memory. It is read as UTF-8, whatever it
    declares, so that no other encoding can hide anything. Blocks for a moment.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Malformed("a document type")
    if sum(map(text.count, MARKS)) > MOST_MARKS:
        raise Malformed("too many elements")
    try:
        found = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        raise Malformed("not well-formed") from None
    for each in found.iter():
        each.tag = each.tag.rpartition("}")[2]
    if found.tag != root:
        raise Malformed(f"{root} expected")
    return found


def text_of(parent: Element, path: str) -> str:
    """The text of a child; empty if there is none."""
    return (parent.findtext(path) or "").strip()


def element(name: str, /, *children: Element, **values: Value) -> Element:
    """`Key=None` is left out."""
    made = Element(name)
    for key, value in values.items():
        if value is not None:
            child = Element(key)
            child.text = _text(value)
            made.append(child)
    made.extend(children)
    return made


def listed(name: str, children: Iterable[Element], /, **values: Value) -> Element:
    return element(name, *children, **values)


def answer(root: Element) -> bytes:
    """A document in the namespace of S3."""
    root.set("xmlns", NAMESPACE)
    return document(root)


def document(root: Element) -> bytes:
    text: bytes = ElementTree.tostring(root, encoding="utf-8")
    # Parsers take a bare one for the end of a line, which is a newline.
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text.replace(b"\r", b"&#13;")


def _text(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return NOT_IN_XML.sub("\ufffd", str(value))
