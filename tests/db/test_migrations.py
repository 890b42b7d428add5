"""`cloudctl db revision`: what it writes brings a database with rows in it to what the tables say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from attrs import frozen
from click.testing import CliRunner
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    insert,
    inspect,
    literal_column,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError
from twisted.internet.task import Clock

from cloudctl import app, cli
from cloudctl.bootstrap import Bootstrapped
from cloudctl.db import Connection, Database, columns, revisions, schema
from cloudctl.errors import ConfigError
from cloudctl.identity.tables import Endpoint, Service
from cloudctl.network import rule_templates, rules
from cloudctl.network.tables import RuleTemplate, Segment

ROOT = Path(__file__).parents[2]
NOW = datetime(2027, 1, 1)


# What all of the migrations make (that it is the same is shown below), in a twentieth of the time.
ALL_AT_ONCE = f"""
from alembic import op
from sqlalchemy.schema import CreateIndex, CreateTable

from tests.db.test_migrations import of_the_application

revision, down_revision = "{schema.VERSION:04d}", None

def upgrade():
    # Not `create_all`, which makes triggers, too.
    for table in of_the_application().sorted_tables:
        op.execute(CreateTable(table))
        for index in table.indexes:
            op.execute(CreateIndex(index))
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the migrations, for which ruff has our settings."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(schema.MIGRATIONS, tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "migrations"


@pytest.fixture
def directory(copied: Path) -> Path:
    """The same with one migration, which makes everything."""
    return at_once(copied)


def at_once(directory: Path) -> Path:
    for name in files(directory):
        (directory / "versions" / name).unlink()
    (directory / "versions" / f"{schema.VERSION:04d}_all_at_once.py").write_text(ALL_AT_ONCE)
    return directory


@pytest.fixture
def tables() -> MetaData:
    """The application's tables, to be changed."""
    return of_the_application()


def of_the_application() -> MetaData:
    assert app.SECTIONS
    copy = MetaData(naming_convention=columns.metadata.naming_convention)
    for table in columns.metadata.tables.values():
        # Other tests keep tables of their own in the same MetaData.
        if not table.name.startswith("test_"):
            table.to_metadata(copy)
    return copy


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, reactor: Any, tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'cloud.sqlite'}" if sqlite else str(request.getfixturevalue("postgresql_url"))
    db = Database.open(url, reactor)
    yield db
    db.close()


@pytest.fixture
def db(empty: Database, directory: Path) -> Database:
    """One with the tables of this release."""
    bring_up(empty, directory)
    return empty


def files(directory: Path) -> list[str]:
    return sorted(file.name for file in (directory / "versions").glob("*.py"))


def bring_up(db: Database, directory: Path) -> None:
    with schema.references_unchecked(db):
        db.transact(False, schema.upgrade, directory)


def differences(db: Database, tables: MetaData) -> list[Any]:
    def compare(conn: Connection) -> list[Any]:
        return list(compare_metadata(MigrationContext.configure(conn.alchemy, opts={"compare_type": True}), tables))

    return db.transact(True, compare)


def indexes(db: Database) -> dict[str, str]:
    found = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''"
    if not db.is_sqlite:
        found = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
    rows = db.transact(True, lambda conn: conn.execute(text(found)).all())
    return {name: re.sub(r"\s+", " ", sql) for name, sql in rows}


def test_the_migrations_make_all_that_the_tables_say(copied: Path, tables: MetaData) -> None:
    """Conditions of indexes among it, which alembic does not compare."""
    before = files(copied)
    assert revisions.write("nothing", tables, copied) is None
    assert files(copied) == before


def test_the_newest_file_has_the_number_of_the_schema() -> None:
    newest = files(schema.MIGRATIONS)[-1]
    assert int(newest.partition("_")[0]) == schema.VERSION, f"VERSION in cloudctl/db/schema.py is not that of {newest}"


