"""Fields that a member may not set, sent all the same in every create and change: none is stored.

Each wish is granted as it stands. With one more field, which only the cloud or an administrator sets, it is refused or
the field is ignored: the value, which was nowhere in the database, is not there now.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from attrs import evolve

from cloudctl.db.columns import metadata
from cloudctl.testing.cloud import connection
from tests.generated.world import World
from tests.hostile.tenants import Tenant, ask
from tests.hostile.wishes import WISHES, Wish

MARK = "5e4711e1d00d4bad8cafe0badf00d5ad"
UUID = "5e4711e1-d00d-4bad-8caf-e0badf00d5ad"
HOST, PAST = "mark-of-the-host", "1999-12-31T23:59:58"
# Name → a value that is recognizable among what exists.
FIELDS: dict[str, Any] = {
    **dict.fromkeys(("project_id", "tenant_id", "owner", "user_id", "os-vol-tenant-attr:tenant_id", "domain_id"), MARK),
    **dict.fromkeys(("uuid", "attachment_id", "request_id", "encryption_key_id", "migration_id"), UUID),
    **dict.fromkeys(("host", "node", "hypervisor_hostname", "provider_location", "provider:physical_network"), HOST),
    **dict.fromkeys(("OS-EXT-SRV-ATTR:host", "os-vol-host-attr:host", "binding:host_id"), HOST),
    **dict.fromkeys(("status", "vm_state", "task_state", "OS-EXT-STS:vm_state", "attach_status"), "mark_status"),
    **dict.fromkeys(("created_at", "updated_at", "deleted_at", "launched_at", "terminated_at"), PAST),
    **dict.fromkeys(("checksum", "os_hash_value", "file", "direct_url"), MARK),
    "locations": [{"url": f"file:///{MARK}", "metadata": {}}], "volume_image_metadata": {"mark": HOST},
    "provider:network_type": HOST, "binding:profile": {"mark": HOST}, "device_owner": f"network:{HOST}",
    "mac_address": "5e:47:11:e1:d0:0d",
}  # fmt: skip
MARKS = (MARK, UUID, HOST, "mark_status", PAST[:10], "5e:47:11:e1:d0:0d")


def with_field(wish: Wish, name: str, value: Any) -> Any:
    """The body, with one more field where its fields are."""
    if len(wish.body) == 1 and isinstance(inner := next(iter(wish.body.values())), dict):
        return {next(iter(wish.body)): {**inner, name: value}}
    if "server" in wish.body:
        return {**wish.body, "server": {**wish.body["server"], name: value}}
    return {**wish.body, name: value}


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ9mYp1XpLWzVSGlcsmqpUAcUO8CJ3qXoYAuOq2Ci0V x"
# Besides wishes that refer to something: creates and changes of resources that stand alone.
NAMED = {"name": "y"}
PLAIN = [
    Wish("image", "POST", "/v2/images", {"name": "y", "disk_format": "raw", "container_format": "bare"}),
    Wish("networking", "POST", "/v2.0/security-groups", {"security_group": NAMED}),
    Wish("networking", "POST", "/v2.0/address-groups", {"address_group": {"addresses": ["10.0.0.0/8"]}}),
    Wish("networking", "PUT", "/v2.0/security-groups/$security_group", {"security_group": NAMED}),
    Wish("networking", "PUT", "/v2.0/subnets/$subnet", {"subnet": NAMED}),
    Wish("networking", "PUT", "/v2.0/floatingips/$floatingip", {"floatingip": {"description": "y"}}),
    Wish("networking", "PUT", "/v2.0/trunks/$trunk", {"trunk": NAMED}),
    Wish("volume", "PUT", "/v3/volumes/$volume", {"volume": NAMED}),
    Wish("volume", "PUT", "/v3/snapshots/$snapshot", {"snapshot": NAMED}),
    Wish("volume", "PUT", "/v3/backups/$backup", {"backup": NAMED}),
    Wish("compute", "PUT", "/v2.1/servers/$server", {"server": NAMED}),
    Wish("compute", "POST", "/v2.1/os-keypairs", {"keypair": {"name": "y", "type": "ssh", "public_key": KEY}}),
    Wish("compute", "POST", "/v2.1/os-server-groups", {"server_group": {"name": "y", "policy": "affinity"}}),
]
# On a network of one's own.
OWN_TO_SAY = {("networking", "/v2.0/ports", name) for name in ("device_owner", "mac_address")}


def changes(lands: World) -> dict[str, int]:
    """How often each table has been written to."""
    return dict(zip(metadata.tables, lands.cloud.db.changes(metadata.tables) or (), strict=True))


def rows(lands: World, before: dict[str, int]) -> str:
    """All that is in the tables that have been written to since then."""
    execute = connection(lands.cloud.cloud).execute
    written = [name for name, number in changes(lands).items() if number != before[name]]
    return "".join(repr(execute(f'SELECT * FROM "{name}"').fetchall()) for name in written)


def asked() -> list[Wish]:
    """One wish for each Operation that grants something."""
    wishes = [wish for wish in (*WISHES, *PLAIN) if wish.granted]
    return list({(wish.method, wish.api, re.sub(r"\$\w+", "$", wish.at)): wish for wish in wishes}.values())


@pytest.mark.slow
@pytest.mark.parametrize("api", sorted({wish.api for wish in asked()}))
def test_what_is_not_a_members_to_say_is_not_kept(lands: World, tenants: tuple[Tenant, Tenant], api: str) -> None:
    mine, _ = tenants
    wrong: list[str] = []
    # For an image, most of these names are properties.
    said = {name: value for name, value in FIELDS.items() if api != "image" or name in OF_IMAGES}
    for wish in (each for each in asked() if each.api == api):
        assert ask(mine, wish).status < 300, wish
        lands.restore()
        for name, value in said.items():
            if (api, wish.at.partition("/$")[0], name) in OWN_TO_SAY:
                continue
            before = changes(lands)
            answer = ask(mine, evolve(wish, body=with_field(wish, name, value)))
            if answer.status < 300:
                data = rows(lands, before)
                kept = any(mark in json.dumps(value) and mark in data for mark in MARKS)
                if kept:
                    wrong.append(f"{wish.method} {wish.at} {name}: {answer.status} {answer.body[:200]!r}")
            elif answer.status not in (400, 403, 404, 409):
                wrong.append(f"{wish.method} {wish.at} {name}: {answer.status} {answer.body[:200]!r}")
            lands.restore()
    assert not wrong, "\n".join(wrong)


# What the cloud sets on an image; any other name is a property, for its owner to write.
OF_IMAGES = ("owner", "status", "created_at", "updated_at", "checksum", "os_hash_algo", "os_hash_value", "file",
             "direct_url", "locations", "id", "size", "virtual_size", "self", "schema", "stores", "deleted",
             "deleted_at", "os_glance_import_task", "os_glance_x")  # fmt: skip
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}


@pytest.mark.parametrize("value", [MARK, 5, [], [{"url": f"file:///{MARK}", "metadata": {}}]], ids=str)
def test_no_patch_of_an_image_says_what_it_says_by_itself(
    lands: World, tenants: tuple[Tenant, Tenant], value: Any
) -> None:
    mine, _ = tenants
    image = f"/image/v2/images/{mine.id('image')}"
    wrong = []
    for name in OF_IMAGES:
        for change in ("add", "replace", "remove"):
            patch = json.dumps([{"op": change, "path": f"/{name}", "value": value}]).encode()
            answer = mine.client.patch(image, body=patch, headers=PATCH)
            if answer.status not in (400, 403, 404, 409):
                wrong.append(f"{change} {name}: {answer.status} {answer.body[:200]!r}")
            lands.restore()
    assert not wrong, "\n".join(wrong)
