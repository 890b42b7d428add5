"""What labels have counted is on the page for Prometheus, and one that fails does not take the page with it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define
from twisted.internet.defer import ensureDeferred

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.network_specs import Metered
from cloudctl.network.metered import FRESH_SECONDS, Meters
from cloudctl.rest.metrics import Metrics
from cloudctl.testing.cloud import MemoryCloud
from tests.network.conftest import Neutron


@pytest.fixture
def metrics(neutron: Neutron) -> Metrics:
    found = Metrics()
    found.ask(Meters(neutron.db, neutron.driver, neutron.clock).look)
    return found


def page(metrics: Metrics) -> list[str]:
    """The lines about meters."""
    results: list[Any] = []
    ensureDeferred(metrics.page()).addBoth(results.append)
    ((text, _),) = results
    return [line for line in text.decode().splitlines() if line.startswith("cloudctl_metering")]


def label(neutron: Neutron, **fields: Any) -> str:
    """The id of one that counts everything that goes out."""
    made = neutron.expect(201, "POST", "/metering/metering-labels", {"metering_label": fields}, "admin")
    id = str(made["metering_label"]["id"])
    rule = {"metering_label_id": id, "direction": "egress", "remote_ip_prefix": "0.0.0.0/0"}
    neutron.expect(201, "POST", "/metering/metering-label-rules", {"metering_label_rule": rule}, "admin")
    return id


def test_each_label_and_router_has_its_numbers(neutron: Neutron, metrics: Metrics) -> None:
    assert page(metrics) == ["cloudctl_metering_up 1.0"]
    outside = neutron.external()
    mine, other = neutron.router(external=outside), neutron.router(user="other", external=outside)
    own, everybodys = label(neutron, name="own", project_id="demo"), label(neutron, name='a"b', shared=True)
    neutron.settle()
    neutron.driver.counted = {
        (mine["id"], own): (3, 300),
        (mine["id"], everybodys): (4, 400),
        (other["id"], everybodys): (5, 500),
    }
    neutron.clock.advance(FRESH_SECONDS)

    def lines(packets: int, size: int, id: str, name: str, router: Any) -> set[str]:
        words = f'{{label="{name}",label_id="{id}",project_id="{router["project_id"]}",router_id="{router["id"]}"}}'
        return {f"cloudctl_metering_packets_total{words} {packets}.0", f"cloudctl_metering_bytes_total{words} {size}.0"}

    name = 'a\\"b'
    assert set(page(metrics)) == {"cloudctl_metering_up 1.0"} | lines(3, 300, own, "own", mine) | lines(
        4, 400, everybodys, name, mine
    ) | lines(5, 500, everybodys, name, other)
    neutron.expect(204, "DELETE", f"/metering/metering-labels/{everybodys}", user="admin")
    # The router has not been told yet, but there is no such label any more.
    assert set(page(metrics)) == {"cloudctl_metering_up 1.0"} | lines(3, 300, own, "own", mine)


@define
class Breaking:
    """A driver that can tell once, and never again."""

    asked: int = 0

    async def metered(self) -> tuple[Metered, ...]:
        self.asked += 1
        if self.asked > 1:
            raise DriverError("it is broken")
        return ()


def test_a_driver_is_asked_once_in_a_while(neutron: Neutron) -> None:
    driver: Any = Breaking()
    metrics = Metrics()
    metrics.ask(Meters(neutron.db, driver, neutron.clock).look)
    assert page(metrics) == page(metrics) == ["cloudctl_metering_up 1.0"]
    assert driver.asked == 1
    neutron.clock.advance(FRESH_SECONDS)
    assert page(metrics) == ["cloudctl_metering_up 0.0"]
    assert driver.asked == 2


def test_a_cloud_shows_them_to_whoever_scrapes() -> None:
    assert "cloudctl_metering_up 1.0" in MemoryCloud().client("admin").get("/metrics").body.decode()