@frozen
class Written:
    """A migration, and the tables as they are declared when it was written."""

    directory: Path
    tables: MetaData
    name: str


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """One for all of these changes: writing it is most of what each test would cost."""
    place = tmp_path_factory.mktemp("written")
    shutil.copy(ROOT / "pyproject.toml", place)
    shutil.copytree(schema.MIGRATIONS, place / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    directory, tables = at_once(place / "migrations"), of_the_application()
    for change in (add_columns, refer_from_a_table_with_rows, change_indexes, add_a_condition_on_a_flag):
        change(tables)
    file = revisions.write("much of everything", tables, directory)
    assert file is not None
    return Written(directory, tables, file.name)


def add_columns(tables: MetaData) -> None:
    Table("zones", tables, Column("id", String(64), primary_key=True))
    for table in (tables.tables["keypairs"], tables.tables["ports"]):
        table.append_column(Column("purpose", String(64), nullable=False, default="old"))
        table.append_column(Column("comment", String(64)))
        table.append_column(Column("hidden", Boolean, nullable=False, default=False, server_default=false()))
        table.append_column(Column("listed", Boolean, nullable=False, default=True))
        table.append_column(Column("labels", columns.Json, nullable=False, default=dict))
        table.append_column(Column("uses", Integer, nullable=False, default=7))


def refer_from_a_table_with_rows(tables: MetaData) -> None:
    tables.tables["volume_types"].append_column(Column("image_id", String(64), ForeignKey("images.id")))


def change_indexes(tables: MetaData) -> None:
    servers = tables.tables["servers"]
    named = {str(index.name): index for index in servers.indexes}
    servers.indexes -= {named["ix_servers_host"], named["ix_servers_group"], named["ix_servers_created"]}
    Index("ix_servers_created", servers.c.created_at)
    Index("ix_servers_nova", servers.c.host, servers.c.project_id, unique=True)
    condition = text("deleted_at IS NULL AND group_id IS NOT NULL")
    Index("ix_servers_group", servers.c.group_id, sqlite_where=condition, postgresql_where=condition)


def add_a_condition_on_a_flag(tables: MetaData) -> None:
    networks = tables.tables["networks"]
    few = networks.c.pvlan.is_(True) & (networks.c.name != literal_column("'a'"))
    Index("ix_networks_few", networks.c.name, sqlite_where=few, postgresql_where=few)


def test_what_is_written_makes_all_that_the_tables_say(db: Database, written: Written) -> None:
    assert written.name == f"{schema.VERSION + 1:04d}_much_of_everything.py"
    bring_up(db, written.directory)
    assert differences(db, written.tables) == []


def test_once_written_there_is_nothing_to_write(written: Written) -> None:
    assert revisions.write("once more", written.tables, written.directory) is None


def test_new_columns_have_their_defaults_in_old_rows(db: Database, written: Written) -> None:
    db.transact(False, lambda conn: conn.execute(insert(columns.metadata.tables["keypairs"]).values(KEYPAIR)))
    bring_up(db, written.directory)
    keypairs, zones = (written.tables.tables[name] for name in ("keypairs", "zones"))
    row = db.transact(True, lambda conn: conn.alchemy.execute(select(keypairs)).one())
    assert (row.name, row.purpose, row.comment, row.hidden, row.listed) == ("mine", "old", None, False, True)
    assert (row.labels, row.uses) == ({}, 7)
    db.transact(False, lambda conn: conn.execute(insert(zones).values(id="z")))


KEYPAIR = {
    "user_id": "u", "name": "mine", "type": "ssh", "public_key": "k", "fingerprint": "f", "created_at": NOW,
}  # fmt: skip


def test_a_table_that_is_copied_keeps_what_refers_to_it(db: Database, written: Written) -> None:
    """SQLite cannot add a foreign key in place, and to drop a table deletes what refers to its rows."""
    types, access = (columns.metadata.tables[name] for name in ("volume_types", "volume_type_access"))

    def fill(conn: Any) -> None:
        conn.execute(insert(types).values(id="t", name="fast", created_at=NOW, updated_at=NOW))
        conn.execute(insert(access).values(volume_type_id="t", project_id="p"))

    db.transact(False, fill)
    bring_up(db, written.directory)

    assert db.transact(True, lambda conn: conn.execute(select(access.c.project_id)).scalars().all()) == ["p"]
    found = db.transact(True, lambda conn: inspect(conn.alchemy).get_foreign_keys("volume_types"))
    assert (["image_id"], "images") in [(each["constrained_columns"], each["referred_table"]) for each in found]
    # References are checked again.
    with pytest.raises(IntegrityError):
        db.transact(False, lambda conn: conn.execute(insert(access).values(volume_type_id="none", project_id="p")))


def test_indexes_come_go_and_change_their_condition(db: Database, written: Written) -> None:
    before = indexes(db)
    bring_up(db, written.directory)

    after = indexes(db)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    # PostgreSQL has an index for the key of the new table.
    assert changed - {"pk_zones"} == {
        "ix_servers_host", "ix_servers_group", "ix_servers_created", "ix_servers_nova", "ix_networks_few",
    }  # fmt: skip
    assert "ix_servers_host" not in after and "UNIQUE" in after["ix_servers_nova"]
    assert "group_id IS NOT NULL" in after["ix_servers_group"]
    # Each database has its own words for a flag: SQLite's are numbers, which PostgreSQL refuses.
    assert ("WHERE pvlan IS 1" if db.is_sqlite else "pvlan IS TRUE") in after["ix_networks_few"]


def test_one_file_follows_the_other_and_both_are_formatted(directory: Path, tables: MetaData) -> None:
    tables.tables["keypairs"].append_column(Column("a", Text))
    first = revisions.write("a", tables, directory)
    tables.tables["keypairs"].append_column(Column("b", Text))
    tables.tables["servers"].indexes.clear()
    second = revisions.write("b, too", tables, directory)
    assert first is not None and second is not None
    assert f'down_revision = "{schema.VERSION + 1:04d}"' in second.read_text()
    for words in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *words, str(first), str(second)], check=True)


