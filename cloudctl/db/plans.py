"""Plans: statements are written in SQLAlchemy Core and executed by calling the driver directly.

A statement is compiled once into a Plan: its text, where each of its parameters comes from, and a function that turns
the driver's rows into ours. Running it again costs one driver call; SQLAlchemy's own execution costs thirty times that.
A statement that is built once, at module level, carries its plan; one that is built for each call is looked up by its
cache key.

A statement without a plan (raw SQL text, DDL, a tuple in an IN, …) is executed by SQLAlchemy on the same driver
connection. Plans use SQLAlchemy's internals; tests/db compares them with its own results, statement by statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any
from weakref import ReferenceType, ref

from attrs import define, field, frozen
from sqlalchemy import CompoundSelect, Dialect
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler

from cloudctl.db.records import RECORD
from cloudctl.db.rows import Columns, Maker, Shape, shapes

Parameters = Mapping[str, Any]
Convert = Callable[[Any], Any]

# Plans that are kept for look-up: clients combine filters and sort keys as they like.
MOST_PLANS = 2048
# Texts that one plan keeps: its IN lists have as many lengths as callers like.
MOST_TEXTS = 16
# Where an IN list goes into the text: its name, and what is written around each of its values.
LIST = re.compile(r"__\[POSTCOMPILE_([^\]~]+)(?:~~(.*?)~~REPL~~(.*?)~~)?\]")


class Unplanned(Exception):
    """SQLAlchemy has to execute this statement itself."""


@frozen
class Parameter:
    """One placeholder of a plan, and where its value comes from.

    `given` is its name among the values of a call; without one, `default` provides the value. With neither, the
    statement holds it: at `position` among its own parameters or, if that is None, compiled into the plan as `bound`.
    """

    name: str
    given: str | None
    default: Default | None
    position: int | None
    bound: Any
    convert: Convert | None
    is_list: bool

    @property
    def is_held(self) -> bool:
        return self.given is None and self.default is None


@frozen
class ListText:
    """An IN list: how each of its values is written, and what stands for an empty list."""

    each: str
    empty: str


@frozen
class Default:
    """A column's default, for a call that gives no value."""

    value: Any
    is_callable: bool


# The values of a call, and those that its statement holds → the driver's arguments, and the lengths of the IN lists.
Fill = Callable[[Parameters, Sequence[Any]], tuple[Sequence[Any], tuple[int, ...]]]


@define(eq=False)
class Plan:
    """A compiled statement."""

    text: str
    parameters: tuple[Parameter, ...]
    # The text around the IN lists, and the lists; None if there are none.
    pieces: tuple[str | ListText, ...] | None
    columns: Columns | None  # None: it returns no rows
    # The first column of a new row's key comes back by RETURNING.
    returns_key: bool
    writes: str | None  # the table that it changes
    fill: Fill
    # Depends on how the driver describes the columns, so the first execution makes it.
    make: Maker | None = None
    # The whole text by the lengths of its lists.
    texts: dict[tuple[int, ...], str] = field(factory=dict)

    def held(self, values: Sequence[Any]) -> list[Any]:
        """The arguments that a statement holding these values brings itself. Raises InvalidRequestError, Unplanned."""
        return [_held(each, values) for each in self.parameters if each.is_held]

    def expanded(self, lengths: tuple[int, ...]) -> str:
        """The text, with lists of these lengths."""
        try:
            return self.texts[lengths]
        except KeyError:
            text = _expanded(self.pieces or (), lengths)
            if len(self.texts) < MOST_TEXTS:
                self.texts[lengths] = text
            return text


@frozen
class Bound:
    """A plan, and the arguments that one statement brings to each execution of it."""

    plan: Plan
    held: Sequence[Any]

    def arguments(self, given: Parameters) -> tuple[str, Sequence[Any]]:
        """Text and arguments of one execution."""
        arguments, lengths = self.plan.fill(given, self.held)
        return (self.plan.expanded(lengths) if lengths else self.plan.text), arguments


def _held(parameter: Parameter, values: Sequence[Any]) -> Any:
    bound = parameter.bound if parameter.position is None else values[parameter.position]
    if bound.callable is not None:
        raise Unplanned
    if bound.required:
        raise InvalidRequestError(f"A value is required for bind parameter {bound.key!r}")
    if (convert := parameter.convert) is None:
        return bound.value
    return [convert(each) for each in bound.value] if parameter.is_list else convert(bound.value)


def _fill(parameters: Sequence[Parameter]) -> Fill:
    """One expression for all arguments: no loop, no branch. Its source is made from counts, never names or values."""
    used: dict[str, Any] = {}
    cells: list[str] = []
    lists = held = 0
    for at, parameter in enumerate(parameters):
        used |= {f"n{at}": parameter.given, f"c{at}": parameter.convert}
        converts = parameter.convert is not None and not parameter.is_held
        if parameter.is_held:
            value = f"held[{held}]"
            held += 1
        elif parameter.default is None:
            value = f"given[n{at}]"
        else:
            used[f"d{at}"] = parameter.default.value
            value = f"d{at}(None)" if parameter.default.is_callable else f"d{at}"
        if parameter.is_list:
            cells.append(f"*(l{lists} := {f'[c{at}(v) for v in {value}]' if converts else f'[*{value}]'}),")
            lists += 1
        else:
            cells.append(f"c{at}({value})," if converts else f"{value},")
    lengths = "".join(f"len(l{number})," for number in range(lists))
    code = compile(f"lambda given, held: (({''.join(cells)}), ({lengths}))", "<arguments>", "eval")
    fill: Fill = eval(code, used)
    return fill


