"""Plans: SQLAlchemy Core is the language, the driver is called directly.

A statement is compiled once into a Plan: its text, where each of its parameters comes from, and a function that makes
rows of what the driver gives. To run it again costs one call of the driver; SQLAlchemy's own execution costs thirty
times that. A statement that is built once, at module level, carries its plan; one that is built at the call is looked
up by its cache key.

What has no plan (raw SQL text, DDL, a tuple in an IN, …) is executed by SQLAlchemy on the same driver connection. So are
statements of a SQLAlchemy whose inside has changed: tests/db holds plans against it, statement by statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import ReferenceType, ref

from attrs import define, frozen
from sqlalchemy import CompoundSelect, Dialect
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler

from cloudctl.db.rows import Columns, Maker, shapes

Parameters = Mapping[str, Any]
Convert = Callable[[Any], Any]

# Plans of statements that are built at the call; what filters and sort keys a client combines is its own choice.
MOST_PLANS = 2048
# Where an IN list goes into the text: its name, and what is written around each of its values.
LIST = re.compile(r"__\[POSTCOMPILE_([^\]~]+)(?:~~(.*?)~~REPL~~(.*?)~~)?\]")


class Unplanned(Exception):
    """SQLAlchemy has to execute this statement itself."""


@frozen
class Parameter:
    """One placeholder of a plan. `position`: of its value among those that the statement itself holds."""

    name: str
    key: str
    position: int | None
    bound: Any
    convert: Convert | None
    is_list: bool


@frozen
class ListText:
    """An IN list: how each of its values is written, and what an empty one is."""

    each: str
    empty: str


@frozen
class Default:
    """A value that the table gives where the call has none."""

    key: str
    value: Any
    is_callable: bool


@define(eq=False)
class Plan:
    """A compiled statement."""

    text: str
    parameters: tuple[Parameter, ...]
    defaults: tuple[Default, ...]
    # The text between the IN lists, and the lists; None without any.
    pieces: tuple[str | ListText, ...] | None
    columns: Columns | None  # None: no rows
    # The first column of a new row's key comes back by RETURNING.
    returns_key: bool
    writes: str | None  # the table that it changes
    # Depends on what the driver says of its columns, so the first execution makes it.
    make: Maker | None = None


@frozen
class Bound:
    """A plan, and the values that one statement brings to it."""

    plan: Plan
    values: Sequence[Any]

    def arguments(self, given: Parameters) -> tuple[str, list[Any]]:
        """Text and arguments of one execution. Raises InvalidRequestError for a missing value."""
        plan = self.plan
        if plan.defaults:
            given = dict(given)
            for default in plan.defaults:
                if default.key not in given:
                    given[default.key] = default.value(None) if default.is_callable else default.value
        arguments: list[Any] = []
        lengths: list[int] = []
        for parameter in plan.parameters:
            value = self._value(parameter, given)
            convert = parameter.convert
            if parameter.is_list:
                values = [convert(each) for each in value] if convert else list(value)
                lengths.append(len(values))
                arguments += values
            else:
                arguments.append(value if convert is None else convert(value))
        return (plan.text if plan.pieces is None else _expanded(plan.pieces, lengths)), arguments

    def _value(self, parameter: Parameter, given: Parameters) -> Any:
        if parameter.key in given:
            return given[parameter.key]
        if parameter.name in given:
            return given[parameter.name]
        bound = parameter.bound if parameter.position is None else self.values[parameter.position]
        if bound.callable is not None:
            return bound.callable()
        if bound.required:
            raise InvalidRequestError(f"A value is required for bind parameter {parameter.key!r}")
        return bound.value


def _expanded(pieces: tuple[str | ListText, ...], lengths: list[int]) -> str:
    text, left = [], iter(lengths)
    for piece in pieces:
        if isinstance(piece, str):
            text.append(piece)
        else:
            length = next(left)
            text.append(", ".join([piece.each] * length) if length else piece.empty)
    return "".join(text)


class Plans:
    """The plans of one dialect. They hold no values, so all databases of a process that speak it share them."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._known: dict[Any, Plan | None] = {}

    def bind(self, statement: Executable, given: Parameters | None, many: bool) -> Bound:
        """The plan of a statement that is executed with values of these names. Raises Unplanned."""
        names = tuple(given) if given else ()
        carried: tuple[ReferenceType[Any], dict[Any, Bound | None]] | None = statement.__dict__.get(CARRIED)
        # A statement that was made of another has a copy of what that carried.
        if carried is not None and carried[0]() is statement:
            try:
                bound = carried[1][self, names, many]
            except KeyError:
                pass
            else:
                if bound is None:
                    raise Unplanned
                return bound
        else:
            carried = None
        bound = self._look_up(statement, names, many)
        if carried is None:
            statement.__dict__[CARRIED] = (ref(statement), {(self, names, many): bound})
        else:
            carried[1][self, names, many] = bound
        if bound is None:
            raise Unplanned
        return bound

    def _look_up(self, statement: Any, names: tuple[str, ...], many: bool) -> Bound | None:
        make_key = getattr(statement, "_generate_cache_key", None)
        cache_key = make_key() if make_key is not None else None
        if cache_key is None:
            return None
        key = (cache_key.key, names, many)
        try:
            plan = self._known[key]
        except KeyError:
            plan = self._known[key] = self._compile(statement, cache_key, names, many)
            if len(self._known) > MOST_PLANS:
                del self._known[next(iter(self._known))]
        return None if plan is None else Bound(plan, cache_key.bindparams)

    def _compile(self, statement: Any, cache_key: Any, names: tuple[str, ...], many: bool) -> Plan | None:
        compiled = statement.compile(
            dialect=self.dialect, cache_key=cache_key, column_keys=sorted(names), for_executemany=many
        )
        try:
            return _plan(compiled, cache_key.bindparams)
        except Unplanned:
            return None


