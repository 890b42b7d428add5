"""What each microversion of an API changes, collected from the spans that the API declares.

Operations, their bodies and parameters carry their own spans; views (`rest.views.Fields`), the attributes of declared
resources and gates (spans with a `what`) are found in the modules of the API's package, so none has to be listed
anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import attrs
from attrs import field, frozen

from cloudctl.rest.app import ApiApp
from cloudctl.rest.body import Body, spans, wire_names
from cloudctl.rest.resource import Attribute
from cloudctl.rest.route import FIRST, Operation
from cloudctl.rest.versions import Span, Version
from cloudctl.rest.views import Fields


@frozen
class Fact:
    """Something that holds at some microversions: «`tags`» «in the body of» «`POST /servers`»."""

    span: Span
    name: str
    place: str = ""
    whose: str = ""


@frozen
class Step:
    """What one microversion adds and removes."""

    new: list[Fact] = field(factory=list)
    gone: list[Fact] = field(factory=list)


def steps(api: ApiApp, package: str, prefix: str = "") -> dict[Version, Step]:
    """Version → what it changes, in order.

    `package`: where the API's modules are, `cloudctl.compute.api`. `prefix`: where its paths are, `/compute`.
    """
    found: dict[Version, Step] = {}
    versions = api.pipeline.versions
    for fact in facts(api, package, prefix):
        if fact.span.since is not None and (versions is None or fact.span.since > versions.minimum):
            found.setdefault(fact.span.since, Step()).new.append(fact)
        if fact.span.until is not None:
            major, minor = fact.span.until
            found.setdefault((major, minor + 1), Step()).gone.append(fact)
    return dict(sorted(found.items()))


def facts(api: ApiApp, package: str, prefix: str = "") -> Iterator[Fact]:
    """Everything that does not hold at every microversion."""
    for path, operation in api.operations:
        yield from _of_operation(prefix + path, operation)
    seen: set[int] = set()
    for module in modules(package):
        for value in vars(module).values():
            # A module also holds what it imports.
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Fields):
                for name, (span, _) in value.fields.items():
                    yield Fact(span, f"`{name}`", "of", value.what)
            elif isinstance(declared := getattr(value, "attributes", None), tuple):
                for attribute in declared:
                    # A resource at two paths is declared twice.
                    if isinstance(attribute, Attribute) and attribute.view is not None and id(attribute) not in seen:
                        seen.add(id(attribute))
                        yield Fact(attribute.span, f"`{attribute.name}`", "of", value.noun)
            elif isinstance(value, Span) and value.what:
                yield Fact(value, value.what)


def modules(package: str) -> Iterator[ModuleType]:
    root = import_module(package)
    for each in iter_modules(root.__path__):
        yield import_module(f"{package}.{each.name}")


def _of_operation(path: str, operation: Operation) -> Iterator[Fact]:
    call = shown(operation, path)
    yield Fact(operation.span, call)
    for name, span in operation.late.items():
        yield Fact(span, f"`{name}`", "in the query of", call)
    before: Body | None = None
    for version, body in sorted((operation.body or {}).items()):
        yield from _of_body(call, version, before, body)
        before = body
    for version, status in list(operation.status.items())[1:]:
        yield Fact(Span(version), f"status {status}", "of", call)


def _of_body(call: str, version: Version, before: Body | None, body: Body) -> Iterator[Fact]:
    for name, found in spans(body.type).items():
        for span in found:
            yield Fact(span, f"`{name.lstrip('.')}`", "in the body of", call)
    if before is None:
        if version != FIRST:
            yield Fact(Span(version), "a body", "of", call)
        return
    known = _keys(before)
    new = [name for name in _keys(body) if name not in known]
    for name in new:
        yield Fact(Span(version), f"`{name}`", "in the body of", call)
    if not new:
        yield Fact(Span(version), "another body", "of", call)


def _keys(body: Body) -> Iterable[str]:
    """The keys of a body that is an object with its own fields, and not a list or a map."""
    return wire_names(body.type) if attrs.has(body.type) else ()


def shown(operation: Operation, path: str) -> str:
    """A call as the docs name it."""
    plain = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path)
    return f"`{operation.method} {plain}`" + (f" `{operation.action}`" if operation.action else "")


def sentences(found: Iterable[Fact]) -> list[str]:
    """Facts in words: the facts about one call are joined, and so are all calls with the same facts."""
    names: dict[tuple[str, str], list[str]] = {}
    for fact in found:
        names.setdefault((fact.place, fact.whose), []).append(fact.name)
    places: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (place, whose), several in names.items():
        if place:
            places.setdefault((place, tuple(dict.fromkeys(several))), []).append(whose)
        else:
            for name in several:
                places.setdefault(("", (name,)), [])
    return [" ".join(filter(None, (listed(of), place, listed(whose)))) for (place, of), whose in places.items()]


def listed(words: Iterable[str]) -> str:
    *most, last = [*words] or [""]
    return f"{', '.join(most)} and {last}" if most else last
