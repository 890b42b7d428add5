"""Request bodies: JSON → frozen attrs values, or a list of everything that is wrong with it.

Bodies are frozen attrs classes. cattrs does the walking; the hooks here make it strict (its defaults turn `null` into
`"None"` and `"5"` into 5). A field that may be left out has the default `MISSING`; `None` means that `null` was sent.

    @frozen
    class CreateNetwork:
        name: Name
        shared: bool | Missing = MISSING
        external: bool | Missing = wire("router:external", default=MISSING)
        mtu: int | Missing = gated(since(2, 7))

A body class holds the fields of every microversion. A field sent at a version that does not have it is as unknown as
any other key.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import attrs
from attrs import NOTHING, field, frozen
from cattrs import Converter, transform_error
from cattrs.cols import is_sequence, list_structure_factory
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, mapping_structure_factory, override

from cloudctl.rest.known import known
from cloudctl.rest.members import structured
from cloudctl.rest.standing import as_sent, shown, standing, unexpected
from cloudctl.rest.versions import Span, Version

INTEGER_MOST = 2**31 - 1


class Missing(Enum):
    """The type of `MISSING`: a key that the body does not have."""

    MISSING = "MISSING"

    def __bool__(self) -> Literal[False]:
        return False


MISSING = Missing.MISSING


@frozen
class Body:
    """The body that an Operation takes.

    `key`: the envelope's one key (`"server"`); None if the fields are at the top level.
    `bulk`: the plural key under which a list of them may come instead.
    `optional`: the request may have no body at all.
    `types`: media types that are accepted; an empty tuple means JSON.
    """

    type: Any
    key: str | None = None
    bulk: str | None = None
    optional: bool = False
    types: tuple[str, ...] = ()


@frozen
class Problem:
    """One thing wrong with a body: JSONPath-like `path` (`$.server.name`), what is wrong, and the kind.

    Kinds: `syntax`, `type`, `value`, `required`, `unknown`; and the one in a class's `__refused__`.
    """

    path: str
    message: str
    kind: str = "value"
    value: str | None = None  # the value there, as an error message shows it; None: none that is short

    @property
    def name(self) -> str:
        """The last key of the path."""
        return re.split(r"[.\]]", self.path.rstrip("]").replace("[", "."))[-1].strip("'")


class BodyError(Exception):
    """The body is wrong. A service's Faults turn it into that service's message."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{p.message} @ {p.path}" for p in problems))
        self.problems = problems


class ValueProblem(ValueError):
    """Raised by a hook: the kind and the text of a Problem."""

    def __init__(self, message: str, kind: str = "value") -> None:
        super().__init__(message)
        self.kind = kind


# -- how a field is described


def wire(name: str, **options: Any) -> Any:
    """A field whose key in JSON is not its name in Python."""
    return field(metadata={"wire": name}, **options)


def gated(*spans: Span, name: str | None = None) -> Any:
    """A field that may be left out, and is accepted only at these microversions. `name`: its key in JSON."""
    return field(default=MISSING, metadata={"spans": spans} | ({} if name is None else {"wire": name}))


def extra() -> Any:
    """A field that collects the keys that no other field takes. At most one per class."""
    return field(factory=dict, metadata={"extra": True})


@frozen
class Length:
    minimum: int = 0
    maximum: int = 255
    blank: bool = True  # whether a text of nothing but white space is accepted

    def __call__(self, value: str) -> str:
        if len(value) < self.minimum:
            raise ValueProblem(f"{shown(value)} is too short")
        if len(value) > self.maximum:
            raise ValueProblem(f"{shown(value)} is too long (at most {self.maximum} characters)")
        if not self.blank and not value.strip():
            raise ValueProblem(f"{shown(value)} contains only whitespace")
        return value