def _expanded(pieces: tuple[str | ListText, ...], lengths: Iterable[int]) -> str:
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
        # Of two threads that make room at once, both would remove the same plan.
        self._adding = Lock()

    def bind(self, statement: Executable, given: Parameters | None, many: bool) -> Bound:
        """The plan of a statement, for execution with values of the names in `given`. Raises Unplanned."""
        names = tuple(given) if given else ()
        carried: tuple[ReferenceType[Any], dict[Any, Bound | None]] | None = statement.__dict__.get(CARRIED)
        # A statement that was derived from another has a copy of what that one carried.
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
        key = (cache_key.key, names, many, statement.get_execution_options().get(RECORD))
        try:
            plan = self._known[key]
        except KeyError:
            plan = self._compile(statement, cache_key, names, many)
            with self._adding:
                self._known[key] = plan
                if len(self._known) > MOST_PLANS:
                    del self._known[next(iter(self._known))]
        try:
            return None if plan is None else Bound(plan, plan.held(cache_key.bindparams))
        except Unplanned:
            return None

    def _compile(self, statement: Any, cache_key: Any, names: tuple[str, ...], many: bool) -> Plan | None:
        compiled = statement.compile(
            dialect=self.dialect, cache_key=cache_key, column_keys=sorted(names), for_executemany=many
        )
        try:
            return _plan(compiled, cache_key.bindparams, names)
        except Unplanned:
            return None


# The name under which a statement carries its plans.
CARRIED = "_cloudctl_plans"


def _plan(compiled: SQLCompiler, bindparams: Sequence[Any], names: Collection[str]) -> Plan:
    """Raises Unplanned."""
    if not isinstance(compiled, SQLCompiler) or compiled.literal_execute_params or not compiled.positional:
        raise Unplanned
    is_change = compiled.isinsert or compiled.isupdate or compiled.isdelete
    statement: Any = compiled.statement
    shown = bool(compiled._result_columns) and (not is_change or bool(statement._returning))
    if not is_change and not shown:
        raise Unplanned  # raw text: the columns it returns are not known
    pieces = _pieces(compiled)
    parameters = tuple(_parameters(compiled, bindparams, names))
    return Plan(
        text=compiled.string if pieces is None else "",
        parameters=parameters,
        pieces=pieces,
        columns=_columns(compiled) if shown else None,
        returns_key=compiled.isinsert and not shown and bool(compiled.implicit_returning),
        writes=statement.table.name if is_change else None,
        fill=_fill(parameters),
    )


def _parameters(compiled: SQLCompiler, bindparams: Sequence[Any], names: Collection[str]) -> Iterable[Parameter]:
    match = compiled._cache_key_bind_match
    positions: dict[Any, int] = {}
    if match is not None:
        positions = {bound: at for at, original in enumerate(bindparams) for bound in match[0][original]}
    lists = compiled.post_compile_params
    before_lists = compiled._pre_expanded_positiontup
    defaults = dict(_defaults(compiled))
    for name in (compiled.positiontup if before_lists is None else before_lists) or ():
        bound = compiled.binds[name]
        if bound in lists and getattr(bound.type, "_is_tuple_type", False):
            raise Unplanned
        convert = compiled._bind_processors.get(name)
        if isinstance(convert, Sequence):  # of a tuple
            raise Unplanned
        given = next((each for each in (bound.key, name) if each in names), None)
        default = None if given is not None else defaults.get(bound.key, defaults.get(name))
        yield Parameter(name, given, default, positions.get(bound), bound, convert, bound in lists)


def _defaults(compiled: SQLCompiler) -> Iterable[tuple[str, Default]]:
    """The defaults, by the names of their columns."""
    fetched = compiled.insert_prefetch if compiled.isinsert else compiled.update_prefetch if compiled.isupdate else ()
    for column in fetched:
        default: Any = column.default if compiled.isinsert else column.onupdate
        if default is None or default.is_sequence or default.is_clause_element:
            raise Unplanned
        yield column.key, Default(default.arg, default.is_callable)


def _pieces(compiled: SQLCompiler) -> tuple[str | ListText, ...] | None:
    """The text around the IN lists, and the lists; None if there are none."""
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
    statement, entries = compiled.statement, compiled._result_columns
    names, types = [entry.keyname for entry in entries], tuple(entry.type for entry in entries)
    if (record := statement.get_execution_options().get(RECORD)) is not None:
        return Columns(types, (Shape.with_holes(record, names),))
    while isinstance(statement, CompoundSelect):
        statement = statement.selects[0]
    selected = statement._returning if statement.is_dml else getattr(statement, "_raw_columns", None)
    if selected is None:
        raise Unplanned
    try:
        return Columns(types, shapes(selected, names))
    except (StopIteration, ValueError):
        raise Unplanned from None
