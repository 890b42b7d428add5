"""What QEMU is told by its monitor when a migration broke off, with a QEMU that is played."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import define, field

from cloudctl.drivers.errors import DriverError
from tests.drivers.libvirt import daemon
from tests.needed import HOST, need

ID = "6f1c0f5e-0000-4000-8000-0000000000aa"


@define
class Played:
    """A guest, its host, and its QEMU."""

    power: int
    migration: str
    said: list[tuple[str, dict[str, Any]]] = field(factory=list)

    def lookupByName(self, _id: str) -> Played:
        return self

    def state(self) -> list[int]:
        return [self.power, 0]

    def command(self, _guest: object, text: str, _flags: int) -> str:
        asked = json.loads(text)
        self.said.append((asked["execute"], asked.get("arguments", {})))
        if asked["execute"] == "blockdev-del":
            return json.dumps({"error": {"desc": "Node is in use"}})
        return json.dumps({"return": [] if "block" in asked["execute"] else {"status": self.migration}})


@pytest.fixture
def mishaps() -> Any:
    need(daemon.lacking(), HOST)
    from cloudctl.drivers.libvirt import mishaps

    return mishaps


def played(monkeypatch: pytest.MonkeyPatch, power: str, migration: str) -> Played:
    import libvirt
    import libvirt_qemu

    made = Played(getattr(libvirt, f"VIR_DOMAIN_{power}"), migration)
    monkeypatch.setattr(libvirt_qemu, "qemuMonitorCommand", made.command)
    return made


@pytest.mark.parametrize(
    ("power", "migration", "released"),
    [("PAUSED", "cancelling", True), ("PAUSED", "pre-switchover", False), ("RUNNING", "cancelling", False)],
)
def test_only_who_waits_for_ever_to_give_up_is_let_go(
    mishaps: Any, monkeypatch: pytest.MonkeyPatch, power: str, migration: str, released: bool
) -> None:
    guest = played(monkeypatch, power, migration)
    mishaps.release(guest, ID)
    assert (("migrate-continue", {"state": "cancelling"}) in guest.said) is released


def test_a_migration_that_is_cancelled_between_two_words_is_no_failure(
    mishaps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = played(monkeypatch, "PAUSED", "cancelling")
    answer = guest.command
    refusal = json.dumps({"error": {"desc": "Migration not in expected state: 8"}})
    monkeypatch.setattr(
        "libvirt_qemu.qemuMonitorCommand",
        lambda found, text, flags: refusal if "migrate-continue" in text else answer(found, text, flags),
    )
    mishaps.release(guest, ID)
    assert guest.said == [("query-migrate", {})]


def test_what_qemu_refuses_is_told_in_its_words(mishaps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = played(monkeypatch, "RUNNING", "")
    answer = guest.command
    nodes = json.dumps({"return": [{"node-name": "migration-vda-storage"}, {"node-name": "libvirt-1-format"}]})
    monkeypatch.setattr(
        "libvirt_qemu.qemuMonitorCommand",
        lambda found, text, flags: nodes if "named" in text else answer(found, text, flags),
    )
    with pytest.raises(DriverError, match="QEMU refuses blockdev-del: Node is in use"):
        mishaps.clear(guest)
    assert guest.said == [("blockdev-del", {"node-name": "migration-vda-storage"})]