@frozen
class Range:
    minimum: int
    maximum: int = INTEGER_MOST

    def __call__(self, value: int) -> int:
        if value < self.minimum:
            raise ValueProblem(f"{value} is less than the minimum of {self.minimum}")
        if value > self.maximum:
            raise ValueProblem(f"{value} is greater than the maximum of {self.maximum}")
        return value


@frozen
class Pattern:
    regex: str
    expected: str

    def __call__(self, value: str) -> str:
        if re.fullmatch(self.regex, value) is None:
            raise ValueProblem(f"{shown(value)} is not {self.expected}")
        return value


@frozen
class Items:
    """Number of members of a list or an object."""

    minimum: int = 0
    maximum: int = 1000

    def __call__(self, value: Any) -> Any:
        if not self.minimum <= len(value) <= self.maximum:
            raise ValueProblem(f"has {len(value)} items; {self.minimum} to {self.maximum} are taken")
        return value


@frozen
class Check:
    """`test(value)` returns the value to use or raises ValueError with the reason."""

    test: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return self.test(value)


@frozen
class Loose:
    """A number or a truth value that may come as text: `"5"`, `"true"`."""


def uuid(value: str) -> str:
    """The canonical form of a UUID with or without dashes. Raises ValueProblem."""
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueProblem(f"{shown(value)} is not a 'uuid'") from None


Name = Annotated[str, Length(1, 255, blank=False)]
Text = Annotated[str, Length(0, 255)]
Uuid = Annotated[str, Length(0, 64), Check(uuid)]
LooseInt = Annotated[int, Loose()]
LooseBool = Annotated[bool, Loose()]

# -- the strict converter

TRUE = {"1", "t", "true", "on", "y", "yes"}
FALSE = {"0", "f", "false", "off", "n", "no"}
JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def wrong_type(value: Any, name: str) -> ValueProblem:
    return ValueProblem(f"{shown(value)} is not of type '{name}'", "type")


def truth(text: str) -> bool | None:
    """True or False for the words that OpenStack accepts as such, in any case; None for others."""
    word = text.strip().lower()
    return True if word in TRUE else False if word in FALSE else None


def _str(value: Any, _: Any) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "string")
    return value


def _int(value: Any, _: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "integer")
    if abs(value) > INTEGER_MOST:
        raise ValueProblem(f"{value} is beyond {INTEGER_MOST}")
    return value


def _float(value: Any, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "number")
    return float(value)


def _bool(value: Any, _: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(value, "boolean")
    return value


def _none(value: Any, _: Any) -> None:
    if value is not None:
        raise wrong_type(value, "null")


def _loose(value: Any, target: Any) -> Any:
    if target is int and isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,10}", value.strip(), re.ASCII):
        return _int(int(value), int)
    if target is bool:
        found = truth(str(value)) if isinstance(value, str | int) else None
        if found is None:
            raise wrong_type(value, "boolean")
        return found
    return _int(value, int)


def _annotated(type_: Any, converter: Converter) -> Any:
    target, *notes = get_args(type_)
    if any(isinstance(note, Loose) for note in notes):
        inner: Any = _loose
    else:
        inner = converter.get_structure_hook(target)
    checks = [note for note in notes if callable(note)]

    def structure(value: Any, _: Any) -> Any:
        value = inner(value, target)
        for check in checks:
            value = check(value)
        return value

    return structure


def _union(type_: Any, converter: Converter) -> Any:
    members = [member for member in get_args(type_) if member not in (Missing, type(None))]
    nullable = type(None) in get_args(type_)
    hooks = [(converter.get_structure_hook(member), member) for member in members]

    def structure(value: Any, _: Any) -> Any:
        if value is None and nullable:
            return None
        if len(hooks) == 1:
            hook, member = hooks[0]
            return hook(value, member)
        failures = []
        for hook, member in hooks:
            try:
                return hook(value, member)
            except Exception as error:  # every hook has its own errors; the last member's are the ones shown
                failures.append(error)
        scalar = [f for f in failures if not (isinstance(f, ValueProblem) and f.kind == "type")]
        raise (scalar or failures)[-1]

    return structure


