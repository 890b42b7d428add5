"""The northbound database over TLS: it and the driver know each other, or nothing is told."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import gatherResults

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


async def test_a_client_of_another_authority_is_told_nothing(authority: Authority, remote: str) -> None:
    stranger = Authority(authority.directory / "other")
    driver = tls_driver(authority, remote, stranger, answer_timeout=1.0)
    try:
        with pytest.raises(Unreachable):
            await driver.inventory()
    finally:
        await driver.close()


async def test_a_server_of_another_authority_is_not_believed(authority: Authority, remote: str) -> None:
    stranger = Authority(authority.directory / "third")
    driver = tls_driver(stranger, remote, authority, answer_timeout=1.0)
    try:
        with pytest.raises(Unreachable):
            await driver.ensure_network(NetworkSpec("secret"))
    finally:
        await driver.close()
