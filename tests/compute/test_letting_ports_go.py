"""A server lets its ports go while others delete them, on a database where transactions really run at once."""

from __future__ import annotations

from sqlalchemy import insert

from cloudctl.compute import networking
from cloudctl.compute.tables import ServerInterface
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.network import ports, quotas
from cloudctl.network.networks import NewNetwork, create
from cloudctl.network.options import NetworkOptions
from cloudctl.network.ports import NewPort
from cloudctl.tasks import Unasked
from tests.meanwhile import opened, others

NOW = utc(1_800_000_000)
BY = Unasked("p")


def test_ports_are_locked_before_the_turn_of_the_project(postgresql_with_tables: str) -> None:
    def prepare(conn: Connection) -> list[str]:
        network = create(conn, "p", NewNetwork(), NOW, NetworkOptions(), BY)
        made = [ports.create(conn, "p", NewPort(network), NOW, BY).id for _ in range(2)]
        for position, port_id in enumerate(made):
            conn.execute(insert(ServerInterface.table).values(port_id=port_id, server_id="s", position=position))
        return made

    begun: list[str] = []

    def let_go(conn: Connection) -> None:
        begun.append("server")
        networking.let_all_go(conn, "s", NOW, BY)

    with opened(postgresql_with_tables) as db, others(postgresql_with_tables) as at_once:
        _, last = db.transact(False, prepare)

        def delete(conn: Connection) -> None:
            begun.append("port")
            ports.get(conn, last, lock=True)
            if begun == ["port"]:
                at_once.begin(let_go)
            quotas.gives_back(conn, "p")

        db.transact(False, delete)
        assert at_once.results == [None]

    assert begun == ["port", "server"]  # neither was repeated after a deadlock
