"""Which hosts OVN hears of: the tests are `ovn-northd` and all chassis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from attrs import evolve
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import deferLater

from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.ovn.chassis import Hearing
from tests.drivers.ovn.lab import SOUTHBOUND
from tests.drivers.ovn.ovsdb import Server, make_driver

SILENCE = 20.0


def update(table: str, where: list[Any], **row: Any) -> dict[str, Any]:
    return {"op": "update", "table": table, "where": where, "row": row}


class World:
    """The two databases, as they are when OVN is up."""

    def __init__(self, northbound: Server, southbound: Server) -> None:
        self.northbound = northbound
        self.southbound = southbound
        self.up = 0
        self.time = 0.0  # passes only here: however slow the machine is, nobody has been silent for too long
        northbound.transact({"op": "insert", "table": "NB_Global", "row": {}})
        southbound.transact({"op": "insert", "table": "SB_Global", "row": {}})

    def comes_up(self, name: str, hostname: str) -> None:
        self.up += 1
        encap = {"type": "geneve", "ip": f"192.0.2.{self.up}", "chassis_name": name}
        chassis = {"name": name, "hostname": hostname, "encaps": ["named-uuid", "encap"]}
        self.southbound.transact(
            {"op": "insert", "table": "Encap", "row": encap, "uuid-name": "encap"},
            {"op": "insert", "table": "Chassis", "row": chassis, "uuid-name": "chassis"},
            {"op": "insert", "table": "Chassis_Private", "row": {"name": name, "chassis": ["named-uuid", "chassis"]}},
        )

    async def silent(self, driver: Any, *answering: str) -> frozenset[str]:
        """What the driver says once the daemon has passed on what it asks; then these answer, and time passes."""
        from twisted.internet import reactor

        before, asking = self.asked(), ensureDeferred(driver.silent_hosts())
        while self.asked() == before:
            await deferLater(reactor, 0.01)
        self.southbound.transact(update("SB_Global", [], nb_cfg=self.asked()))
        said: frozenset[str] = await asking
        for name in answering:
            self.southbound.transact(update("Chassis_Private", [["name", "==", name]], nb_cfg=self.asked()))
        self.time += SILENCE
        return said

    def driver(self) -> Any:
        made = make_driver(
            self.northbound, southbound=[self.southbound.remote], silence_seconds=SILENCE, answer_timeout=60.0
        )
        made.southbound.database = evolve(made.southbound.database, copy=partial(Hearing, lambda: self.time))
        return made

    def asked(self) -> int:
        [row] = self.northbound.rows("NB_Global", "nb_cfg")
        return int(row["nb_cfg"])


@pytest.fixture
def world(northbound: Server, tmp_path: Path) -> Iterator[World]:
    southbound = Server(tmp_path, name="sb", schema=SOUTHBOUND)
    yield World(northbound, southbound)
    southbound.stop()
    northbound.transact({"op": "delete", "table": "NB_Global", "where": []})


@pytest_twisted.async_yield_fixture
async def driver(world: World) -> AsyncIterator[Any]:
    made = world.driver()
    yield made
    await made.close()


async def test_who_does_not_answer_in_time_is_silent_until_it_does(world: World, driver: Any) -> None:
    world.comes_up("east", "east.example.com")
    world.comes_up("west", "west.example.com")
    assert await world.silent(driver, "east") == frozenset(), "it was asked only now"
    assert await world.silent(driver, "west") == {"west", "west.example.com"}
    assert await world.silent(driver, "east", "west") == {"east", "east.example.com"}
    assert await world.silent(driver) == frozenset()


async def test_a_host_that_was_set_up_again_is_not_silent_by_the_name_that_it_had(world: World, driver: Any) -> None:
    world.comes_up("first", "east")
    world.comes_up("second", "east")
    await world.silent(driver, "second")
    assert await world.silent(driver, "second") == {"first"}


async def test_nobody_is_silent_while_nothing_is_passed_on(world: World) -> None:
    """We may be those who do not hear: a daemon is dead, or a database is."""
    world.comes_up("east", "east")
    driver = world.driver()
    try:
        await world.silent(driver)
        driver.southbound.config = evolve(driver.southbound.config, answer_timeout=1.0)
        with pytest.raises(Unreachable, match="southbound database did not answer"):
            await driver.silent_hosts()
        world.southbound.stop()
        with pytest.raises(Unreachable, match="southbound database did not answer"):
            await driver.silent_hosts()
    finally:
        await driver.close()


async def test_without_a_southbound_database_nobody_is(northbound: Server) -> None:
    driver = make_driver(northbound)
    assert await driver.silent_hosts() == frozenset()
    await driver.close()