def test_a_column_for_which_old_rows_have_no_value_is_refused(directory: Path, tables: MetaData) -> None:
    before = files(directory)
    tables.tables["servers"].append_column(Column("zone_id", String(64), nullable=False))
    with pytest.raises(ConfigError, match=r"^servers\.zone_id: needs a default for the rows that exist$"):
        revisions.write("zones", tables, directory)
    assert files(directory) == before


def test_a_migration_that_breaks_references_is_not_committed(reactor: Any, directory: Path) -> None:
    db = Database.in_memory(Clock())
    bring_up(db, directory)
    (directory / "versions" / f"{schema.VERSION + 1:04d}_bad.py").write_text(
        f"""
from alembic import op

revision, down_revision = "{schema.VERSION + 1:04d}", "{schema.VERSION:04d}"

def upgrade():
    op.execute("INSERT INTO volume_type_access VALUES ('none', 'p')")
"""
    )
    with pytest.raises(AssertionError, match="volume_type_access"):
        bring_up(db, directory)
    access = columns.metadata.tables["volume_type_access"]
    assert db.transact(True, lambda conn: conn.execute(select(access)).all()) == []


def test_the_command_says_what_it_wrote(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", directory)
    for file in (directory / "versions").glob("0*.py"):
        file.unlink()
    result = CliRunner().invoke(cli.main, ["db", "revision", "the first"])
    assert result.exit_code == 0, result.output
    (made,) = (directory / "versions").glob("0*.py")
    assert made.name == "0001_the_first.py" and f"{made}: read it" in result.output


def test_the_second_version_counts_what_is_there(reactor: Any, tmp_path: Path) -> None:
    """A cloud of the first release, with a server on a host: its shares are counted, its servers have a revision."""
    from alembic import command

    db = Database.open(f"sqlite:///{tmp_path / 'cloud.sqlite'}", reactor)
    db.transact(
        False,
        lambda conn: command.upgrade(schema.alembic_config(conn.alchemy, columns.metadata, schema.MIGRATIONS), "0001"),
    )

    def put(conn: Connection, table: str, row: dict[str, Any]) -> None:
        values = ", ".join(f":{key}" for key in row)
        conn.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})"), row)

    def fill(conn: Connection) -> None:
        host = {"vcpus": 1, "memory_mib": 1, "disk_gib": 1}
        names = [c["name"] for c in inspect(conn.alchemy).get_columns("hosts")]
        assert "shares" not in names
        known = {c["name"]: 0 for c in inspect(conn.alchemy).get_columns("hosts") if not c["nullable"]}
        for name in "ab":
            row = {**known, "name": name, "id": name, "service_id": name, "number": ord(name)}
            put(conn, "hosts", {key: value for key, value in row.items() if key in names})
        for server in ("one", "two"):
            put(conn, "allocations", {"consumer_id": server, "host": "a", "project_id": "p", **host})

    db.transact(False, fill)
    db.transact(
        False,
        lambda conn: command.upgrade(schema.alembic_config(conn.alchemy, columns.metadata, schema.MIGRATIONS), "head"),
    )
    counted = text("SELECT name, shares FROM resource_providers ORDER BY name")
    assert db.transact(True, lambda conn: conn.execute(counted).all()) == [("a", 2), ("b", 0)]
    db.close()


