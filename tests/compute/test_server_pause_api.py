"""Pause and suspend, locks and the administrator's word. Reference: compute-states.md, sections 3 and 4.12."""

from __future__ import annotations

from typing import Any

import pytest
from zope.interface import classImplementsOnly, implementedBy

from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.interfaces import IPassword, IPause, IRescue, ISnapshot, ISuspend
from cloudctl.drivers.specs import Power
from tests.compute.asking import Asking, refusal
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def do(demo: Asking, server_id: str, action: str, body: Any = None) -> None:
    answer = demo.act(server_id, {action: body})
    assert answer.status == 202, answer
    demo.cloud.settle()


FROZEN = [
    ("pause", "unpause", "pausing", "unpausing", "PAUSED", 3, Power.PAUSED),
    ("suspend", "resume", "suspending", "resuming", "SUSPENDED", 4, Power.SUSPENDED),
]


@pytest.mark.parametrize(("freeze", "thaw", "freezing", "thawing", "status", "power", "seen"), FROZEN)
def test_a_server_is_frozen_and_goes_on(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor,
    freeze: str, thaw: str, freezing: str, thawing: str, status: str, power: int, seen: Power,
) -> None:  # fmt: skip
    assert demo.act(server_id, {freeze: None}).status == 202
    assert demo.server(server_id)["OS-EXT-STS:task_state"] == freezing
    assert demo.status(server_id) == "ACTIVE"
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:power_state"]) == (status, power)
    assert there(hypervisor.guests.get(server_id)).power is seen
    assert demo.act(server_id, {thaw: None}).status == 202
    assert (demo.status(server_id), demo.server(server_id)["OS-EXT-STS:task_state"]) == (status, thawing)
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:power_state"]) == ("ACTIVE", 1)
    assert there(hypervisor.guests.get(server_id)).power is Power.RUNNING
    actions = demo.get(f"/servers/{server_id}/os-instance-actions").json()["instanceActions"]
    assert [each["action"] for each in actions] == [thaw, freeze, "create"]


@pytest.mark.parametrize("action", ["unpause", "resume", "unrescue", "confirmResize", "revertResize"])
def test_what_did_not_happen_cannot_be_taken_back(demo: Asking, server_id: str, action: str) -> None:
    said = f"Cannot '{action}' instance {server_id} while it is in vm_state active"
    assert refusal(demo.act(server_id, {action: None})) == (409, "conflictingRequest", said)


@pytest.mark.parametrize("action", ["pause", "suspend", "rescue", "unpause"])
def test_a_server_that_is_off_cannot_be_frozen(demo: Asking, server_id: str, action: str) -> None:
    do(demo, server_id, "os-stop")
    if action != "rescue":
        assert refusal(demo.act(server_id, {action: None}))[0] == 409


def test_a_paused_server_is_started_by_a_hard_reboot(demo: Asking, server_id: str) -> None:
    do(demo, server_id, "pause")
    do(demo, server_id, "reboot", {"type": "HARD"})
    assert demo.status(server_id) == "ACTIVE"


@pytest.mark.parametrize(
    ("action", "method", "before", "status"),
    [("pause", "ensure_paused", None, "ACTIVE"), ("resume", "ensure_running", "suspend", "SUSPENDED")],
)
def test_a_failure_leaves_the_state(
    demo: Asking, server_id: str, hypervisor: FakeHypervisor,
    action: str, method: str, before: str | None, status: str,
) -> None:  # fmt: skip
    if before:
        do(demo, server_id, before)
    hypervisor.behaviour.fail(method, times=None, error=DriverError("it is broken"))
    do(demo, server_id, action)
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == (status, None)


def test_the_audit_leaves_a_suspended_server_alone(demo: Asking, server_id: str) -> None:
    do(demo, server_id, "suspend")
    demo.cloud.cloud.audit.run()
    demo.cloud.settle()
    found = demo.server(server_id)
    assert (found["status"], found["OS-EXT-STS:power_state"]) == ("SUSPENDED", 4)


LACKING = [
    ("pause", None, IPause),
    ("suspend", None, ISuspend),
    ("rescue", None, IRescue),
    ("createImage", {"name": "x"}, ISnapshot),
    ("changePassword", {"adminPass": "x"}, IPassword),
]


