"""Columns that several tables share, and the one MetaData that all tables belong to."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Boolean, Column, DateTime, MetaData, String, false, true
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Json = JSON().with_variant(JSONB(), "postgresql")


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


def identifier(name: str = "id", **options: Any) -> Column[str]:
    return Column(name, String(64), **{"primary_key": name == "id", **options})


def text(name: str, length: int = 255, **options: Any) -> Column[str]:
    return Column(name, String(length), **{"nullable": False, "default": "", **options})


def optional_text(name: str, length: int = 255, **options: Any) -> Column[str | None]:
    return Column(name, String(length), **{"nullable": True, **options})


def time(name: str, **options: Any) -> Column[datetime]:
    return Column(name, DateTime(), **options)


def flag(name: str, default: bool) -> Column[bool]:
    return Column(name, Boolean(), nullable=False, default=default, server_default=true() if default else false())


def json(name: str, default: Any) -> Column[Any]:
    """`default` is a callable such as `dict` or `list`."""
    return Column(name, Json, nullable=False, default=default)
