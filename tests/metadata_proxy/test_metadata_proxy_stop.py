"""The proxy of a host whose southbound database does not answer is stopped all the same."""

from __future__ import annotations

from typing import Any

from treq.client import HTTPClient
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.web.client import Agent

from cloudctl.drivers.ovn.connection import Connection, Database
from cloudctl.drivers.ovn.options import Config
from cloudctl.metadata_proxy.forwarding import Upstream
from cloudctl.metadata_proxy.proxy import MetadataProxy
from cloudctl.metadata_proxy.southbound import Bindings


async def test_a_stop_waits_for_no_answer_of_the_database(reactor: Any) -> None:
    silent = reactor.listenTCP(0, Factory.forProtocol(Protocol), interface="127.0.0.1")
    config = Config(southbound=[f"tcp:127.0.0.1:{silent.getHost().port}"])
    database = Database("southbound database", "OVN_Southbound", config.southbound, Bindings)
    upstream = Upstream(HTTPClient(Agent(reactor)), reactor, ["http://127.0.0.1:9"], "secret")
    # A clock that stands still: an answer is never given up.
    proxy = MetadataProxy(config, reactor, Connection(database, config, reactor, Clock()), upstream)
    proxy.chassis = "here"
    with capturedLogs() as lines:
        proxy.startService()
        await proxy.stopService().addTimeout(60.0, reactor)
    assert [each for each in lines if each["log_namespace"] == "cloudctl.metadata_proxy.proxy"] == []
    await silent.stopListening()
