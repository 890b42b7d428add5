"""Guests that are gone, or whose host is, while they are to be moved with their disks."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.errors import Unreachable
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.drivers.specs import Power
from tests.compute.asking import Asking
from tests.there import there


@pytest.fixture
def server_id(demo: Asking) -> str:
    return demo.boot()


def host_of(admin: Asking, server_id: str) -> str:
    return str(admin.server(server_id)["OS-EXT-SRV-ATTR:host"])


def used(admin: Asking) -> int:
    """vCPUs that are promised on all hosts."""
    return sum(each["vcpus_used"] for each in admin.get("/os-hypervisors/detail").json()["hypervisors"])


@pytest.mark.parametrize("action", [{"migrate": None}, {"resize": {"flavorRef": "2"}}])
def test_a_guest_that_has_vanished_is_not_made_anew(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor, action: Any
) -> None:
    """It ran from an empty disk, and its server was active as if nothing had been lost."""
    before, host = used(admin), host_of(admin, server_id)
    hypervisor.guests.delete(server_id)
    assert admin.act(server_id, action).status == 202
    admin.cloud.settle()
    found = admin.server(server_id)
    assert (found["status"], found["OS-EXT-STS:task_state"]) == ("ERROR", None)
    assert server_id in found["fault"]["message"]
    assert (hypervisor.guests.get(server_id), host_of(admin, server_id), used(admin)) == (None, host, before)


def test_a_guest_is_not_made_anew_where_it_goes_when_its_host_dies_on_the_way(
    admin: Asking, server_id: str, hypervisor: FakeHypervisor
) -> None:
    """Its disk is where it was: the server is put back there once that host answers."""
    host, made = host_of(admin, server_id), there(hypervisor.guests.get(server_id))
    hypervisor.behaviour.fail("ensure_defined", times=1, error=Unreachable("the way is cut"))
    assert admin.act(server_id, {"migrate": None}).status == 202
    admin.cloud.advance(0.1)
    assert hypervisor.behaviour.calls["ensure_defined"] == 2, "of the boot, and the one that failed"
    hypervisor.fail_host(host)
    admin.cloud.advance(20)
    assert there(hypervisor.guests.get(server_id)).spec.host == host
    hypervisor.recover_host(host)
    admin.cloud.settle()
    found = there(hypervisor.guests.get(server_id))
    assert (admin.status(server_id), host_of(admin, server_id), found.spec.host) == ("ACTIVE", host, host)
    assert found.power is Power.RUNNING and found.log.startswith(made.log)