# The name under which a statement carries its plans.
CARRIED = "_cloudctl_plans"


def _plan(compiled: SQLCompiler, bindparams: Sequence[Any]) -> Plan:
    """Raises Unplanned."""
    if not isinstance(compiled, SQLCompiler) or compiled.literal_execute_params or not compiled.positional:
        raise Unplanned
    is_change = compiled.isinsert or compiled.isupdate or compiled.isdelete
    statement: Any = compiled.statement
    shown = bool(compiled._result_columns) and (not is_change or bool(statement._returning))
    if not is_change and not shown:
        raise Unplanned  # raw text: what it returns is not known
    pieces = _pieces(compiled)
    return Plan(
        text=compiled.string if pieces is None else "",
        parameters=tuple(_parameters(compiled, bindparams)),
        defaults=tuple(_defaults(compiled)),
        pieces=pieces,
        columns=_columns(compiled) if shown else None,
        returns_key=compiled.isinsert and not shown and bool(compiled.implicit_returning),
        writes=statement.table.name if is_change else None,
    )


def _parameters(compiled: SQLCompiler, bindparams: Sequence[Any]) -> Iterable[Parameter]:
    match = compiled._cache_key_bind_match
    positions: dict[Any, int] = {}
    if match is not None:
        positions = {bound: at for at, original in enumerate(bindparams) for bound in match[0][original]}
    lists = compiled.post_compile_params
    before_lists = compiled._pre_expanded_positiontup
    for name in (compiled.positiontup if before_lists is None else before_lists) or ():
        bound = compiled.binds[name]
        if bound in lists and getattr(bound.type, "_is_tuple_type", False):
            raise Unplanned
        convert = compiled._bind_processors.get(name)
        if isinstance(convert, tuple):
            raise Unplanned
        yield Parameter(name, bound.key, positions.get(bound), bound, convert, bound in lists)


def _defaults(compiled: SQLCompiler) -> Iterable[Default]:
    fetched = compiled.insert_prefetch if compiled.isinsert else compiled.update_prefetch if compiled.isupdate else ()
    for column in fetched:
        default: Any = column.default if compiled.isinsert else column.onupdate
        if default is None or default.is_sequence or default.is_clause_element:
            raise Unplanned
        yield Default(column.key, default.arg, default.is_callable)


def _pieces(compiled: SQLCompiler) -> tuple[str | ListText, ...] | None:
    """The text around the IN lists, and the lists; None without any."""
    if not compiled.post_compile_params:
        return None
    pieces: list[str | ListText] = []
    end = 0
    for found in LIST.finditer(compiled.string):
        bound = compiled.binds[found[1]]
        pieces += [compiled.string[end : found.start()], _list_text(compiled, bound, found[2] or "", found[3] or "")]
        end = found.end()
    return (*pieces, compiled.string[end:])


def _list_text(compiled: Any, bound: Any, before: str, after: str) -> ListText:
    placeholder = "?" if compiled.dialect.paramstyle == "qmark" else "%s"
    kind = bound.type._unwrapped_dialect_impl(compiled.dialect)
    if compiled.dialect._bind_typing_render_casts and kind.render_bind_cast:
        placeholder = compiled.render_bind_cast(bound.type, kind, placeholder)
    return ListText(before + placeholder + after, compiled.visit_empty_set_op_expr([bound.type], bound.expand_op))


def _columns(compiled: Any) -> Columns:
    if not compiled._ordered_columns:
        raise Unplanned
    statement = compiled.statement
    while isinstance(statement, CompoundSelect):
        statement = statement.selects[0]
    selected = statement._returning if statement.is_dml else getattr(statement, "_raw_columns", None)
    if selected is None:
        raise Unplanned
    entries = compiled._result_columns
    try:
        items = shapes(selected, [entry.keyname for entry in entries])
    except (StopIteration, ValueError):
        raise Unplanned from None
    return Columns(tuple(entry.type for entry in entries), items)
