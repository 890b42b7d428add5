"""Hypothesis strategies for request bodies, from the body classes that the Operations declare."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from cloudctl.rest.body import Body, Length, Loose, Missing, Range, is_required, wire_names

UUIDS = ("6f1d2c3b-0000-4000-8000-000000000000", "00000000-0000-0000-0000-000000000000")

# What a careless or hostile client sends instead of what is expected.
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((-1, 0, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308)),
    st.sampled_from(
        ("", " ", "x" * 300, "\u202eabc", "é\u0000", "../../etc/passwd", "%s%n", "' OR 1=1 --", "default", *UUIDS)
    ),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5) | st.integers(), max_size=3),
    st.builds(lambda: [[[[[[[[[[]]]]]]]]]]),  # a new one each time, since `spoiled` changes what it is given
)
WORDS = st.sampled_from(
    ("a", "first", "10.0.0.0/24", "10.0.0.5", "fe80::1", "raw", "bare", "nova", "default", "1", *UUIDS)
)
LONG = st.sampled_from((17 * "x", 33 * "x", 65 * "x", 256 * "x"))  # longer than most columns


def values(type_: Any) -> st.SearchStrategy[Any]:
    """JSON values that a field of this type is likely to take."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1:])
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not Missing]
        return st.one_of(*(values(kind) for kind in kinds))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=8), values(arguments[1]), max_size=3)
    if attrs.has(type_):
        return objects(type_)
    return SCALARS.get(type_, JUNK)


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.one_of(WORDS, LONG, st.text(max_size=12)),
    int: st.integers(-2, 2**33),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}


def _annotated(type_: Any, notes: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    for note in notes:
        if isinstance(note, Range):
            return st.integers(note.minimum, min(note.maximum, note.minimum + 50))
        if isinstance(note, Loose):
            return values(type_) | st.sampled_from(("1", "true", "no", "x"))
        if isinstance(note, Length) and type_ is str:
            text = st.text(min_size=note.minimum, max_size=min(note.maximum, note.minimum + 10))
            return st.one_of(WORDS, LONG, text)
    return values(type_)


def objects(class_: Any) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects of a body class: all required members, some of the rest."""
    names = wire_names(class_)
    required = {name: values(attribute.type) for name, attribute in names.items() if is_required(attribute)}
    optional = {name: values(attribute.type) for name, attribute in names.items() if not is_required(attribute)}
    return st.fixed_dictionaries(required, optional=optional)


@st.composite
def spoiled(draw: st.DrawFn, good: st.SearchStrategy[Any]) -> Any:
    """A value of `good` in which one place, at any depth, is junk, missing, or one too many."""
    value = draw(good)
    path: list[tuple[Any, Any]] = []
    place = value
    while isinstance(place, dict | list) and place and (not path or draw(st.booleans())):
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = draw(st.sampled_from(list(keys)))
        path.append((place, key))
        place = place[key]
    if not path:
        return draw(JUNK)
    holder, key = path[-1]
    if isinstance(holder, dict) and draw(st.integers(0, 4)) == 0:
        if draw(st.booleans()):
            del holder[key]
        else:
            holder["surplus"] = draw(JUNK)
    else:
        holder[key] = draw(JUNK)
    return value


def requests(body: Body, action: str | None) -> st.SearchStrategy[Any]:
    """Whole request bodies, good and spoiled."""
    good = values(body.type)
    either = good | spoiled(good)
    if action is not None:
        return either.map(lambda value: {action: value})
    if body.key is None:
        return either
    key, bulk = body.key, body.bulk
    single = either.map(lambda value: {key: value})
    if bulk is None:
        return single
    return single | st.lists(either, max_size=3).map(lambda items: {bulk: items})
