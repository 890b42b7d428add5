"""Scenarios of the workflows that recover from broken hosts, instances and processes."""

from __future__ import annotations

from typing import Any

from cloudctl.drivers.specs import Power
from tests.crash import asks
from tests.crash.asks import V21, good
from tests.crash.scenario import Scenario
from tests.crash.stage import Stage

HA = "/v1"
DEAD = "fake-1"


def ask(stage: Stage, method: str, path: str, body: Any = None) -> Any:
    headers = {"OpenStack-API-Version": "instance-ha latest"}
    return good(stage.admin.request(method, f"{HA}{path}", body, headers=headers, ha=True))


def member(stage: Stage) -> str:
    """The path of the host in its segment."""
    wanted = {"name": "rack", "recovery_method": "auto", "service_type": "COMPUTE"}
    segment = ask(stage, "POST", "/segments", {"segment": wanted})["segment"]["uuid"]
    host = {"name": DEAD, "type": "COMPUTE", "control_attributes": "SSH"}
    made = ask(stage, "POST", f"/segments/{segment}/hosts", {"host": host})["host"]["uuid"]
    return f"/segments/{segment}/hosts/{made}"


def report(stage: Stage, type: str, **payload: str) -> str:
    body = {"hostname": DEAD, "type": type, "payload": {"host_status": "NORMAL", **payload}}
    return str(ask(stage, "POST", "/notifications", body)["notification"]["notification_uuid"])


def guest_on_it(stage: Stage) -> str:
    """A server on the host that dies. Only one other host can take it: nothing is left to chance."""
    for name in ("fake-2", "fake-3"):
        good(stage.admin.put(f"{V21}/os-services/disable", {"host": name, "binary": "nova-compute"}))
    server_id = asks.running(stage, metadata={"HA_Enabled": "True"})
    good(stage.admin.put(f"{V21}/os-services/enable", {"host": "fake-2", "binary": "nova-compute"}))
    return server_id


def host_dies(stage: Stage) -> tuple[str, str]:
    member(stage)
    server_id = guest_on_it(stage)
    return server_id, report(stage, "COMPUTE_HOST", event="STOPPED")


def is_elsewhere(stage: Stage, told: tuple[str, str]) -> None:
    server_id, uuid = told
    found = ask(stage, "GET", f"/notifications/{uuid}")["notification"]
    assert found["status"] == "finished", found
    (move,) = ask(stage, "GET", f"/notifications/{uuid}/vmoves")["vmoves"]
    guest = asks.guest(stage, server_id)
    assert (move["status"], guest.spec.host) == ("succeeded", move["dest_host"]) and guest.spec.host != DEAD
    assert guest.power is Power.RUNNING and asks.used(stage) == 1
    assert asks.server(stage, server_id)["status"] == "ACTIVE"


def instance_dies(stage: Stage) -> tuple[str, str]:
    member(stage)
    server_id = guest_on_it(stage)
    return server_id, report(stage, "COMPUTE_INSTANCE", event="STOPPED", instance_uuid=server_id)


def runs(stage: Stage, told: tuple[str, str]) -> None:
    server_id, uuid = told
    assert ask(stage, "GET", f"/notifications/{uuid}")["notification"]["status"] == "finished"
    assert asks.guest(stage, server_id).power is Power.RUNNING and asks.used(stage) == 1


def process_dies(stage: Stage) -> str:
    member(stage)
    return report(stage, "COMPUTE_PROCESS", event="STOPPED")


def takes_no_servers(stage: Stage, uuid: str) -> None:
    assert ask(stage, "GET", f"/notifications/{uuid}")["notification"]["status"] == "finished"
    (host,) = (each for each in stage.hosts() if each.name == DEAD)
    assert not host.enabled and not host.forced_down


def host_returns(stage: Stage) -> None:
    path = member(stage)
    report(stage, "COMPUTE_HOST", event="STOPPED")
    stage.settle()
    ask(stage, "PUT", path, {"host": {"on_maintenance": False}})


def is_used_again(stage: Stage, _: None) -> None:
    (host,) = (each for each in stage.hosts() if each.name == DEAD)
    assert host.enabled and not host.forced_down and stage.drivers.fencer.fenced == set()


RECOVER = "instance_ha.notification.recover"
SCENARIOS = (
    Scenario(f"{RECOVER}_host", "", host_dies, is_elsewhere),
    Scenario(f"{RECOVER}_instance", "starts here", instance_dies, runs),
    Scenario(f"{RECOVER}_process", "", process_dies, takes_no_servers),
    Scenario("instance_ha.host.return", "", host_returns, is_used_again),
)
