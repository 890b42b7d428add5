"""A purge takes nothing from the living: whatever was done before, all of their answers are the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from cloudctl.db.columns import utc
from cloudctl.rest.formats import micros
from cloudctl.testing.cloud import Client, MemoryCloud
from tests.compute.asking import LATEST, Asking
from tests.ended import purge

DAY = 86_400.0
# Servers, within the quotas.
AT_MOST = 6
# Lists of what is not alive, or of what was once.
OF_THE_PAST = {
    "/compute/v2.1/os-migrations",
    "/compute/v2.1/os-simple-tenant-usage",
    "/identity/v3/OS-REVOKE/events",
    "/networking/v2.0/quotas",
}
VERSIONS = {"OpenStack-API-Version": f"compute {LATEST}, volume 3.71, placement 1.39"}


class World:
    """What demo and admin do, and what they can see of all that is there."""

    def __init__(self) -> None:
        self.cloud = MemoryCloud()
        self.numbers = count()
        # Each list of the cloud, as (its place, its path).
        self.lists = sorted(
            f"{each.prefix}{path}"
            for each in self.cloud.cloud.served
            for path, operation in each.api.operations
            if operation.method == "GET" and "<" not in path
        )

    @property
    def demo(self) -> Asking:
        return Asking(self.cloud.client("demo"))

    @property
    def admin(self) -> Client:
        return self.cloud.client("admin")

    @property
    def servers(self) -> list[str]:
        return [each["id"] for each in self.demo.get("/servers").json()["servers"]]

    @staticmethod
    def me(client: Client) -> Any:
        """What the client's token stands for."""
        shown = client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": client.token or ""})
        return shown.json()["token"]

    @property
    def credentials(self) -> str:
        return f"/identity/v3/users/{self.me(self.demo.client)['user']['id']}/application_credentials"

    # -- what is done

    def boot(self) -> None:
        if len(self.servers) < AT_MOST:
            self.demo.boot()

    def boot_from_volume(self) -> None:
        if len(self.servers) == AT_MOST:
            return
        device = {"source_type": "image", "destination_type": "volume", "uuid": self.demo.image, "volume_size": 1}
        self.demo.boot(imageRef=None, block_device_mapping_v2=[{**device, "boot_index": 0}])

    def reboot(self) -> None:
        for id in self.servers[:1]:
            self.demo.act(id, {"reboot": {"type": "HARD"}})

    def migrate(self) -> None:
        for id in self.servers[:2]:
            body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
            Asking(self.admin).act(id, body, LATEST)

    def resize(self) -> None:
        for id in self.servers[-1:]:
            self.demo.act(id, {"resize": {"flavorRef": "2"}})
            self.cloud.settle()
            self.demo.act(id, {"confirmResize": None})

    def resize_only(self) -> None:
        for id in self.servers[-1:]:
            self.demo.act(id, {"resize": {"flavorRef": "2"}})

    def delete(self) -> None:
        for id in self.servers[:1]:
            self.demo.delete(f"/servers/{id}")

    def volume(self) -> None:
        if len(self.demo.client.get("/volume/v3/volumes").json()["volumes"]) > AT_MOST:
            return
        made = self.demo.volume()
        for id in self.servers[:1]:
            self.demo.post(f"/servers/{id}/os-volume_attachments", {"volumeAttachment": {"volumeId": made}})

    def delete_volume(self) -> None:
        for each in self.demo.client.get("/volume/v3/volumes").json()["volumes"]:
            self.demo.client.delete(f"/volume/v3/volumes/{each['id']}")

    def import_image(self) -> None:
        image = self.demo.client.post("/image/v2/images", {"disk_format": "raw", "container_format": "bare"}).json()
        self.demo.client.put(
            f"/image/v2/images/{image['id']}/stage",
            body=b"data",
            headers={"Content-Type": "application/octet-stream"},
        )
        self.demo.client.post(f"/image/v2/images/{image['id']}/import", {"method": {"name": "glance-direct"}})

    def delete_image(self) -> None:
        for each in self.demo.client.get("/image/v2/images?visibility=private").json()["images"]:
            self.demo.client.delete(f"/image/v2/images/{each['id']}")

    def project(self) -> None:
        """One comes with limits and goes; and another one stays."""
        for gone in (True, False):
            project = {"project": {"name": f"project-{next(self.numbers)}", "domain_id": "default"}}
            made = self.admin.post("/identity/v3/projects", project).json()["project"]["id"]
            self.admin.put(f"/compute/v2.1/os-quota-sets/{made}", {"quota_set": {"cores": 3}})
            self.admin.put(f"/networking/v2.0/quotas/{made}", {"quota": {"port": 3}})
            self.share(made)
            if gone:
                assert self.admin.delete(f"/identity/v3/projects/{made}").status == 204

    def share(self, project: str) -> None:
        """A flavor and an image that only this project and demo's may use."""
        size = {
            "name": f"size-{next(self.numbers)}",
            "ram": 1,
            "vcpus": 1,
            "disk": 1,
            "os-flavor-access:is_public": False,
        }
        flavor = self.admin.post("/compute/v2.1/flavors", {"flavor": size}).json()["flavor"]["id"]
        wanted = {"disk_format": "raw", "container_format": "bare", "visibility": "shared"}
        image = self.admin.post("/image/v2/images", wanted).json()["id"]
        for each in (project, str(self.me(self.demo.client)["project"]["id"])):
            access = {"addTenantAccess": {"tenant": each}}
            assert self.admin.post(f"/compute/v2.1/flavors/{flavor}/action", access).status == 200
            assert self.admin.post(f"/image/v2/images/{image}/members", {"member": each}).status == 200

    def key_pair(self) -> None:
        wanted = {"keypair": {"name": f"key-{next(self.numbers)}"}}
        assert self.demo.client.post("/compute/v2.1/os-keypairs", wanted).status == 200

    def quota_class(self) -> None:
        self.admin.put("/compute/v2.1/os-quota-class-sets/gold", {"quota_class_set": {"cores": 5}})

    def trust(self) -> None:
        me, admin = self.me(self.demo.client), self.me(self.admin)
        soon = utc(self.cloud.clock.seconds()) + timedelta(days=1)
        for ends in (None, f"{micros(soon)}Z"):
            trust = {"trustor_user_id": me["user"]["id"], "trustee_user_id": admin["user"]["id"]}
            trust |= {"project_id": me["project"]["id"], "impersonation": True, "expires_at": ends}
            trust |= {"roles": [{"name": "member"}]}
            assert self.demo.client.post("/identity/v3/OS-TRUST/trusts", {"trust": trust}).status == 201

    def application_credential(self) -> None:
        soon = utc(self.cloud.clock.seconds()) + timedelta(days=1)
        for ends in (None, f"{micros(soon)}Z"):
            wanted = {"name": f"credential-{next(self.numbers)}", "expires_at": ends}
            assert self.demo.client.post(self.credentials, {"application_credential": wanted}).status == 201

    def revoke(self) -> None:
        token = self.cloud.login("demo", "demo-secret")
        assert self.admin.delete("/identity/v3/auth/tokens", headers={"X-Subject-Token": token}).status == 204

    def wait(self) -> None:
        self.cloud.advance(20 * DAY)

    # -- what is seen

    def answers(self) -> Iterator[tuple[str, str, int, bytes]]:
        paths = [path for path in self.lists if path not in OF_THE_PAST]
        for id in self.servers:
            mine = f"/compute/v2.1/servers/{id}"
            paths += [mine, f"{mine}/migrations", f"{mine}/os-instance-actions", f"{mine}/os-volume_attachments"]
            for each in self.demo.get(f"/servers/{id}/os-instance-actions", LATEST).json()["instanceActions"]:
                paths.append(f"{mine}/os-instance-actions/{each['request_id']}")
            paths.append(f"/compute/v2.1/os-migrations?instance_uuid={id}")
        for project in self.admin.get("/identity/v3/projects").json()["projects"]:
            paths.append(f"/compute/v2.1/os-quota-sets/{project['id']}/detail")
            paths.append(f"/networking/v2.0/quotas/{project['id']}/details.json")
        for each in self.demo.client.get(self.credentials).json()["application_credentials"]:
            if each["expires_at"] is None:
                paths.append(f"{self.credentials}/{each['id']}")
        paths.append("/image/v2/images?visibility=shared&member_status=pending")
        paths.append("/compute/v2.1/os-quota-class-sets/gold")
        for name, client in (("demo", self.demo.client), ("admin", self.admin)):
            for path in paths:
                found = client.get(path, headers=VERSIONS)
                # A refusal tells the id of its request.
                yield name, path, found.status, found.body if found.status == 200 else b""


