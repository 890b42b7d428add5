"""Records: a table and the values read from it, declared once.

    class Keypair(Record, table="keypairs"):
        user_id: Field[str] = identifier(primary_key=True)
        name: Field[str] = text(255, primary_key=True)

    Index("ix_keypairs_name", Keypair.name)

The class stands for the table: `Keypair.name` is its column, `select(Keypair)` reads whole records, `Keypair.table` is
SQLAlchemy's Table. An instance is one row: `keypair.name` is a `str`, and a name that is not a column is a type error
in both places. Instances are tuples, as cheap to make and to read as the driver's own rows; a page of a thousand
servers reads 45,000 fields.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, dataclass_transform

from sqlalchemy import Column, Select, Table, select

from cloudctl.db import columns


class Unread:
    """Stands in a record for a column that its query left out. It has no JSON form, so none is shown by mistake."""

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Any = Unread()
# The execution option of a statement whose columns make up a record with holes.
RECORD = "cloudctl_record"


@dataclass_transform(kw_only_default=True)
class RecordType(type):
    """Turns the columns of a class body into a Table, and the class into the type of its rows."""

    table: Table
    _row: type[Any] | None
    # For records made here: what each column has by default, in order, and those defaults that are made per record.
    _constants: dict[str, Any]
    _makers: list[tuple[str, Callable[[None], Any]]]

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], table: str | None = None) -> RecordType:
        inherited = {key: value for base in reversed(bases) for key, value in getattr(base, "_declared", {}).items()}
        declared = {key: value for key, value in body.items() if isinstance(value, Column)}
        for key, value in declared.items():
            # The annotation says it already. It is a string, as every module with records postpones annotations.
            value.nullable = not value.primary_key and body["__annotations__"][key].endswith("| None]")
        body |= {"__slots__": (), "_declared": inherited | declared}
        cls = super().__new__(mcls, name, bases, body)
        if table is not None:
            cls._make_table(table, declared.keys())
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], table: str | None = None) -> None:
        super().__init__(name, bases, body)

    def _make_table(cls, name: str, own_keys: Collection[str]) -> None:
        own: list[Column[Any]] = []
        for key, declared in cast(Mapping[str, Column[Any]], vars(cls)["_declared"]).items():
            # A column that several tables inherit is a column of each.
            column = declared if key in own_keys else declared._copy()
            column.name = column.key = key
            own.append(column)
            setattr(cls, key, column)
        made = Table(name, columns.metadata, *own)
        cls._constants = {column.key: _default(column) for column in own}
        cls._makers = [(name, value) for name, value in cls._constants.items() if callable(value)]
        cls.table, cls._row = made, None
        made.info["record"] = cls

    @property
    def row(cls) -> type[Any]:
        """The class of the rows: a named tuple that has the properties and methods of the declaration, too.

        Made when it is first asked for: a start declares all tables, and reads a few.
        """
        if cls._row is None:
            # The names are only known at run time: mypy cannot check them here, and sees them as Field instead.
            fields = namedtuple(cls.__name__, list(cls._constants))  # type: ignore[misc]
            body = {"__slots__": (), "__doc__": cls.__doc__, "__module__": cls.__module__}
            cls._row = type.__new__(RecordType, cls.__name__, (fields, cls), body)
        return cls._row

    def __clause_element__(cls) -> Table:
        return cls.table

    def __call__(cls, **values: Any) -> Any:
        """A record made here, not read. A value that is not given is the column's default, or None."""
        filled = cls._constants | values
        if len(filled) > len(cls._constants):
            raise TypeError(f"{cls.__name__} has no {', '.join(values.keys() - cls._constants.keys())}")
        for name, make in cls._makers:
            if name not in values:
                filled[name] = make(None)
        return tuple.__new__(cls.row, filled.values())


def _default(column: Column[Any]) -> Any:
    """What a column has by default: a value, or a function of one argument that makes it."""
    return None if column.default is None else cast(Any, column.default).arg


R = TypeVar("R", bound="Record")


class Record(metaclass=RecordType):
    """A row of a table: `class Server(Record, table="servers")`. Without a table: columns for others to inherit."""

    if TYPE_CHECKING:

        def __init_subclass__(cls, table: str | None = None) -> None: ...

        @property
        def _fields(self) -> tuple[str, ...]: ...

        def _asdict(self) -> dict[str, Any]: ...

        def _replace(self, **changes: Any) -> Self: ...


def select_without(record: type[R], *left_out: Column[Any]) -> Select[R]:
    """Select whole records except for these columns, which nobody may read from them: they hold UNREAD."""
    kept = [column for column in cast(RecordType, record).table.c if not any(column is each for each in left_out)]
    return cast("Select[R]", select(*kept).execution_options(**{RECORD: record}))


def record_of(table: Table) -> RecordType | None:
    """The record that declares a table; None for a table that has none."""
    return cast(RecordType | None, table.info.get("record"))
