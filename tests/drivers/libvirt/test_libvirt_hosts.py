"""Hosts that hang, die and return, with a real libvirtd: what is asked of others goes on meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from twisted.logger import capturedLogs, formatEvent

from cloudctl.drivers.errors import DriverError, HostDown, Unfit, Unreachable
from cloudctl.drivers.specs import DriverResources, ImageSource, Power
from cloudctl.testing.hypervisor_suite import Reader
from tests.drivers.libvirt.daemon import Libvirtd
from tests.drivers.qemu import counting_guest, real
from tests.drivers.qemu.real import ID


@pytest.fixture
def driver(libvirtd: Libvirtd, tmp_path: Path) -> Iterator[Any]:
    """Two names of one libvirtd, as two hosts, one of which can be cut off by `dead`."""
    from twisted.internet import reactor

    from cloudctl.drivers.libvirt.hypervisor import Config, create

    config = Config(
        hosts={"here": libvirtd.uri, "there": f"qemu+unix:///system?socket={tmp_path / 'nobody'}"},
        accelerator="tcg",
        directory=str(tmp_path / "disks"),
        pool=tmp_path.name,
        slots=2,
        open_timeout=60.0,
        answer_timeout=30.0,
        retry_seconds=0.2,
        keepalive_seconds=1,
    )
    yield create(config, DriverResources(reactor, "libvirt", reactor, tmp_path))
    libvirtd.empty()


async def test_a_host_whose_pool_is_in_another_directory_is_down_and_says_why(driver: Any, tmp_path: Path) -> None:
    """Disks were made in the pool, and guests looked for them in the directory."""
    from cloudctl.drivers.libvirt.hypervisor import create

    await driver.hosts()
    elsewhere = evolve(
        driver.config, hosts={"here": driver.config.hosts["here"]}, directory=str(tmp_path / "elsewhere")
    )
    other = create(elsewhere, driver.resources)
    with capturedLogs() as lines:
        assert [each.up for each in await other.hosts()] == [False]
    pool = f"the storage pool {tmp_path.name} is in {tmp_path}/disks, and directory says {tmp_path}/elsewhere"
    assert f"host here counts as down: {pool}" in [formatEvent(each) for each in lines]
    with pytest.raises(DriverError, match=pool):
        await other.ensure_defined(evolve(real.tiny(tmp_path), host="here"))
    await other.close()


async def test_a_root_disk_that_is_missing_is_not_made_anew(driver: Any, tmp_path: Path) -> None:
    """The directory of the disks may not be mounted yet: the guest started from an empty disk."""
    spec = evolve(real.tiny(tmp_path), host="here")
    await driver.ensure_defined(spec)
    root = Path(driver.config.directory, f"{ID}.root")
    hidden = root.rename(tmp_path / "hidden")
    with pytest.raises(Unfit, match=rf"the root disk of guest {ID}, {root}, is missing"):
        await driver.ensure_defined(spec)
    assert not root.exists()
    hidden.rename(root)
    await driver.ensure_defined(spec)


async def test_a_host_that_is_down_is_shown_as_such_and_holds_nobody_else(driver: Any, tmp_path: Path) -> None:
    here, there = await driver.hosts()
    assert (here.name, here.up, there.name, there.up) == ("here", True, "there", False)
    spec = evolve(real.tiny(tmp_path), host="here")
    await driver.ensure_defined(spec)
    with pytest.raises(HostDown):
        await driver.ensure_defined(evolve(spec, id="other", host="there"))
    assert [each.id for each in await driver.inventory()] == [ID]
    # It may be on the host that never answered.
    with pytest.raises(HostDown):
        await driver.observe("other")
    with pytest.raises(HostDown):
        await driver.ensure_absent("other")
    await driver.ensure_absent(ID)
    assert await driver.inventory() == ()
    await driver.close()


async def test_a_console_is_read_without_a_gap_until_its_host_is_lost(
    driver: Any, libvirtd: Libvirtd, tmp_path: Path
) -> None:
    image = tmp_path / "counting"
    image.write_bytes(counting_guest.disk())
    source = ImageSource("counting", str(image), "raw")
    spec = evolve(real.tiny(tmp_path, memory_mib=counting_guest.MEMORY_MIB, image=source), host="here")
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    reader = Reader()
    await driver.open_serial(ID, reader)
    await reader.told(100)
    _half, *found, _rest = reader.heard.split()
    counted = [int(each, 16) for each in found]
    assert counted == list(range(counted[0], counted[0] + len(counted))) and len(counted) > 3
    libvirtd.freeze()
    try:
        await reader.gone
    finally:
        libvirtd.thaw()
    again = Reader()
    assert await real.soon(lambda: _is_open(driver, again)), "it is had again, by force"
    await again.told(20)
    again.transport.loseConnection()
    await again.gone
    await driver.ensure_absent(ID)
    await driver.close()


async def _is_open(driver: Any, reader: Reader) -> bool:
    try:
        await driver.open_serial(ID, reader)
    except (HostDown, Unreachable):
        return False
    return True


async def test_a_daemon_that_is_stopped_is_missed_and_found_again(
    driver: Any, libvirtd: Libvirtd, tmp_path: Path
) -> None:
    spec = evolve(real.tiny(tmp_path), host="here")
    await driver.ensure_defined(spec)
    await driver.ensure_running(ID)
    for host in driver.fleet.hosts.values():
        host.connection.config = evolve(host.connection.config, open_timeout=2.0)
    libvirtd.freeze()
    try:
        # The first call ends when keepalive has missed it; others at once, or when `open` was given up.
        for _ in range(2):
            with pytest.raises((HostDown, Unreachable)):
                await driver.ensure_running(ID)
        here, _there = await driver.hosts()
        # It is known by what it had.
        assert not here.up
    finally:
        libvirtd.thaw()

    async def is_back() -> bool:
        try:
            return bool((await driver.observe(ID)).power is Power.RUNNING)
        except (HostDown, Unreachable):
            return False

    assert await real.soon(is_back)
    await driver.close()


async def test_a_guest_that_goes_off_by_itself_is_told(driver: Any, tmp_path: Path) -> None:
    told: list[str] = []
    await driver.watch_guests(told.append)
    await driver.ensure_defined(evolve(real.tiny(tmp_path), host="here"))
    await driver.ensure_running(ID)
    await real.soon(lambda: told)
    told.clear()
    host = driver.fleet.hosts["here"]
    # Behind the driver's back.
    await host.connection.run(lambda connection: connection.lookupByName(ID).destroy())
    assert await real.soon(lambda: told) and set(told) == {ID}
    assert (await driver.observe(ID)).power is Power.STOPPED
    await driver.close()


async def test_a_guest_that_went_off_while_its_daemon_was_away_is_told(
    driver: Any, libvirtd: Libvirtd, tmp_path: Path
) -> None:
    """As after a power cut of its host: no event of it is received."""
    told: list[str] = []
    await driver.watch_guests(told.append)
    await driver.ensure_defined(evolve(real.tiny(tmp_path), host="here"))
    await driver.ensure_running(ID)
    await real.soon(lambda: told)
    connection = driver.fleet.hosts["here"].connection
    libvirtd.kill("libvirtd")
    libvirtd.kill_guest(ID)
    assert await real.soon(lambda: not connection.is_open)
    told.clear()
    assert await real.soon(lambda: told) and set(told) == {ID}
    assert (await driver.observe(ID)).power in (Power.STOPPED, Power.CRASHED)
    await driver.close()


def test_what_listens_and_says_nothing_is_given_up_in_time(tmp_path: Path) -> None:
    pytest.importorskip("libvirt")
    from cloudctl.drivers.libvirt.connections import shake_hands

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "control")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    certificate = made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    for file in ("cacert.pem", "clientcert.pem"):
        (tmp_path / file).write_bytes(certificate)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "clientkey.pem").write_bytes(secret)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match="timed out"):
            shake_hands(f"qemu+tls://127.0.0.1:{port}/system?pkipath={tmp_path}", 0.2)
    with pytest.raises(OSError, match="refused"):
        shake_hands(f"qemu+tls://127.0.0.1:{port}/system?pkipath={tmp_path}", 0.2)
    # Nothing can be known of others.
    shake_hands("qemu:///system", 0.2)
