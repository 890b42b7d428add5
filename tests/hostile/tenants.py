"""Two projects of one cloud, each with one resource of each kind."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from cloudctl.testing.cloud import Client
from cloudctl.testing.http import Response
from tests.generated.world import World
from tests.hostile.wishes import COMPUTE, KINDS, LED, NETWORKING, VOLUME, WISHES, Wish, kinds_in, path_kinds

QUOTAS = {f"{VOLUME}/os-quota-sets": {"volumes": 90}, f"{COMPUTE}/os-quota-sets": {"instances": 90}}
# What all projects share.
SHARED = ("external", "tiny", "together", "alike")


@define
class Tenant:
    """A project, and what was made in it: kind → id."""

    world: World
    client: Client
    project_id: str
    made: dict[str, str] = field(factory=dict)

    def id(self, kind: str) -> str:
        if kind not in self.made:
            self.made[kind] = self._make(kind)
            self.world.cloud.settle()
        return self.made[kind]

    def _make(self, kind: str) -> str:
        # `$volume2` is another volume like `$volume`.
        path, key, body, *by = KINDS[kind.rstrip("2")]
        body = self.filled(body)
        path = "/".join(self.filled(part) for part in path.split("/"))
        client = self.client
        if by:
            client, body = self.world.admin, {**body, "project_id": self.project_id}
        answer = client.post(path, {key: body} if key else body)
        assert answer.status < 300, (kind, answer)
        made = answer.json()[key] if key else answer.json()
        return str(made.get("id") or made["name"])

    def filled(self, value: Any, **instead: str) -> Any:
        if isinstance(value, dict):
            return {key: self.filled(each, **instead) for key, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each, **instead) for each in value]
        if isinstance(value, str) and value.startswith("$"):
            return instead.get(value[1:]) or self.id(value[1:])
        return value


def ask(tenant: Tenant, wish: Wish, **instead: str) -> Response:
    path = "/".join(tenant.id(part[1:]) if part.startswith("$") else part for part in wish.at.split("/"))
    headers = {"OpenStack-API-Version": f"compute {wish.version}"} if wish.version else {}
    body = tenant.filled(wish.body, **instead)
    return tenant.client.request(wish.method, f"/{wish.api}{path}", body, headers=headers)


def settled(world: World) -> tuple[Tenant, Tenant]:
    """Two tenants, each with one of each kind that a wish names."""
    admin = world.admin
    shared = {"external": external_network(world), "tiny": world.ids["compute", "image_id"]}
    for kind, path, key in (("together", "types", "volume_type"), ("alike", "group_types", "group_type")):
        made = admin.post(f"{VOLUME}/{path}", {key: {"name": kind}})
        assert made.status < 300, made
        shared[kind] = made.json()[key]["id"]
    found = []
    for name in ("member", "other"):
        client = world.clients[name]
        told = client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": str(client.token)})
        tenant = Tenant(world, client, told.json()["token"]["project"]["id"], dict(shared))
        for path, quota in QUOTAS.items():
            assert admin.put(f"{path}/{tenant.project_id}", {"quota_set": quota}).status == 200
        for kind in ("grouped", "in_cg"):
            tenant.id(kind)  # a group is frozen with its contents
        router = {"external_gateway_info": {"network_id": shared["external"]}}
        made = client.post(f"{NETWORKING}/routers", {"router": router}).json()["router"]["id"]
        leg = client.put(f"{NETWORKING}/routers/{made}/add_router_interface", {"subnet_id": tenant.id("within")})
        tenant.made |= {"gateway": made, "leg": leg.json()["port_id"]}
        segments = admin.get(f"{NETWORKING}/segments?network_id={tenant.id('empty')}").json()["segments"]
        tenant.made["segment"] = segments[0]["id"]
        wish = tenant.filled({"external_port": 7, **LED, "internal_port": 7})
        forwardings = f"{NETWORKING}/floatingips/{tenant.id('floatingip2')}/port_forwardings"
        led = client.post(forwardings, {"port_forwarding": wish})
        tenant.made["forwarding"] = led.json()["port_forwarding"]["id"]
        for wish in WISHES:
            for kind in (*kinds_in(wish.body), *path_kinds(wish)):
                tenant.id(kind)
        put = client.put(
            f"/image/v2/images/{tenant.id('image')}/file",
            body=b"data",
            headers={"Content-Type": "application/octet-stream"},
        )
        assert put.status == 204
        found.append(tenant)
    world.cloud.settle()
    world.save()
    return found[0], found[1]


def external_network(world: World) -> str:
    return str(world.member.get(f"{NETWORKING}/networks?router:external=true").json()["networks"][0]["id"])
