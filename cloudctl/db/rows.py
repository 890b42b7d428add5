"""What a statement returns: records where it selects whole ones, named tuples of values where it does not."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from attrs import frozen
from sqlalchemy import Dialect, Table
from sqlalchemy.types import TypeEngine

from cloudctl.db.records import UNREAD, record_of

Convert = Callable[[Any], Any]
# The rows of the driver → ours.
Maker = Callable[[list[Any]], list[Any]]


@frozen
class Shape:
    """One item of a row: a record of `width` columns, or a value. `read`: which fields of the record those are."""

    name: str
    width: int = 1
    record: Any = None
    read: tuple[bool, ...] = ()

    @classmethod
    def of(cls, record: Any) -> Shape:
        width = len(record.table.c)
        return cls(record.__name__, width, record, (True,) * width)

    @classmethod
    def with_holes(cls, record: Any, names: Sequence[str]) -> Shape:
        return cls(record.__name__, len(names), record, tuple(column.key in names for column in record.table.c))


@frozen
class Columns:
    """The columns of a result, in order, and the items that they make up."""

    types: tuple[TypeEngine[Any], ...]
    shapes: tuple[Shape, ...]

    def maker(self, dialect: Dialect, codes: Sequence[Any]) -> Maker:
        """`codes`: the driver's codes for the types of its columns; None for each if it has none."""
        converts = [type._cached_result_processor(dialect, code) for type, code in zip(self.types, codes, strict=True)]
        return _maker(self.shapes, converts)


def shapes(selected: Sequence[Any], names: Sequence[str]) -> tuple[Shape, ...]:
    """The items of a row, given what was selected and the names of all its columns."""
    found: list[Shape] = []
    left = iter(names)
    for each in selected:
        record = record_of(each) if isinstance(each, Table) else None
        if record is not None:
            shape = Shape.of(record)
            for _ in range(shape.width):
                next(left)
            found.append(shape)
        else:
            width = len(each.c) if isinstance(each, Table) else 1
            found += [Shape(next(left)) for _ in range(width)]
    if (more := list(left)) != []:
        raise ValueError(f"columns that were not selected: {more}")
    return tuple(found)


def _maker(items: tuple[Shape, ...], converts: Sequence[Convert | None]) -> Maker:
    """One expression for a row: no loop, no name look-up. Its source is made from counts, never names or values."""
    used: dict[str, Any] = {"new": tuple.__new__}
    cells = []
    for at, convert in enumerate(converts):
        if convert is None:
            cells.append(f"v{at}")
        else:
            used[f"c{at}"] = convert
            cells.append(f"c{at}(v{at})")
    parts, position = [], 0
    for at, item in enumerate(items):
        mine = cells[position : position + item.width]
        position += item.width
        if item.record is None:
            parts += mine
        else:
            used |= {f"r{at}": item.record.row, "UNREAD": UNREAD}
            given = iter(mine)
            fields = [next(given) if is_read else "UNREAD" for is_read in item.read]
            parts.append(f"new(r{at}, ({', '.join(fields)},))")
    if len(items) == 1 and items[0].record is not None:
        made = parts[0]
        if not any(converts) and all(items[0].read):
            record = items[0].record.row
            return lambda rows: [tuple.__new__(record, row) for row in rows]
    else:
        used["row"] = row_type(tuple(item.name for item in items))
        if not any(converts) and len(items) == len(cells) and all(item.record is None for item in items):
            row = used["row"]
            return lambda rows: [tuple.__new__(row, each) for each in rows]
        made = f"new(row, ({', '.join(parts)},))"
    names = ", ".join(f"v{at}" for at in range(len(cells)))
    code = compile(f"lambda rows: [{made} for ({names},) in rows]", "<rows>", "eval")
    make: Maker = eval(code, used)
    return make


@lru_cache(maxsize=2000)
def row_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names, rename=True)
