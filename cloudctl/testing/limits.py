"""Tables for SQLite that refuse what PostgreSQL refuses: text longer than its column, integers out of its range.

SQLite keeps either, so what a test writes there by accident would be an internal error with PostgreSQL alone.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Integer, MetaData, String, text
from sqlalchemy.types import TypeEngine

INTEGER = 1 << 31


def limited(tables: MetaData) -> MetaData:
    """A copy of the tables, in which each column has the limits of its type."""
    made = MetaData(naming_convention=tables.naming_convention)
    for table in tables.tables.values():
        copy = table.to_metadata(made)
        beyond = {column.name: _beyond(column.type, f'"{column.name}"') for column in copy.columns}
        limits = " ".join(f"WHEN {each} THEN '{name}'" for name, each in beyond.items() if each is not None)
        if limits:
            # One for all columns: SQLite reads each again in every new cloud. A bad path is an error of its own kind.
            # That of a CHECK is IntegrityError, which means «taken».
            refused = f"json_extract('1', 'too much for {table.name}.' || CASE {limits} END)"
            copy.append_constraint(CheckConstraint(text(f"{refused} IS NULL"), f"ck_{table.name}_limits"))
    return made


def _beyond(type_: TypeEngine[object], name: str) -> str | None:
    if isinstance(type_, String) and type_.length is not None:
        return f"length({name}) > {type_.length}"
    if isinstance(type_, Integer) and not isinstance(type_, BigInteger):
        return f"{name} NOT BETWEEN {-INTEGER} AND {INTEGER - 1}"
    return None