def test_a_cloud_that_is_there_gets_what_a_new_one_begins_with(empty: Database) -> None:
    """Rules of new security groups, and services in the catalog, wherever images are offered."""
    db = empty

    def up_to(conn: Connection, revision: str) -> None:
        command.upgrade(schema.alembic_config(conn.alchemy, columns.metadata, schema.MIGRATIONS), revision)

    def fill(conn: Connection) -> None:
        when = datetime(2026, 1, 1)
        both = {"enabled": True, "extra": {}, "created_at": when}
        conn.execute(insert(Bootstrapped).values(id=1, at=when))
        conn.execute(insert(Service).values(id="s", type="image", name="glance", **both))
        here = {"service_id": "s", "interface": "public", "region_id": "Here", "url": "{base_url}/image"}
        conn.execute(insert(Endpoint).values(id="e", **here, **both))

    with schema.references_unchecked(db):
        db.transact(False, up_to, "0003")
        db.transact(False, fill)
        db.transact(False, up_to, "head")
    templates = db.transact(True, lambda conn: conn.execute(select(RuleTemplate)).all())
    assert len(templates) == len(rule_templates.SHIPPED)
    assert {(each.direction, each.ethertype, each.meaning) for each in templates} == {
        (each.rule.direction, each.rule.ethertype, rules.columns(each.rule)["meaning"])
        for each in rule_templates.SHIPPED
    }
    offered = select(Service.type, Endpoint.interface, Endpoint.region_id).where(Endpoint.service_id == Service.id)
    assert set(db.transact(True, lambda conn: conn.execute(offered).all())) == {
        (type, "public", "Here") for type in ("image", "object-store", "placement", "s3")
    }


def test_networks_stay_on_their_segments(empty: Database) -> None:
    """What were rows of networks are records with ids of their own."""
    db = empty

    def up_to(conn: Connection, revision: str) -> None:
        command.upgrade(schema.alembic_config(conn.alchemy, columns.metadata, schema.MIGRATIONS), revision)

    def fill(conn: Connection) -> None:
        values = "'vxlan', '', 77, 'a'), ('flat', 'public', 0, 'b'"
        columns = "network_type, physical_network, segmentation_id, network_id"
        conn.execute(text(f"INSERT INTO network_segments ({columns}) VALUES ({values})"))

    with schema.references_unchecked(db):
        db.transact(False, up_to, "0011")
        db.transact(False, fill)
        db.transact(False, up_to, "head")
    rows = db.transact(True, lambda conn: conn.execute(select(Segment).order_by(Segment.network_id)).all())
    found = [(row.network_id, row.network_type, row.physical_network, row.segmentation_id) for row in rows]
    assert found == [("a", "vxlan", "", 77), ("b", "flat", "public", 0)]
    assert len({row.id for row in rows}) == 2 and {row.revision for row in rows} == {0}
