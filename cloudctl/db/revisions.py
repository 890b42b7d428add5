"""For developers: the next file of migrations/versions, from what the tables declare and no file makes yet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from alembic import command
from alembic.operations.ops import (
    AddColumnOp,
    CreateIndexOp,
    CreateTableOp,
    DropIndexOp,
    MigrationScript,
    ModifyTableOps,
    UpgradeOps,
)
from alembic.script import Script, ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import JSON, Boolean, Column, ColumnElement, Connection, MetaData, create_engine, false, text, true
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, DefaultClause

from cloudctl.db import schema
from cloudctl.db.columns import metadata
from cloudctl.errors import ConfigError


def write(message: str, tables: MetaData = metadata, directory: Path | None = None) -> Path | None:
    """The file that was written; None if the migrations already make all that the tables declare.

    Raises ConfigError, and leaves no file, if a migration cannot be written from the tables alone.
    """
    with create_engine("sqlite://").connect() as conn:
        config = schema.alembic_config(conn, tables, directory or schema.MIGRATIONS)
        command.upgrade(config, "head")
        head = ScriptDirectory.from_config(config).get_current_head() or "0000"

        def complete(_context: Any, _revision: Any, directives: list[MigrationScript]) -> None:
            (script,) = directives
            assert script.upgrade_ops is not None
            script.upgrade_ops.ops += changed_conditions(conn, tables, script.upgrade_ops)
            fill_rows_that_exist(script.upgrade_ops, tables)
            for each in operations(script.upgrade_ops):
                if isinstance(each, CreateTableOp):
                    # It names the record that declares the table, which is code and not schema.
                    each.info = {}
                elif isinstance(each, CreateIndexOp):
                    word_condition(each)
            if script.upgrade_ops.is_empty():
                directives.clear()

        try:
            script = command.revision(
                config,
                message,
                autogenerate=True,
                rev_id=f"{int(head) + 1:04d}",
                process_revision_directives=complete,
            )
        except CommandError as error:
            raise ConfigError([str(error)]) from None
    if not isinstance(script, Script):
        return None
    file = Path(script.path)
    for tool in (["check", "--fix-only"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *tool, "--quiet", str(file)], check=True)
    return file


def changed_conditions(conn: Connection, tables: MetaData, found: UpgradeOps) -> Iterator[ModifyTableOps]:
    """The indexes whose WHERE has changed: alembic compares only their columns."""
    done = {each.index_name for each in operations(found) if isinstance(each, CreateIndexOp | DropIndexOp)}
    found_sql = conn.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''")
    made = {str(name): str(sql) for name, sql in found_sql}
    for table in tables.sorted_tables:
        for index in table.indexes:
            wanted = str(CreateIndex(index).compile(conn))
            if index.name not in done and index.name in made and made[index.name].split() != wanted.split():
                ops: list[Any] = [DropIndexOp.from_index(index), CreateIndexOp.from_index(index)]
                yield ModifyTableOps(table.name, ops, schema=None)


def word_condition(index: CreateIndexOp) -> None:
    """Give PostgreSQL the condition of an index in its own words: alembic writes SQLite's, whose flags are numbers."""
    where = index.kw.get("postgresql_where")
    if isinstance(where, ColumnElement):
        named = postgresql.dialect(paramstyle="named")
        worded = where.compile(dialect=named, compile_kwargs={"literal_binds": True, "include_table": False})
        index.kw["postgresql_where"] = text(str(worded))


def fill_rows_that_exist(found: UpgradeOps, tables: MetaData) -> None:
    """Give new columns that may not be null their default in the database, too. Raises ConfigError if one has none.

    The defaults that the tables declare are applied by the code that inserts, so existing rows would have nothing.
    """
    problems = []
    for each in operations(found):
        if isinstance(each, AddColumnOp) and not each.column.nullable and each.column.server_default is None:
            # Not alembic's copy: that has no Python default.
            default = value_for_old_rows(tables.tables[each.table_name].columns[each.column.name])
            if default is None:
                problems.append(f"{each.table_name}.{each.column.name}: needs a default for the rows that exist")
            each.column.server_default = default
    if problems:
        raise ConfigError(problems)


def value_for_old_rows(column: Column[Any]) -> DefaultClause | None:
    default: Any = column.default
    if default is None or not (default.is_scalar or default.is_callable):
        return None
    value = default.arg if default.is_scalar else default.arg(None)
    if isinstance(column.type, JSON):
        return DefaultClause(orjson.dumps(value).decode())
    if isinstance(column.type, Boolean):
        return DefaultClause(true() if value else false())
    return DefaultClause(str(value))


def operations(found: Any) -> Iterator[Any]:
    for each in found.ops:
        yield from operations(each) if isinstance(each, ModifyTableOps) else (each,)
