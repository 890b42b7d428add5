"""A cloud with one resource of every kind, and a sample value for every variable of every path."""

from __future__ import annotations

import base64
import re
from typing import Any

from cloudctl.app import SERVICES
from cloudctl.identity.tokens import Tokens
from cloudctl.rest.app import ApiApp
from cloudctl.rest.identity import Identity
from cloudctl.rest.route import Operation
from cloudctl.testing.cloud import PASSWORDS, Client, MemoryCloud, connection
from cloudctl.testing.http import Response
from tests.network.samples import samples

VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")
UNKNOWN = "6f1d2c3b-0000-4000-8000-000000000000"
OAUTH = "/identity/v3/OS-OAUTH1"
# All that there are: those of services, and what one has beside its own.
APIS = (*(each.mount for each in SERVICES), "s3")
# The newest microversion of every API at once.
LATEST = {"OpenStack-API-Version": "compute latest, volume latest, placement latest, instance-ha latest"}

ROLES = ("admin", "manager", "member", "reader", "service")
# What a role's tokens are scoped to: the project that owns these resources, its domain, the system, another domain.
SCOPES = ("project", "domain", "system", "elsewhere")
# «reader» and «member» have these roles in the project, «other» is a member of another, «admin» has one of his own.
NAMED = ("anonymous", "unscoped", "other", "reader", "member", "admin")
SCOPED = tuple(f"{role}@{scope}" for scope in SCOPES for role in ROLES)
PERSONAS = (*NAMED, *SCOPED)
# Shown only to their owner's own login, or to administrators of the cloud.
USER_DATA = base64.b64encode(b"#!/bin/sh # it holds passwords\n").decode()
TOTP_SEED = base64.b32encode(b"a second factor's seed").decode()


