"""Every Operation x every persona: the API does what the declared policy says.

Bodies are left out, so a permitted caller gets a 400 where one is needed; any other is refused first.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from cloudctl.rest.policy import PERSONAS as NAMES
from cloudctl.rest.route import Operation
from cloudctl.testing.http import Response
from tests.generated.world import APIS, PERSONAS, TOTP_SEED, USER_DATA, VARIABLE, World

# Variables whose samples belong to project demo: another project must not learn that they exist.
OWNED = {
    ("image", "image_id"), ("networking", "network_id"), ("networking", "subnet_id"), ("networking", "port_id"),
    ("networking", "router_id"), ("networking", "floatingip_id"), ("networking", "policy_id"),
    ("networking", "bandwidth_limit_id"), ("networking", "dscp_marking_id"), ("networking", "trunk_id"),
    ("networking", "subnetpool_id"), ("networking", "address_scope_id"), ("networking", "address_group_id"),
    ("networking", "rbac_policy_id"), ("networking", "local_ip_id"),
    ("networking", "group_id"), ("networking", "rule_id"), ("networking", "resource_id"), ("volume", "volume_id"),
    ("volume", "attachment_id"), ("volume", "snapshot_id"), ("volume", "backup_id"), ("volume", "transfer_id"),
    ("volume", "group_id"), ("volume", "group_snapshot_id"), ("volume", "consistencygroup_id"),
    ("volume", "cgsnapshot_id"),
    ("compute", "server_id"), ("compute", "group_id"), ("object-store", "account"),
}  # fmt: skip
# Samples that do not exist, because making them takes a longer story.
ABSENT = {
    ("networking", "port_forwarding_id"), ("networking", "ndp_proxy_id"), ("networking", "segment_id"),
    ("networking", "fixed_port_id"), ("networking", "host"),
    ("image", "task_id"), ("image", "store"), ("volume", "message_id"),
    ("volume", "encryption_id"), ("volume", "cluster"), ("compute", "host"),
    ("compute", "migration_id"), ("compute", "token"), ("instance-ha", "vmove_id"),
}  # fmt: skip


# S3 takes no tokens: tests/object_store/test_s3_access.py signs. Events has one call, for administrators.
SERVICES = [each for each in APIS if each not in ("s3", "events")]
# (persona, secret) pairs that answers of a service show.
TOLD = {
    "identity": {("member", "the EC2 secret"), ("member", "the seed of passcodes")},
    "compute": {("admin", "the user data")},
}


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def ask(world: World, persona: str, api: str, path: str, operation: Operation) -> Response:
    client = world.clients[persona]
    body = {operation.action: None} if operation.action else None
    method = "GET" if operation.method == "*" else operation.method
    headers = {}
    if (api, path) == ("identity", "/v3/auth/tokens"):
        headers["X-Subject-Token"] = str(world.clients["member"].token)
    answer = client.request(method, world.fill(api, path), body, headers=headers)
    world.restore()
    return answer


def told(world: World, persona: str, answer: Response) -> list[str]:
    """The secrets that an answer discloses to a persona who must not see them."""
    secrets = {"the user data": USER_DATA, "the EC2 secret": world.ec2_secret, "the seed of passcodes": TOTP_SEED}
    found = [name for name, secret in secrets.items() if secret.encode() in answer.body]
    world.told |= {(persona, name) for name in found}
    # Administrators see what servers were made with, and key pairs; the rest is only for its owner's own login.
    administrators = ("the user data", "the EC2 secret")
    mine = administrators if persona.startswith("admin") else tuple(secrets) if persona == "member" else ()
    return [name for name in found if name not in mine]


def is_beyond(world: World, persona: str, api: str, operation: Operation) -> bool:
    """Whether a token that is not for a project would reach what belongs to one, whatever the rules say.

    Administrators and services may; readers on the system may read.
    """
    role, _, scope = persona.partition("@")
    if api == "identity" or (persona != "unscoped" and scope in ("", "project")) or role in ("admin", "service"):
        return False
    assert operation.policy is not None
    if world.cloud.cloud.policy.rules[operation.policy].text == "any":
        # What belongs to everybody, or to the caller.
        return False
    return scope != "system" or operation.method not in ("GET", "HEAD")


def variables(api: str, path: str) -> set[tuple[str, str]]:
    return {(api, name) for name in VARIABLE.findall(path)}


def is_own(world: World, api: str, path: str, operation: Operation, answer: Response) -> bool:
    """Whether it shows something of the project that is not in OWNED, so that nobody would see it told to others."""
    known = OWNED | {(api, "project_id")}
    if api == "identity" or operation.method != "GET" or answer.status != 200 or known & variables(api, path):
        return False
    if not (variables(api, path) and answer.headers.get("content-type", "").startswith("application/json")):
        return False
    shown = answer.json()
    one = next(iter(shown.values())) if len(shown) == 1 else shown
    return isinstance(one, dict) and world.project in map(one.get, ("project_id", "tenant_id", "owner"))


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
def test_each_operation_lets_in_whom_its_rule_names(world: World, service: str) -> None:
    wrong: list[str] = []
    rows: list[str] = []
    counts: Counter[str] = Counter()
    policy = world.cloud.cloud.policy
    identities = {persona: world.identity(persona) for persona in PERSONAS if persona != "anonymous"}
    for api, path, operation in world.operations():
        if api != service:
            continue
        row = []
        for persona in PERSONAS:
            answer = ask(world, persona, api, path, operation)
            status = answer.status
            row.append(str(status))
            counts[f"{status // 100}xx"] += 1
            where = f"{persona}: {api} {operation.key} -> {status} {answer.body[:160]!r}"
            if status >= 500 and status != 501:
                wrong.append(f"failed: {where}")
            elif operation.policy is None:
                continue
            elif persona == "anonymous":
                if status != 401:
                    wrong.append(f"let in without a token: {where}")
            elif status == 401:
                wrong.append(f"a valid token was refused: {where}")
            else:
                target = {
                    name: world.ids[api, name]
                    for name in ("user_id", "project_id", "domain_id")
                    if (api, name) in variables(api, path)
                }
                # A record may still refuse, with an error of its own: immutable, in use, protected.
                may = policy.may(operation.policy, identities[persona], target)
                foreign = persona == "other" and bool(OWNED & variables(api, path))
                if persona == "member" and is_own(world, api, path, operation, answer):
                    lacking = " or ".join(str(each) for each in sorted(variables(api, path)))
                    wrong.append(f"OWNED lacks {lacking}: {where}")
                wrong += [f"told {secret}: {where}" for secret in told(world, persona, answer)]
                if is_beyond(world, persona, api, operation) and status not in (403, 404):
                    wrong.append(f"reached from beyond its scope: {where}")
                if not policy.might(operation.policy, identities[persona], target):
                    # Here errors in a body are reported first, to callers who may change anything at all.
                    writes = policy.may("network:writing", identities[persona], {})
                    body = api == "networking" and operation.body and writes
                    if status not in (403, 404) and not (status == 400 and body):
                        wrong.append(f"let in against {operation.policy}: {where}")
                elif foreign:
                    # The answer may say what is wrong, or that the call is gone, but not that the resource exists.
                    if status not in (400, 403, 404, 410, 415) or (status == 400 and operation.body is None):
                        wrong.append(f"another project's resource: {where}")
                elif status == 403 and operation.policy.encode() in answer.body and may:
                    wrong.append(f"refused against {operation.policy}: {where}")
                elif status == 404 and persona in ("member", "admin") and not ABSENT & variables(api, path):
                    rows.append(f"# 404 for {persona}: {where}")
        rows.append(f"{api:<11} {operation.key:<70} " + " ".join(row) + f"   {operation.policy or 'public'}")
    report = os.environ.get("CLOUDCTL_MATRIX")
    if report:
        Path(f"{report}.{service}").write_text("\n".join(rows) + "\n")
    assert wrong == []
    # The secrets would not be protected from anybody if nobody ever saw them.
    assert TOLD.get(service, set()) <= world.told
    assert counts["2xx"] > 10 and counts["4xx"] > 50


def test_every_service_is_asked(world: World) -> None:
    assert set(world.apis) == set(APIS)


def test_every_operation_has_a_rule_and_a_summary(world: World) -> None:
    known = world.cloud.cloud.policy.rules
    for api, _, operation in world.operations():
        assert operation.policy is None or operation.policy in known, (api, operation.key)
        assert operation.summary, f"{api} {operation.key} has no docstring"


def test_every_rule_is_used(world: World) -> None:
    """A rule that nothing checks misleads the operator who overrides it."""
    rules = world.cloud.cloud.policy.rules
    operations = [operation for each in world.cloud.cloud.served for _, operation in each.api.operations]
    used = {operation.policy for operation in operations} | set(NAMES)
    sources = "\n".join(path.read_text() for path in Path("cloudctl").rglob("*.py"))
    texts = " ".join(rule.text for rule in rules.values()).split()

    def asked(name: str) -> bool:
        # A family such as networks:update:FIELD is checked by a composed name.
        family = name.rpartition(":")[0] + ":{"
        return name in used or name in texts or f'"{name}"' in sources or family in sources

    assert [name for name in rules if not asked(name)] == []
