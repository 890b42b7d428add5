"""Columns that several tables share, and the one MetaData that all tables belong to."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from sqlalchemy import JSON, Boolean, Column, DateTime, MetaData, String, false, true
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class JsonText(sqlite.JSON):
    """SQLite's JSON, read by one call: SQLAlchemy's makes three for each value, and a page holds thousands."""

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        loads = dialect._json_deserializer
        return lambda value: None if value is None else loads(value)


Json = JSON().with_variant(JSONB(), "postgresql").with_variant(JsonText(), "sqlite")


T = TypeVar("T")


class Field(Generic[T]):
    """How a type checker sees a column of a record: `Server.name` is a Column[str], and `server.name` is a str."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Any]) -> Column[T]: ...

        @overload
        def __get__(self, instance: object, owner: type[Any]) -> T: ...

        def __get__(self, instance: object | None, owner: type[Any]) -> Column[T] | T: ...

        # For the values that a record is made of; nothing can be set afterwards.
        def __set__(self, instance: object, value: T) -> None: ...


def utc(seconds: float) -> datetime:
    """Seconds since the epoch → the naive UTC datetime that every time column holds."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def seconds(when: datetime) -> float:
    """The reverse of `utc`."""
    return when.replace(tzinfo=UTC).timestamp()


def new_id() -> str:
    """A dashed UUID: ids of everything but identity's records."""
    return str(uuid.uuid4())


def new_hex_id() -> str:
    """32 hex digits: ids of users, projects, roles and the other identity records."""
    return uuid.uuid4().hex


def column(type_: Any, *options: Any, **named: Any) -> Any:
    """A column, with the options of SQLAlchemy's Column. The field gives its name and whether it may be NULL."""
    return Column(type_, *options, **named)


def identifier(**options: Any) -> Any:
    return Column(String(64), **options)


def text(length: int = 255, **options: Any) -> Field[str]:
    made: Field[str] = column(String(length), **{"default": "", **options})
    return made


def optional_text(length: int = 255, **options: Any) -> Field[str | None]:
    made: Field[str | None] = column(String(length), **options)
    return made


def time(**options: Any) -> Any:
    """A naive UTC datetime."""
    return Column(DateTime(), **options)


def flag(default: bool) -> Field[bool]:
    server_default = true() if default else false()
    made: Field[bool] = column(Boolean(), default=default, server_default=server_default)
    return made


def json(default: Any) -> Any:
    """`default` is a callable such as `dict` or `list`."""
    return Column(Json, default=default)