class World:
    """`ids`: (API, variable) → the id of a resource of project demo, or of a shared one."""

    def __init__(self) -> None:
        self.cloud = MemoryCloud()
        self.cloud.settle()
        self.admin = self.cloud.client("admin", **LATEST)
        self.member = self.cloud.client("demo", **LATEST)
        self.project = self._only("/identity/v3/auth/projects", "projects")
        self.ids: dict[tuple[str, str], str] = {}
        # What was made with which body: path, key, body.
        self.made: list[tuple[str, str, dict[str, Any]]] = []
        # (persona, secret) pairs that answers have shown.
        self.told: set[tuple[str, str]] = set()
        self._people()
        self._federation()
        self._identity()
        self._image()
        self._network()
        self._volume()
        self._compute()
        self._placement()
        self._object_store()
        self._instance_ha()
        self.cloud.settle()
        self.clients = {
            "anonymous": self.cloud.anonymous(**LATEST),
            "unscoped": Client(self.cloud, self.cloud.token("reader", "reader"), LATEST),
            **{persona: self._scoped(*persona.split("@")) for persona in SCOPED},
            "other": self.cloud.client("other", **LATEST),
            "reader": Client(self.cloud, self._token("reader", "demo"), LATEST),
            "member": self.member,
            "admin": self.admin,
        }
        self.save()

    # -- the database as it was

    def _made(self) -> int:
        """How many changes of rows there have been."""
        return int(connection(self.cloud.cloud).total_changes)

    def save(self) -> None:
        """Save the state that `restore` goes back to."""
        self._saved = self.cloud.db.moment()
        self._changes = self._made()

    def restore(self) -> None:
        """Undo whatever a request did to the database."""
        if self._made() == self._changes:
            return
        self.cloud.db.go_back(self._saved)
        self._changes = self._made()
        self.cloud.cloud.made(Tokens).forget()

    # -- what there is

    @property
    def apis(self) -> dict[str, ApiApp]:
        return self.cloud.cloud.apis

    def operations(self) -> list[tuple[str, str, Operation]]:
        """(API, path below it, Operation) of all Operations."""
        return [(name, path, operation) for name, api in self.apis.items() for path, operation in api.operations]

    def fill(self, api: str, path: str, **values: str) -> str:
        """A path with sample values. Raises LookupError for a variable without one."""

        def value(match: re.Match[str]) -> str:
            found = values.get(match[1]) or self.ids.get((api, match[1]))
            if found is None:
                where = "tests/network/samples.py" if api == "networking" else "World in tests/generated/world.py"
                raise LookupError(f"there is no sample of <{match[1]}> for {api}: let {where} make one")
            return found

        return f"/{api}" + VARIABLE.sub(value, path)

    def identity(self, persona: str) -> Identity:
        token = self.clients[persona].token
        found: list[Any] = []
        from twisted.internet.defer import ensureDeferred

        ensureDeferred(self.cloud.cloud.made(Tokens).authenticate(str(token))).addBoth(found.append)
        assert isinstance(found[0], Identity), found
        return found[0]

    def _token(self, user: str, project: str) -> str:
        scope = {"project": {"name": project, "domain": {"id": "default"}}}
        return self.cloud.token(user, PASSWORDS.get(user, user), scope)

    def _scoped(self, role: str, where: str) -> Client:
        """A new user with this one role."""
        name = f"{role}@{where}"
        user = self._make(self.admin, "/identity/v3/users", "user", {"name": name, "password": name})
        target = {"project": f"projects/{self.project}", "domain": "domains/default", "system": "system"}
        scope: dict[str, Any] = {
            "project": {"project": {"id": self.project}},
            "domain": {"domain": {"id": "default"}},
            "system": {"system": {"all": True}},
        }
        on = target.get(where, f"domains/{self.elsewhere}")
        _good(self.admin.put(f"/identity/v3/{on}/users/{user}/roles/{self._role(role)}"))
        wanted = scope.get(where, {"domain": {"id": self.elsewhere}})
        return Client(self.cloud, self.cloud.token(name, name, wanted), LATEST)

    def _only(self, path: str, key: str, **wanted: str) -> str:
        found = [
            each
            for each in _good(self.member.get(path)).json()[key]
            if all(each[name] == value for name, value in wanted.items())
        ]
        return str(found[0]["id"])

    def _make(self, client: Client, path: str, key: str, body: dict[str, Any]) -> str:
        made = _good(client.post(path, {key: body})).json()[key]
        self.made.append((path, key, body))
        return str(made.get("id", made.get("name")))

    def _role(self, name: str) -> str:
        roles = _good(self.admin.get(f"/identity/v3/roles?name={name}")).json()["roles"]
        return str(roles[0]["id"])

    def _people(self) -> None:
        self.elsewhere = self._make(self.admin, "/identity/v3/domains", "domain", {"name": "elsewhere"})
        other = self._make(self.admin, "/identity/v3/projects", "project", {"name": "other"})
        for user, project, role in (("other", other, "member"), ("reader", self.project, "reader")):
            made = self._make(self.admin, "/identity/v3/users", "user", {"name": user, "password": user})
            grant = f"/identity/v3/projects/{project}/users/{made}/roles/{self._role(role)}"
            _good(self.admin.put(grant))

    def _federation(self) -> None:
        rules = [{"local": [{"user": {"name": "{0}"}}], "remote": [{"type": "UserName"}]}]
        url = "https://sp.example.com"
        for path, key, body in (
            ("mappings/mapping", "mapping", {"rules": rules}),
            ("identity_providers/idp", "identity_provider", {}),
            ("identity_providers/idp/protocols/protocol", "protocol", {"mapping_id": "mapping"}),
            ("service_providers/sp", "service_provider", {"auth_url": url, "sp_url": url}),
        ):
            _good(self.admin.put(f"/identity/v3/OS-FEDERATION/{path}", {key: body}))

    def _identity(self) -> None:
        admin, put = self.admin, lambda **ids: self.ids.update({("identity", k): v for k, v in ids.items()})
        user = str(
            _good(self.member.get("/identity/v3/auth/tokens", headers=self._subject())).json()["token"]["user"]["id"]
        )
        group = self._make(admin, "/identity/v3/groups", "group", {"name": "group"})
        _good(admin.put(f"/identity/v3/groups/{group}/users/{user}"))
        credential = {
            "name": "credential",
            "access_rules": [{"path": "/v2.1/servers", "method": "GET", "service": "compute"}],
        }
        made = _good(
            self.member.post(
                f"/identity/v3/users/{user}/application_credentials", {"application_credential": credential}
            )
        ).json()["application_credential"]
        _good(
            admin.put("/identity/v3/domains/default/config", {"config": {"ldap": {"url": "ldap://ldap.example.com"}}})
        )
        service = _good(admin.get("/identity/v3/services")).json()["services"][0]["id"]
        endpoint = _good(admin.get("/identity/v3/endpoints")).json()["endpoints"][0]["id"]
        limited = {"service_id": service, "resource_name": "things", "default_limit": 5}
        limits = _good(admin.post("/identity/v3/registered_limits", {"registered_limits": [limited]})).json()
        trust = {
            "trustor_user_id": user, "trustee_user_id": user, "project_id": self.project, "impersonation": False,
            "roles": [{"name": "member"}],
        }  # fmt: skip
        ec2 = _good(
            self.member.post(f"/identity/v3/users/{user}/credentials/OS-EC2", {"tenant_id": self.project})
        ).json()
        self.ec2_secret = str(ec2["credential"]["secret"])
        seed = {"type": "totp", "blob": TOTP_SEED, "user_id": user}
        _good(self.member.post("/identity/v3/credentials", {"credential": seed}))
        put(
            limit_id=limits["registered_limits"][0]["id"],
            trust_id=self._make(self.member, "/identity/v3/OS-TRUST/trusts", "trust", trust),
            policy_id=self._make(admin, "/identity/v3/policies", "policy", {"blob": "x", "type": "text/plain"}),
            access=ec2["credential"]["access"],
            user_id=user, project_id=self.project, domain_id="default", group_id=group, role_id=self._role("reader"),
            prior_id=self._role("member"), implied_id=self._role("reader"), credential_id=made["id"],
            rule_id=made["access_rules"][0]["id"], service_id=service, endpoint_id=endpoint, region_id="RegionOne",
            tag="tag", rule="password_regex", group="ldap", option="url",
            consumer_id=self._make(admin, f"{OAUTH}/consumers", "consumer", {}),
            request_token_id=UNKNOWN, access_token_id=UNKNOWN, idp_id="idp", protocol_id="protocol",
            mapping_id="mapping", sp_id="sp",
        )  # fmt: skip

    def _subject(self) -> dict[str, str]:
        return {"X-Subject-Token": str(self.member.token)}

    def _image(self) -> None:
        image = {"name": "own", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}
        made = _good(self.member.post("/image/v2/images", image)).json()["id"]
        binary = {"Content-Type": "application/octet-stream"}
        _good(self.member.put(f"/image/v2/images/{made}/file", body=b"data", headers=binary))
        definitions = "/image/v2/metadefs/namespaces"
        named = [{"name": "own"}]
        wanted = {"namespace": "own", "resource_type_associations": named, "objects": named, "tags": named}
        own = {"own": {"title": "own", "type": "string"}}
        _good(self.admin.post(definitions, {**wanted, "properties": own, "visibility": "public"}))
        self.ids |= {
            ("image", "namespace"): "own", ("image", "definition"): "own",
            ("image", "image_id"): made, ("image", "member_id"): self.project, ("image", "tag"): "tag",
            ("image", "name"): "image", ("image", "store"): "store", ("image", "task_id"): UNKNOWN,
        }  # fmt: skip

    def _network(self) -> None:
        base, demo = "/networking/v2.0", self.member
        network = self._make(demo, f"{base}/networks", "network", {"name": "own"})
        body = {"network_id": network, "ip_version": 4, "cidr": "10.5.0.0/24"}
        subnet = self._make(demo, f"{base}/subnets", "subnet", body)
        group = self._make(demo, f"{base}/security-groups", "security_group", {"name": "own"})
        rule = {"security_group_id": group, "direction": "ingress", "protocol": "tcp"}
        external = _good(demo.get(f"{base}/networks?router:external=true")).json()["networks"][0]["id"]
        router = self._make(demo, f"{base}/routers", "router", {"external_gateway_info": {"network_id": external}})
        floating = self._make(demo, f"{base}/floatingips", "floatingip", {"floating_network_id": external})
        policies = f"{base}/qos/policies"
        policy = self._make(self.admin, policies, "policy", {"name": "own", "project_id": self.project})
        self.ids |= {
            ("networking", "policy_id"): policy,
            ("networking", "rule_type"): "bandwidth_limit",
            ("networking", "network_id"): network,
            ("networking", "subnet_id"): subnet,
            ("networking", "port_id"): self._make(demo, f"{base}/ports", "port", {"network_id": network}),
            ("networking", "router_id"): router,
            ("networking", "floatingip_id"): floating,
            ("networking", "group_id"): group,
            ("networking", "rule_id"): self._make(demo, f"{base}/security-group-rules", "security_group_rule", rule),
            ("networking", "project_id"): self.project,
            ("networking", "resource_id"): network,
            ("networking", "collection"): "networks",
            ("networking", "tag"): "tag",
            ("networking", "alias"): "security-group",
            ("networking", "port_forwarding_id"): UNKNOWN,
            ("networking", "agent_id"): _good(self.admin.get(f"{base}/agents")).json()["agents"][0]["id"],
        }
        ids = {name: value for (api, name), value in self.ids.items() if api == "networking"}

        def make(path: str, key: str, body: dict[str, Any]) -> str:
            return self._make(self.admin, f"{base}{path}", key, body)

        self.ids |= {("networking", name): value for name, value in samples(make, ids, self.project).items()}

    def _volume(self) -> None:
        base, demo = "/volume/v3", self.member
        volume = self._make(demo, f"{base}/volumes", "volume", {"size": 1, "metadata": {"key": "value"}})
        self.cloud.settle()
        reserved = self._make(demo, f"{base}/volumes", "volume", {"size": 1})
        self.cloud.settle()
        attachment = _good(
            demo.post(f"{base}/attachments", {"attachment": {"volume_uuid": reserved, "instance_uuid": UNKNOWN}})
        ).json()["attachment"]["id"]
        copied = self._make(demo, f"{base}/volumes", "volume", {"size": 1})
        self.cloud.settle()
        wish = {"volume_id": copied, "metadata": {"key": "value"}}
        snapshot = self._make(demo, f"{base}/snapshots", "snapshot", wish)
        backup = self._make(demo, f"{base}/backups", "backup", wish)
        self.cloud.settle()
        type_ = _good(demo.get(f"{base}/types")).json()["volume_types"][0]["id"]
        offered = self._make(demo, f"{base}/volumes", "volume", {"size": 1})
        self.cloud.settle()
        transfer = self._make(demo, f"{base}/volume-transfers", "transfer", {"volume_id": offered})
        specs = self._make(self.admin, f"{base}/qos-specs", "qos_specs", {"name": "specs"})
        group_type = self._make(self.admin, f"{base}/group_types", "group_type", {"name": "together"})
        wish = {"group_type": group_type, "volume_types": [type_]}
        group = self._make(demo, f"{base}/groups", "group", wish)
        self._make(demo, f"{base}/volumes", "volume", {"size": 1, "group_id": group, "volume_type": type_})
        self.cloud.settle()
        frozen = self._make(demo, f"{base}/group_snapshots", "group_snapshot", {"group_id": group})
        self.cloud.settle()
        consistent = self._make(demo, f"{base}/consistencygroups", "consistencygroup", {"volume_types": type_})
        inside = {"consistencygroup_id": consistent}
        self._make(demo, f"{base}/volumes", "volume", {"size": 1, "volume_type": type_, **inside})
        self.cloud.settle()
        cgsnapshot = self._make(demo, f"{base}/cgsnapshots", "cgsnapshot", inside)
        self.cloud.settle()
        self.ids |= {
            ("volume", "consistencygroup_id"): consistent, ("volume", "cgsnapshot_id"): cgsnapshot,
            ("volume", "group_type_id"): group_type, ("volume", "group_id"): group,
            ("volume", "group_snapshot_id"): frozen,
            ("volume", "volume_id"): volume, ("volume", "attachment_id"): attachment, ("volume", "type_id"): type_,
            ("volume", "snapshot_id"): snapshot, ("volume", "backup_id"): backup,
            ("volume", "key"): "key", ("volume", "target_id"): self.project, ("volume", "message_id"): UNKNOWN,
            ("volume", "alias"): "os-volume-type-access", ("volume", "project_id"): self.project,
            ("volume", "name"): "default", ("volume", "transfer_id"): transfer, ("volume", "specs_id"): specs,
            ("volume", "encryption_id"): UNKNOWN, ("volume", "host"): "cloudctl@volumes",
            ("volume", "cluster"): "cluster",
        }  # fmt: skip

    def _object_store(self) -> None:
        account, container, name = f"AUTH_{self.project}", "own", "own"
        base = f"/object-store/v1/{account}/{container}"
        _good(self.member.put(base))
        # Without data: going back to a saved database brings no file back.
        _good(self.member.put(f"{base}/{name}", body=b""))
        self.ids |= {
            ("object-store", "account"): account,
            ("object-store", "container"): container,
            ("object-store", "name"): name,
            ("s3", "bucket"): container,
            ("s3", "key"): name,
        }

    def _compute(self) -> None:
        base, demo = "/compute/v2.1", self.member
        image = next(
            each["id"] for each in _good(demo.get("/image/v2/images")).json()["images"] if each["name"] == "tiny"
        )
        server = self._make(
            demo,
            f"{base}/servers",
            "server",
            {
                "name": "own",
                "imageRef": image,
                "flavorRef": "1",
                "metadata": {"key": "value"},
                "tags": ["tag"],
                "networks": [{"uuid": self.ids["networking", "network_id"]}],
                "user_data": USER_DATA,
            },
        )
        key = {
            "name": "own",
            "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ9mYp1XpLWzVSGlcsmqpUAcUO8CJ3qXoYAuOq2Ci0V x",
        }
        _good(demo.post(f"{base}/os-keypairs", {"keypair": {**key, "type": "ssh"}}))
        self.cloud.settle()
        volume = self._make(demo, "/volume/v3/volumes", "volume", {"size": 1})
        self.cloud.settle()
        _good(demo.post(f"{base}/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}}))
        self.cloud.settle()
        group = self._make(demo, f"{base}/os-server-groups", "server_group", {"name": "own", "policy": "affinity"})
        port = _good(demo.get(f"{base}/servers/{server}/os-interface")).json()["interfaceAttachments"][0]["port_id"]
        actions = _good(demo.get(f"{base}/servers/{server}/os-instance-actions")).json()["instanceActions"]
        _good(self.admin.post(f"{base}/flavors/1/os-extra_specs", {"extra_specs": {"key": "value"}}))
        aggregate = self._make(self.admin, f"{base}/os-aggregates", "aggregate", {"name": "own"})
        hypervisor = _good(self.admin.get(f"{base}/os-hypervisors")).json()["hypervisors"][0]["id"]
        service = _good(self.admin.get(f"{base}/os-services")).json()["services"][0]["id"]
        self.ids |= {
            ("compute", name): value
            for name, value in {
                "server_id": server, "flavor_id": "1", "image_id": image, "key": "key", "tag": "tag",
                "keypair_name": "own", "name": "own", "volume_id": volume, "attachment_id": volume, "port_id": port,
                "group_id": group, "request_id": actions[0]["request_id"], "hypervisor_id": str(hypervisor),
                "service_id": str(service), "project_id": self.project, "tenant_id": self.project, "id": "default",
                "class_id": "default", "alias": "os-keypairs", "network_name": "own", "label": "own",
                "user_id": self.ids["identity", "user_id"], "zone": "nova", "aggregate_id": aggregate,
                "server_group_id": group, "keypair": "own", "spec": "key", "host": "fake-1",
                "time": "2026-01-01%2000:00:00", "domain_id": "domain", "rule_id": self.ids["networking", "rule_id"],
                "floating_ip": self.ids["networking", "floatingip_id"],
                "snapshot_id": self.ids["volume", "snapshot_id"],
                "network": "own", "pattern": "fake", "migration_id": "1", "token": UNKNOWN, "share_id": UNKNOWN,
            }.items()
        }  # fmt: skip

    def _placement(self) -> None:
        made = _good(self.admin.post("/placement/resource_providers", {"name": "own"})).json()
        self.ids |= {
            ("placement", "provider_id"): made["uuid"],
            ("placement", "consumer_id"): self.ids["compute", "server_id"],
            ("placement", "name"): "CUSTOM_OWN",
        }

    def _instance_ha(self) -> None:
        base = "/instance-ha/v1"
        wish = {"name": "own", "recovery_method": "auto", "service_type": "COMPUTE"}
        segment = _good(self.admin.post(f"{base}/segments", {"segment": wish})).json()["segment"]["uuid"]
        wish = {"name": "fake-1", "type": "COMPUTE", "control_attributes": "SSH"}
        host = _good(self.admin.post(f"{base}/segments/{segment}/hosts", {"host": wish})).json()["host"]["uuid"]
        # Nobody says that the host is off, so nothing is done.
        told = {"hostname": "fake-1", "type": "COMPUTE_HOST", "payload": {"event": "STOPPED"}}
        report = _good(self.admin.post(f"{base}/notifications", told)).json()["notification"]["notification_uuid"]
        self.ids |= {
            ("instance-ha", "segment_id"): segment,
            ("instance-ha", "host_id"): host,
            ("instance-ha", "notification_id"): report,
            ("instance-ha", "vmove_id"): UNKNOWN,
        }


def _good(response: Response) -> Response:
    assert response.status < 300, response
    return response