def _literal(type_: Any, converter: Converter) -> Any:
    choices = get_args(type_)

    def structure(value: Any, _: Any) -> Any:
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return value
        raise ValueProblem(f"{shown(value)} is not one of {list(choices)}")

    return structure


def _none_lost(made: Any, sent: Any) -> Any:
    """A UUID can be written in several ways, and of what has the same key only the last would be left."""
    if len(made) < len(sent):
        raise ValueProblem("has one key several times")
    return made


def _guarded(container: type, factory: Any) -> Any:
    def make(type_: Any, converter: Converter) -> Any:
        inner = factory(type_, converter)

        def structure(value: Any, target: Any) -> Any:
            if not isinstance(value, container):
                raise wrong_type(value, JSON_NAMES[container])
            return _none_lost(structured(inner, value, target), value)

        return structure

    return make


def _attrs_class(type_: Any, converter: Converter) -> Any:
    attrs.resolve_types(type_)
    renames: dict[str, Any] = {}
    known: set[str] = set()
    extra_field: str | None = None
    for attribute in attrs.fields(type_):
        if attribute.metadata.get("extra"):
            extra_field = attribute.name
            renames[attribute.name] = override(omit=True)
            continue
        name = attribute.metadata.get("wire", attribute.name)
        known.add(name)
        if name != attribute.name:
            renames[attribute.name] = override(rename=name)
    inner = make_dict_structure_fn(type_, converter, _cattrs_forbid_extra_keys=extra_field is None, **renames)

    def structure(value: Any, target: Any) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(value, "object")
        if extra_field is None:
            return inner(value, target)
        rest = {key: item for key, item in value.items() if key not in known}
        made = inner({key: item for key, item in value.items() if key in known}, target)
        return attrs.evolve(made, **{extra_field: rest})

    return structure


def _made_of(*origins: Any) -> Callable[[Any], bool]:
    return lambda type_: get_origin(type_) in origins


@cache
def converter() -> Converter:
    """The one strict converter; it has no state that a caller can change."""
    made = Converter(detailed_validation=True, forbid_extra_keys=True)
    scalars: dict[Any, Any] = {str: _str, int: _int, float: _float, bool: _bool, type(None): _none}
    for scalar, hook in scalars.items():
        made.register_structure_hook(scalar, hook)
    # Later registrations are tried first.
    factories: list[tuple[Callable[[Any], bool], Any]] = [
        (attrs.has, _attrs_class),
        (is_sequence, _guarded(list, list_structure_factory)),
        (_made_of(dict), _guarded(dict, mapping_structure_factory)),
        (_made_of(Literal), _literal),
        (_made_of(Union, types.UnionType), _union),
        (_made_of(Annotated), _annotated),
    ]
    register: Any = made.register_structure_hook_factory
    for predicate, factory in factories:
        register(predicate, factory)
    return made


def _told(error: BaseException, type_: Any) -> str:
    """One line that `structure` takes apart again: kind, tab, text."""
    if isinstance(error, ValueProblem):
        return f"{error.kind}\t{error}"
    if isinstance(error, KeyError):
        return f"required\t'{error.args[0]}' is a required property"
    if isinstance(error, ForbiddenExtraKeysError):
        kind, refused = getattr(error.cl, "__refused__", ("", frozenset()))
        kind = kind if error.extra_fields <= refused else "unknown"
        return f"{kind}\t{unexpected(sorted(error.extra_fields))}"
    return f"value\t{error}"


def structure(value: Any, type_: Any, path: str = "$", version: Version | None = None, loose: bool = False) -> Any:
    """A parsed JSON value as `type_`, of this microversion. Raises BodyError with every problem found.

    `loose`: keys that are not known are left out.
    """
    if loose:
        value = known(value, type_, version)
    try:
        made = converter().structure(value, type_)
    except Exception as error:  # cattrs raises groups as well as what the hooks raise
        problems = []
        for line in transform_error(error, path, _told):
            text, _, where = line.rpartition(" @ ")
            kind, _, message = text.partition("\t")
            where = as_sent(type_, where.removeprefix(path))
            problems.append(Problem(f"{path}{where}", message, kind, standing(value, where)))
        raise BodyError(problems) from None
    if version is not None and spans(type_) and (untimely := list(_untimely(made, path, version))):
        raise BodyError(untimely)
    return made


