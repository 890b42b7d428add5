"""The northbound database over TLS: it and the driver know each other, or nothing is told."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from attrs import evolve
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent

from cloudctl.drivers.boundary import call
from cloudctl.drivers.errors import Unreachable, Unusable
from cloudctl.drivers.specs import NetworkSpec
from tests.drivers.ovn.certificates import Authority
from tests.drivers.ovn.ovsdb import Server, lacking, make_driver
from tests.live.process import free_port
from tests.needed import HOST, need


@pytest.fixture(scope="module")
def authority() -> Iterator[Authority]:
    with tempfile.TemporaryDirectory(prefix="cc-") as directory:
        yield Authority(Path(directory))


@pytest.fixture(scope="module")
def remote(authority: Authority) -> Iterator[str]:
    """Of a server that takes clients of this authority only."""
    need(lacking(), HOST)
    key, certificate = authority.signed("server")
    files = (f"--private-key={key}", f"--certificate={certificate}", f"--ca-cert={authority.certificate}")
    port = free_port()
    server = Server(authority.directory, f"--remote=pssl:{port}:127.0.0.1", *files)
    yield f"ssl:127.0.0.1:{port}"
    server.stop()


@pytest_twisted.async_yield_fixture
async def driver(authority: Authority, remote: str) -> AsyncIterator[Any]:
    made = tls_driver(authority, remote, authority)
    await made.check()
    yield made
    await made.close()


def tls_driver(authority: Authority, remote: str, signer: Authority, **options: Any) -> Any:
    key, certificate = signer.signed("client")
    files = {"private_key": key, "certificate": certificate, "ca_certificate": authority.certificate}
    return make_driver(None, northbound=[remote], **files, **options)


async def test_many_rows_come_over_tls(driver: Any) -> None:
    """More than fits into one record: what TLS has read already, no socket tells of."""
    names = [f"network-{number:03d}" for number in range(200)]
    await gatherResults([call(driver.ensure_network, NetworkSpec(name, "x" * 500)) for name in names])
    assert (await driver.inventory()).networks == tuple(names)
    other = make_driver(None, **{name: getattr(driver.config, name) for name in TLS})
    try:
        assert (await other.inventory()).networks == tuple(names)
    finally:
        await other.close()


async def test_files_that_are_not_what_they_should_be_are_told_before_the_start(tmp_path: Path) -> None:
    """Each try to connect would fail with a traceback, once a second."""
    mine = Authority(tmp_path / "mine")
    (key, certificate), (other, _) = mine.signed("client"), mine.signed("other")
    right = {"private_key": key, "certificate": certificate, "ca_certificate": mine.certificate}
    for wrong, told in (
        ({"private_key": certificate}, f"{certificate} is not the key of {certificate}"),
        ({"private_key": other}, f"{other} is not the key of {certificate}"),
        ({"certificate": key}, f"{key} is not a certificate"),
        ({"ca_certificate": key}, f"{key} is not a certificate"),
        ({"ca_certificate": tmp_path}, f"Is a directory: '{tmp_path}'"),
    ):
        driver = make_driver(None, northbound=["ssl:192.0.2.1:6641"], **{**right, **wrong})
        with pytest.raises(Unusable, match=re.escape(told)):
            await driver.check()


TLS = ("northbound", "private_key", "certificate", "ca_certificate")


async def refusal(driver: Any, reactor: Any) -> str:
    """What callers are told once a connection has failed."""
    asking = ensureDeferred(driver.inventory())
    while not driver.connection._why:
        await deferLater(reactor, 0.01)
    driver.connection.config = evolve(driver.connection.config, answer_timeout=0.01)
    with pytest.raises(Unreachable) as told:
        await driver.inventory()
    await driver.close()
    with pytest.raises(Unreachable):
        await asking
    return str(told.value)


async def test_a_client_of_another_authority_is_told_nothing(authority: Authority, remote: str, reactor: Any) -> None:
    stranger = Authority(authority.directory / "other")
    told = await refusal(tls_driver(authority, remote, stranger, answer_timeout=60.0), reactor)
    assert "did not answer within 0.01 s: it does not accept our certificate: " in told


async def test_a_server_of_another_authority_is_not_believed(authority: Authority, remote: str, reactor: Any) -> None:
    stranger = Authority(authority.directory / "third")
    told = await refusal(tls_driver(stranger, remote, authority, answer_timeout=60.0), reactor)
    assert "did not answer within 0.01 s: its certificate is not trusted: " in told


class Plain(Protocol):
    def connectionMade(self) -> None:
        self.transport.write(b"no TLS here")  # type: ignore[union-attr]  # there is one


async def test_who_does_not_answer_is_told_of_with_the_reason(authority: Authority, reactor: Any) -> None:
    """A port where nobody listens and a certificate that is not trusted read alike."""
    plain = reactor.listenTCP(0, Factory.forProtocol(Plain), interface="127.0.0.1")
    reasons = {free_port(): "Connection refused", plain.getHost().port: "TLS fails: wrong version number"}
    for port, why in reasons.items():
        remote = f"ssl:127.0.0.1:{port}"
        with capturedLogs() as lines:
            told = await refusal(tls_driver(authority, remote, authority, answer_timeout=60.0), reactor)
        logged = [formatEvent(each) for each in lines if each["log_namespace"] == "cloudctl.drivers.ovn.connection"]
        assert told == f"the northbound database did not answer within 0.01 s: {why}"
        assert logged == [f"the northbound database at {remote} does not answer: {why}"]
    await plain.stopListening()
