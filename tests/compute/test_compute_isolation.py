"""What belongs to another project is not there, by whatever path one asks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compute.asking import LATEST, Asking, refusal

CALLS: list[tuple[str, str, Any]] = [
    ("get", "", None),
    ("put", "", {"server": {"name": "x"}}),
    ("delete", "", None),
    ("post", "/action", {"os-stop": None}),
    ("post", "/action", {"os-start": None}),
    ("post", "/action", {"reboot": {"type": "HARD"}}),
    ("post", "/action", {"os-getConsoleOutput": {}}),
    ("get", "/metadata", None),
    ("post", "/metadata", {"metadata": {"a": "b"}}),
    ("put", "/metadata", {"metadata": {"a": "b"}}),
    ("get", "/metadata/key", None),
    ("put", "/metadata/key", {"meta": {"key": "b"}}),
    ("delete", "/metadata/key", None),
    ("get", "/ips", None),
    ("get", "/ips/private", None),
    ("get", "/tags", None),
    ("put", "/tags", {"tags": []}),
    ("delete", "/tags", None),
    ("get", "/tags/a", None),
    ("put", "/tags/a", None),
    ("delete", "/tags/a", None),
    ("get", "/os-instance-actions", None),
    ("get", "/os-instance-actions/req-1", None),
    ("get", "/os-interface", None),
    ("get", "/os-interface/p", None),
    ("post", "/os-interface", {"interfaceAttachment": {}}),
    ("delete", "/os-interface/p", None),
    ("get", "/os-volume_attachments", None),
    ("get", "/os-volume_attachments/v", None),
    ("delete", "/os-volume_attachments/v", None),
    ("post", "/os-volume_attachments", {"volumeAttachment": {"volumeId": "11111111-1111-4111-8111-111111111111"}}),
]


def test_a_strangers_server_is_not_there(demo: Asking, stranger: Asking) -> None:
    server_id = demo.boot(metadata={"key": "value"})
    before = demo.server(server_id)
    for method, path, body in CALLS:
        ask = getattr(stranger, method)
        arguments = (body,) if method in ("post", "put") else ()
        answer = ask(f"/servers/{server_id}{path}", *arguments, version=LATEST)
        assert refusal(answer) == (404, "itemNotFound", f"Instance {server_id} could not be found."), (method, path)
    assert demo.server(server_id) == before
    assert stranger.names() == []
    assert stranger.names(f"?uuid={server_id}&project_id={before['tenant_id']}&tenant_id={before['tenant_id']}") == []
    assert refusal(stranger.get(f"/servers?marker={server_id}"))[2] == f"marker [{server_id}] not found"
    assert stranger.get("/limits").json()["limits"]["absolute"]["totalInstancesUsed"] == 0


def test_a_strangers_group_network_and_port_are_not_there(demo: Asking, stranger: Asking) -> None:
    group = demo.post("/os-server-groups", {"server_group": {"name": "g", "policies": ["affinity"]}}).json()
    group_id = group["server_group"]["id"]
    assert stranger.get(f"/os-server-groups/{group_id}").status == 404
    assert stranger.delete(f"/os-server-groups/{group_id}").status == 404
    assert stranger.get("/os-server-groups?all_projects=1").json() == {"server_groups": []}
    body = {"name": "x", "flavorRef": "1", "imageRef": stranger.image, "networks": "none"}
    hinted = stranger.post("/servers", {"server": body, "os:scheduler_hints": {"group": group_id}}, LATEST)
    assert hinted.status == 400
    network = demo.network
    port = demo.client.post("/networking/v2.0/ports", {"port": {"network_id": network}}).json()["port"]["id"]
    for networks in ([{"uuid": network}], [{"port": port}]):
        assert stranger.post("/servers", {"server": {**body, "networks": networks}}, LATEST).status == 400


def test_an_administrator_sees_and_changes_every_server(demo: Asking, admin: Asking) -> None:
    server_id = demo.boot()
    assert admin.server(server_id)["name"] == "vm"
    assert admin.act(server_id, {"os-stop": None}).status == 202
    demo.cloud.settle()
    assert admin.delete(f"/servers/{server_id}").status == 204


@pytest.mark.parametrize("path", ["/servers", "/servers/detail", "/flavors", "/os-keypairs", "/limits", "/images"])
def test_nothing_is_shown_without_a_token(demo: Asking, path: str) -> None:
    nobody = Asking(demo.cloud.anonymous())
    assert refusal(nobody.get(path))[:2] == (401, "unauthorized")