@cache
def spans(type_: Any) -> Mapping[str, tuple[Span, ...]]:
    """The fields in a body of this type that come or go, at any depth (`.networks[].tag`), and their spans."""
    found: dict[str, tuple[Span, ...]] = {}
    if not (isinstance(type_, type) and attrs.has(type_)):
        step = "[]" if get_origin(type_) is list else ""
        for argument in get_args(type_):
            found |= {f"{step}{path}": each for path, each in spans(argument).items()}
        return found
    for name, attribute in wire_names(type_).items():
        if "spans" in attribute.metadata:
            found[f".{name}"] = attribute.metadata["spans"]
        found |= {f".{name}{path}": each for path, each in spans(attribute.type).items()}
    return found


@cache
def _dated(class_: Any) -> list[tuple[str, str, tuple[Span, ...] | None]]:
    """The fields of a body that are not of every version, or have such fields within: JSON key, name, its spans."""
    fields = wire_names(class_).items() if attrs.has(class_) else ()
    found = ((key, each.name, each.metadata.get("spans"), spans(each.type)) for key, each in fields)
    return [(key, name, offered) for key, name, offered, within in found if offered is not None or within]


def _untimely(made: Any, path: str, version: Version) -> Iterator[Problem]:
    """Fields that were sent at a version that does not have them."""
    if isinstance(made, list | tuple):
        for place, item in enumerate(made):
            yield from _untimely(item, f"{path}[{place}]", version)
    for key, name, offered in _dated(made.__class__):
        value = getattr(made, name)
        if value is not MISSING and offered is not None and not any(version in span for span in offered):
            yield Problem(path, unexpected([key]), "unknown")
        yield from _untimely(value, f"{path}.{key}", version)


def read(body: Body, value: Any, version: Version | None = None, loose: bool = False) -> Any:
    """A parsed body as the value that the handler gets; a list of them if it came in bulk. Raises BodyError."""
    if body.key is None:
        return structure(value, body.type, "$", version, loose)
    if not isinstance(value, dict):
        raise BodyError([Problem("$", f"{shown(value)} is not of type 'object'", "type")])
    if body.bulk is not None and body.bulk in value and body.key not in value:
        if isinstance(some := value[body.bulk], list):  # each may come in an envelope of its own
            some = [each[body.key] if isinstance(each, dict) and [*each] == [body.key] else each for each in some]
        return structure(some, types.GenericAlias(list, (body.type,)), f"$.{body.bulk}", version)
    if body.key not in value:
        raise BodyError([Problem("$", f"'{body.key}' is a required property", "required")])
    if not loose and (others := sorted(key for key in value if key != body.key)):
        raise BodyError([Problem("$", unexpected(others), "unknown")])
    return structure(value[body.key], body.type, f"$.{body.key}", version, loose)


def given(value: Any, *names: str) -> dict[str, Any]:
    """The fields of a body that were sent, by their Python names; only those in `names` if there are any."""
    return {
        attribute.name: item
        for attribute in attrs.fields(type(value))
        if (not names or attribute.name in names) and (item := getattr(value, attribute.name)) is not MISSING
    }


@cache
def wire_names(type_: Any) -> Mapping[str, Any]:
    """JSON key → attribute of a body class, for the docs and the fuzz test."""
    attrs.resolve_types(type_)
    return {a.metadata.get("wire", a.name): a for a in attrs.fields(type_) if not a.metadata.get("extra")}


def is_required(attribute: Any) -> bool:
    return attribute.default is NOTHING
