"""Many servers at once: copies of a booted one, written straight into the tables of a stopped cloud.

Every row of any table that refers to the server or its port is copied with new ids and a new address; so a copy has
everything that a boot leaves, whatever tables exist. The drivers know nothing of the copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any
from uuid import UUID, uuid4

import orjson
from attrs import frozen
from sqlalchemy import Connection, Integer, Table, create_engine, delete, insert, make_url, select, text, update

import cloudctl.app  # noqa: F401  # so that every table is declared
from cloudctl.compute.tables import Server
from cloudctl.db.columns import metadata
from cloudctl.network.addresses import key, number
from cloudctl.network.tables import FreeRange, IpAllocation, Port
from cloudctl.placement.tables import Allocation, Inventory, Provider

# Copies per transaction. Each raises the sums of its project, and PostgreSQL walks through all versions of a row that
# the same transaction has left: fifty thousand in one had not ended after ten minutes.
AT_ONCE = 500
# Not the prefix that the cloud itself assigns, so that no later port collides with one of these.
MACS = "fa:16:3f"


@frozen
class Template:
    """A booted server with one port. `rows`: its own, by table."""

    server: str
    port: str
    mac: str
    subnet: str
    address: str
    rows: Mapping[str, tuple[Mapping[str, Any], ...]]

    @classmethod
    def of(cls, conn: Connection, server: str) -> Template:
        """Raises ValueError unless it has one port with one address."""
        port = conn.execute(select(Port.id, Port.mac_address).where(Port.device_id == server)).one()
        where = IpAllocation.port_id == port.id
        subnet, address = conn.execute(select(IpAllocation.subnet_id, IpAllocation.ip_address).where(where)).one()
        rows = {}
        for table in metadata.sorted_tables:
            every = (dict(row) for row in conn.execute(select(table)).mappings())
            found = [without_number(table, row) for row in every if speaks(row, server, port.id)]
            if found:
                rows[table.name] = tuple(found)
        return cls(server, port.id, port.mac_address, subnet, address, rows)

    def copy(self, address: str) -> dict[str, list[dict[str, Any]]]:
        """The rows of one more server, by table."""
        low = number(address)
        names = {
            self.server: str(uuid4()),
            self.port: str(uuid4()),
            self.mac: f"{MACS}:{low >> 16 & 255:02x}:{low >> 8 & 255:02x}:{low & 255:02x}",
            self.address: address,
            key(number(self.address)): key(number(address)),
        }
        own = {row["id"] for rows in self.rows.values() for row in rows if is_uuid(row.get("id"))}
        names |= {id: str(uuid4()) for id in own - names.keys()}
        return {table: [renamed(row, names) for row in rows] for table, rows in self.rows.items()}


def speaks(row: Mapping[str, Any], *ids: str) -> bool:
    return any(id in str(value) for value in row.values() for id in ids)


def without_number(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """The row without the number that the database assigns itself."""
    counted = table.autoincrement_column
    if counted is not None and isinstance(counted.type, Integer):
        return {name: value for name, value in row.items() if name != counted.name}
    return row


def is_uuid(value: object) -> bool:
    try:
        return UUID(str(value)).version == 4
    except ValueError:
        return False


def renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {name: renamed_value(value, names) for name, value in row.items()}


def renamed_value(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict | list) and value:
        text = orjson.dumps(value).decode()
        for old, new in names.items():
            text = text.replace(old, new)
        return orjson.loads(text)
    return value


def copy_server(url: str, server: str, count: int) -> None:
    """`count` more servers like this one. No process may have the database open."""
    with _opened(url) as conn:
        _copy(conn, Template.of(conn, server), count)
        _promise(conn, server, count)
        conn.commit()


def copy_port(url: str, device: str, count: int) -> None:
    """`count` more ports like the one plugged into `device`, which is not a server. Otherwise like `copy_server`."""
    with _opened(url) as conn:
        _copy(conn, Template.of(conn, device), count)


def tidy(url: str) -> None:
    """What autovacuum would have done by now: PostgreSQL knows the sizes of its tables, and deleted rows are gone."""
    if make_url(url).get_backend_name() == "postgresql":
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.execute(text("VACUUM ANALYZE"))
        engine.dispose()


@contextmanager
def _opened(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.connect() as conn:
            yield conn
    finally:
        engine.dispose()


def _copy(conn: Connection, template: Template, count: int) -> None:
    waiting: dict[str, list[dict[str, Any]]] = {}
    for position, address in enumerate(_take(conn, template.subnet, count)):
        for table, rows in template.copy(address).items():
            waiting.setdefault(table, []).extend(rows)
        if position % AT_ONCE == AT_ONCE - 1:
            _write(conn, waiting)
            conn.commit()
    _write(conn, waiting)
    conn.commit()


def _write(conn: Connection, waiting: dict[str, list[dict[str, Any]]]) -> None:
    for table in metadata.sorted_tables:
        if rows := waiting.pop(table.name, None):
            conn.execute(insert(table), rows)


def _take(conn: Connection, subnet: str, count: int) -> Iterator[str]:
    """Take the next free addresses of the subnet. Its largest range must hold them."""
    ranges = conn.execute(select(FreeRange).where(FreeRange.subnet_id == subnet)).all()
    widest = max(ranges, key=lambda row: int(row.last) - int(row.first))
    first = int(widest.first)
    assert first + count <= int(widest.last)
    same = (FreeRange.subnet_id == subnet) & (FreeRange.first == widest.first)
    conn.execute(delete(FreeRange).where(same))
    conn.execute(insert(FreeRange), {**widest._mapping, "first": key(first + count)})
    return (str(ip_address(first + position)) for position in range(count))


def _promise(conn: Connection, server: str, count: int) -> None:
    """Update sums kept outside the rows themselves: what the hosts have promised."""
    for held in conn.execute(select(Allocation.table).where(Allocation.consumer_id == server)).all():
        mine = Inventory.provider_id == held.provider_id, Inventory.resource_class == held.resource_class
        conn.execute(update(Inventory).where(*mine).values(used=Inventory.used + count * held.amount))
    host = conn.execute(select(Server.host).where(Server.id == server)).scalar_one()
    conn.execute(update(Provider).where(Provider.name == host).values(shares=Provider.shares + count))