NOT_DONE = ("__init__", "answers", "me", "share")
DONE = [name for name, each in vars(World).items() if callable(each) and name not in NOT_DONE]


# Something of nearly everything that a purge removes.
MUCH = "boot boot_from_volume reboot migrate resize volume import_image project key_pair quota_class trust revoke"
THEN = "application_credential resize_only delete delete_image delete_volume boot wait"


@pytest.mark.slow
# What fails is not made smaller: an example takes seconds.
@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.sampled_from(DONE), min_size=8, max_size=16))
@example(f"{MUCH} {THEN}".split())
def test_the_answers_about_the_living_stay_the_same(done: list[str]) -> None:
    world = World()
    try:
        world.boot()
        for name in done:
            getattr(world, name)()
            world.cloud.settle()
        world.cloud.advance(10 * DAY)
        world.cloud.settle()
        # What only asking changes, such as when a user was last active.
        list(world.answers())
        before = list(world.answers())
        purge(world.cloud.db, 15)
        after = list(world.answers())
        assert [each for each, other in zip(before, after, strict=True) if each != other] == []
        world.cloud.cloud.audit.run()
        world.cloud.advance(0)
        assert not any(world.cloud.cloud.audit.latest.values()), world.cloud.cloud.audit.latest
        assert purge(world.cloud.db, 15) == {}
        world.boot()
    finally:
        world.cloud.close()
