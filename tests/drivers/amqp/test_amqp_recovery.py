"""From a message on a real RabbitMQ to guests that run elsewhere, whenever the process that hears it dies."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pika
import pytest
from attrs import define

from cloudctl.drivers.amqp.envelope import pack
from tests.drivers.amqp.conftest import AMQP
from tests.live.line import Line, no_line
from tests.live.load import good
from tests.live.process import LiveCloud
from tests.needed import need

pytestmark = pytest.mark.slow

Broker = tuple[str, int]
PATIENCE = 180.0
ASKED_FOR = "CLOUDCTL_TEST_CLUSTER_TROUBLE"
AWAY = 30.0  # seconds
KEY = "versioned_notifications.error"
TOML = """
[drivers]
bus = "amqp"
[driver.bus.amqp]
endpoint = "tcp:{host}:{port}"
exchange = "{name}"
queue = "{name}"
[driver.hypervisor.fake]
hosts = 4
[instance_ha]
cliff_share = 1.0
segment_share = 1.0
"""
OSLO = """
import sys
import oslo_messaging
from oslo_config import cfg
conf = cfg.ConfigOpts()
conf([])
oslo_messaging.set_transport_defaults(sys.argv[2])
transport = oslo_messaging.get_notification_transport(conf, url=sys.argv[1])
told = oslo_messaging.Notifier(
    transport, publisher_id="nova-compute:" + sys.argv[3], driver="messagingv2", topics=["versioned_notifications"])
told.error({}, "compute.host.error", {"nova_object.data": {"host": sys.argv[3], "forced_down": True}})
"""


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it never comes"
        time.sleep(0.1)


class Others:
    """Another's compute service, as far as the bus shows it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.name = broker, name

    @contextmanager
    def channel(self) -> Iterator[Any]:
        host, port = self.broker
        with closing(pika.BlockingConnection(pika.ConnectionParameters(host, port))) as connection:
            yield connection.channel()

    def tell(self, host: str, times: int = 1) -> None:
        """That it is down: the same message so often."""
        payload = {"nova_object.data": {"host": host, "forced_down": True}}
        body = {"message_id": uuid4().hex, "event_type": "compute.host.error", "priority": "ERROR", "payload": payload}
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        sent = pack(body | {"publisher_id": f"nova-compute:{host}", "timestamp": at})
        with self.channel() as channel:
            for _ in range(times):
                channel.basic_publish(self.name, KEY, sent, pika.BasicProperties(delivery_mode=2))

    def tell_by_oslo(self, host: str) -> None:
        """By oslo.messaging, where CLOUDCTL_TEST_OSLO is a Python that has it."""
        python = os.environ.get("CLOUDCTL_TEST_OSLO")
        if not python:
            self.tell(host)
            return
        url = f"rabbit://guest:guest@{self.broker[0]}:{self.broker[1]}/"
        subprocess.run([python, "-W", "ignore", "-c", OSLO, url, self.name, host], check=True, timeout=PATIENCE)

    @property
    def waiting(self) -> int:
        """How many messages nobody was given yet."""
        with self.channel() as channel:
            return int(channel.queue_declare(self.name, passive=True).method.message_count)

    @property
    def is_heard(self) -> bool:
        try:
            with self.channel() as channel:
                return int(channel.queue_declare(self.name, passive=True).method.consumer_count) > 0
        except pika.exceptions.ChannelClosedByBroker:
            return False


@contextmanager
def nobody_writes(cloud: LiveCloud) -> Iterator[None]:
    """What is heard meanwhile is not committed."""
    with closing(sqlite3.connect(cloud.state_dir / "cloudctl.sqlite", isolation_level=None, timeout=60)) as held:
        held.execute("BEGIN IMMEDIATE")
        yield
        held.execute("ROLLBACK")