@pytest.mark.parametrize(("action", "body", "capability"), LACKING)
def test_what_the_driver_lacks_is_not_implemented_and_changes_nothing(
    demo: Asking, server_id: str, action: str, body: Any, capability: Any
) -> None:
    declared = tuple(implementedBy(FakeHypervisor))
    classImplementsOnly(FakeHypervisor, *(each for each in declared if each is not capability))
    try:
        assert refusal(demo.act(server_id, {action: body}))[:2] == (501, "notImplemented")
    finally:
        classImplementsOnly(FakeHypervisor, *declared)
    assert demo.server(server_id)["OS-EXT-STS:task_state"] is None


# -- locks


def test_a_locked_server_refuses_its_owner_and_not_the_administrator(
    demo: Asking, admin: Asking, server_id: str
) -> None:
    assert demo.act(server_id, {"lock": {"locked_reason": "mine"}}, "2.73").status == 202
    found = demo.server(server_id)
    assert (found["locked"], found["locked_reason"]) == (True, "mine")
    said = (409, "conflictingRequest", f"Instance {server_id} is locked")
    for action in ({"pause": None}, {"resize": {"flavorRef": "2"}}, {"os-stop": None}, {"rescue": None}):
        assert refusal(demo.act(server_id, action)) == said
    assert refusal(demo.delete(f"/servers/{server_id}")) == said
    assert admin.act(server_id, {"pause": None}).status == 202
    demo.cloud.settle()
    assert demo.act(server_id, {"unlock": None}).status == 202
    found = demo.server(server_id)
    assert (found["locked"], found["locked_reason"]) == (False, None)
    do(demo, server_id, "unpause")


def test_an_image_can_be_made_of_a_locked_server(demo: Asking, server_id: str) -> None:
    do(demo, server_id, "lock")
    do(demo, server_id, "createImage", {"name": "x"})


def test_a_second_lock_of_the_owner_changes_nothing(demo: Asking, server_id: str) -> None:
    demo.act(server_id, {"lock": {"locked_reason": "first"}}, "2.73")
    assert demo.act(server_id, {"lock": {"locked_reason": "second"}}, "2.73").status == 202
    assert demo.server(server_id)["locked_reason"] == "first"


def test_an_administrators_lock_is_the_administrators(demo: Asking, admin: Asking, server_id: str) -> None:
    assert admin.act(server_id, {"lock": None}).status == 202
    assert refusal(demo.act(server_id, {"unlock": None}))[:2] == (403, "forbidden")
    assert admin.act(server_id, {"unlock": None}).status == 202
    assert demo.server(server_id)["locked"] is False


def test_a_reason_came_with_2_73(demo: Asking, server_id: str) -> None:
    assert demo.act(server_id, {"lock": {"locked_reason": "x"}}, "2.72").status == 202
    assert demo.server(server_id)["locked_reason"] is None
    assert demo.act(server_id, {"lock": {"locked_reason": ""}}, "2.73").status == 400
    assert demo.act(server_id, {"lock": None}, "2.73").status == 202


@pytest.mark.parametrize(("state", "status"), [("error", "ERROR"), ("active", "ACTIVE")])
def test_an_administrator_declares_a_state(
    demo: Asking, admin: Asking, server_id: str, state: str, status: str
) -> None:
    body = {"os-resetState": {"state": state}}
    assert refusal(demo.act(server_id, body))[:2] == (403, "forbidden")
    assert admin.act(server_id, body).status == 202
    assert demo.status(server_id) == status
    assert refusal(admin.act(server_id, {"os-resetState": {"state": "paused"}}))[0] == 400


def test_a_hard_reboot_leads_out_of_error(demo: Asking, admin: Asking, server_id: str) -> None:
    admin.act(server_id, {"os-resetState": {"state": "error"}})
    do(demo, server_id, "reboot", {"type": "HARD"})
    assert demo.status(server_id) == "ACTIVE"


ACTIONS: list[dict[str, Any]] = [
    {"pause": None}, {"unpause": None}, {"suspend": None}, {"resume": None}, {"lock": None}, {"unlock": None},
    {"rescue": None}, {"unrescue": None}, {"createImage": {"name": "x"}}, {"changePassword": {"adminPass": "x"}},
    {"resize": {"flavorRef": "2"}}, {"confirmResize": None}, {"revertResize": None},
    {"rebuild": {"imageRef": "6f1d2c3b-0000-4000-8000-000000000000"}},
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: str(next(iter(action))))
def test_who_may_only_read_may_not_and_a_stranger_finds_nothing(
    demo: Asking, reader: Asking, stranger: Asking, server_id: str, action: dict[str, Any]
) -> None:
    assert refusal(reader.act(server_id, action))[:2] == (403, "forbidden")
    assert refusal(stranger.act(server_id, action))[:2] == (404, "itemNotFound")