@define(eq=False)
class Scene:
    """A cloud whose hosts are watched over, with one server."""

    cloud: LiveCloud
    server: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return good(self.cloud.ask(method, path, body, user="admin"))

    def reports(self) -> list[tuple[str, str]]:
        found = self.ask("GET", "/instance-ha/v1/notifications")["notifications"]
        return sorted((each["hostname"], each["status"]) for each in found)

    def inhabit(self) -> str:
        """The host of the server."""
        segment = {"name": "rack", "recovery_method": "auto", "service_type": "COMPUTE"}
        uuid = self.ask("POST", "/instance-ha/v1/segments", {"segment": segment})["segment"]["uuid"]
        for number in range(1, 5):
            host = {"name": f"fake-{number}", "type": "COMPUTE", "control_attributes": "SSH"}
            self.ask("POST", f"/instance-ha/v1/segments/{uuid}/hosts", {"host": host})
        image = self.ask("GET", "/image/v2/images?name=tiny")["images"][0]["id"]
        network = self.ask("GET", "/networking/v2.0/networks?name=private")["networks"][0]["id"]
        wanted = {"name": "vm", "flavorRef": "1", "imageRef": image, "networks": [{"uuid": network}]}
        self.server = self.ask("POST", "/compute/v2.1/servers", {"server": wanted})["server"]["id"]
        until(lambda: self.place()[0] == "ACTIVE")
        return self.place()[1]

    def place(self) -> tuple[str, str]:
        found = self.ask("GET", f"/compute/v2.1/servers/{self.server}")["server"]
        return found["status"], found["OS-EXT-SRV-ATTR:host"]


@pytest.fixture
def name() -> str:
    """Of exchange and queue."""
    return f"test-{uuid4().hex[:8]}"


@contextmanager
def played(directory: Path, toml: str) -> Iterator[LiveCloud]:
    cloud = LiveCloud(directory, toml)
    try:
        yield cloud
    except BaseException:
        sys.stderr.write(cloud.log.read_text()[-4000:])
        raise
    finally:
        cloud.kill()


def test_a_message_is_recovered_from_once_whatever_dies(broker: Broker, tmp_path: Path, name: str) -> None:
    others = Others(broker, name)
    with played(tmp_path, TOML.format(host=broker[0], port=broker[1], name=name)) as cloud:
        cloud.start()
        until(lambda: others.is_heard)
        scene = Scene(cloud)
        first = scene.inhabit()
        reports, place = scene.reports, scene.place
        second, third = [f"fake-{number}" for number in range(1, 5) if f"fake-{number}" != first][:2]
        with nobody_writes(cloud):
            others.tell_by_oslo(first)
            until(lambda: others.waiting == 0)  # it has come, and nothing of it can be committed
            cloud.kill()
        others.tell(second, times=2)
        cloud.start()
        until(lambda: reports() == sorted([(first, "finished"), (second, "finished")]))
        assert place()[0] == "ACTIVE" and place()[1] not in (first, second)
        others.tell(third, times=3)
        until(lambda: (third, "running") in reports() or (third, "finished") in reports())
        cloud.kill()
        cloud.start()
        until(lambda: (third, "finished") in reports())
        until(lambda: others.waiting == 0)
        assert len(reports()) == 3
        assert place()[0] == "ACTIVE" and place()[1] not in (first, second, third)


@pytest.fixture
def line(broker: Broker) -> Iterator[Line]:
    if not os.environ.get(ASKED_FOR):
        pytest.skip(f"it waits for half a minute: {ASKED_FOR} runs it")
    need(no_line(), AMQP)
    made = Line(f"{broker[0]}:{broker[1]}")
    made.mend()
    yield made
    made.cut()


def test_what_is_told_while_the_broker_is_away_is_recovered_from_afterwards(
    broker: Broker, line: Line, tmp_path: Path, name: str
) -> None:
    others = Others(broker, name)
    with played(tmp_path, TOML.format(host="127.0.0.1", port=line.port, name=name)) as cloud:
        cloud.start()
        until(lambda: others.is_heard)
        scene = Scene(cloud)
        host = scene.inhabit()
        line.cut()
        until(lambda: not others.is_heard)
        others.tell(host, times=2)
        time.sleep(AWAY)
        assert scene.reports() == [] and others.waiting == 2
        line.mend()
        until(lambda: scene.reports() == [(host, "finished")] and others.waiting == 0)
        assert scene.place()[0] == "ACTIVE" and scene.place()[1] != host
