"""`/qos/policies/{id}/TYPE_rules`, and the same rules without their policy in the path.

Reference: network.md, section 10. There is one declaration per type; the Operations are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.errors import NotFound
from cloudctl.network import qos_policies, qos_rules
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import NAMED_OWNER, Json, check_owner
from cloudctl.network.qos_rules import NewRule, Type
from cloudctl.network.tables import QosPolicy, QosRule
from cloudctl.rest import resource
from cloudctl.rest.body import Check, Loose, Range, ValueProblem, given
from cloudctl.rest.call import Call
from cloudctl.rest.declared import ONE, SEVERAL, Described, Path, Resource, Verb
from cloudctl.rest.listing import Listing, any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Operation

MARKS = (0, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 44, 46, 48, 56)
Rate = Annotated[int, Loose(), Range(0)]


def _mark(value: int) -> int:
    if value not in MARKS:
        raise ValueProblem(f"{value} is not one of {', '.join(map(str, MARKS))}")
    return value


Mark = Annotated[int, Loose(), Check(_mark)]
c = QosRule


def _direction(type: Any, default: Any = "egress") -> Attribute:
    return Attribute("direction", c.direction, type, post=default, put=True, filter=any_of, sort=True)


def _number(name: str, type: Any = Rate) -> Attribute:
    return Attribute(name, c.value, type, post=REQUIRED, put=True, filter=number, sort=True)


def _burst(name: str) -> Attribute:
    return Attribute(name, c.burst, Rate, post=0, put=True, filter=number, sort=True)


def _alike(path: str, of: str) -> tuple[Verb, ...]:
    return (
        Verb("show", "GET", path, f"Show a {{noun}}{of}."),
        Verb("update", "PUT", path, f"Change a {{noun}}{of}; ports follow."),
        Verb("delete", "DELETE", path, f"Delete a {{noun}}{of}.", status=204),
    )


VERBS = (
    Verb("list", "GET", SEVERAL, "List {noun}s of a policy."),
    Verb("create", "POST", SEVERAL, "Add a {noun} to a policy.", status=201),
    *_alike(ONE, ""),
    *_alike("/qos/alias_{name}s/<{id}>", " whose policy one does not know"),
)


@frozen(kw_only=True, eq=False)
class DeclaredRule(Described[QosRule]):
    """A type of rules. Its noun is without an article."""

    type: Type

    @cached_property
    def collection(self) -> lists.Collection:
        listing = Listing(
            c.table,
            sort_keys=resource.sort_keys(self.attributes),
            order=(("id", "asc"),),
            filters=resource.filters(self.attributes),
        )
        return lists.Collection(self.plural, listing, qos_rules.not_found)

    @cached_property
    def operations(self) -> Sequence[Operation]:
        def rule(verb: str) -> str:
            return f"network:qos_rules:{'show' if verb in ('list', 'show') else 'change'}"

        return self.offer(VERBS, rule, {}, list={"pure": True}, show={"pure": True})

    async def listed(self, mounted: Resource[Any], call: Call, path: Path) -> Json:
        return await mounted.db.scan(self._list, call, path["policy_id"])

    def _list(self, conn: Connection, call: Call, policy_id: str) -> Json:
        policy = qos_policies.visible(conn, call.caller, policy_id)
        page = lists.fetch(conn, call, self.collection, c.policy_id == policy.id, c.type == self.type.name)
        return lists.answer(call, self.collection, page, self.views(conn, call, page.rows))

    def created(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        values = given(body)
        check_owner(call.caller, values)
        policy, new = self._locked(conn, call, path["policy_id"]), NewRule(self.type, **values)
        return self._one(conn, call, qos_rules.add(conn, policy, new, call.now, call.caller))

    def shown(self, conn: Connection, call: Call, path: Path) -> Json:
        with self._policy_of(conn, path) as policy_id:
            policy = qos_policies.visible(conn, call.caller, policy_id)
            row = qos_rules.get(conn, policy, self.type, path[self.id])
        return {self.name: lists.narrowed(call, self.views(conn, call, [row])[0])}

    def updated(self, conn: Connection, call: Call, path: Path, body: Any) -> Json:
        with self._policy_of(conn, path) as policy_id:
            policy = self._locked(conn, call, policy_id)
            row, changes = qos_rules.get(conn, policy, self.type, path[self.id]), given(body)
            if changes:
                row = qos_rules.change(conn, policy, row, changes, call.now, call.caller)
        return self._one(conn, call, row)

    def deleted(self, conn: Connection, call: Call, path: Path) -> None:
        with self._policy_of(conn, path) as policy_id:
            policy = self._locked(conn, call, policy_id)
            row = qos_rules.get(conn, policy, self.type, path[self.id])
            qos_rules.remove(conn, policy, row, call.now, call.caller)

    @contextmanager
    def _policy_of(self, conn: Connection, path: Path) -> Iterator[str]:
        """The policy that a rule belongs to. If the path does not name it, any NotFound is raised for the rule."""
        if "policy_id" in path:
            yield path["policy_id"]
            return
        id = path[self.id]
        policy_id = qos_rules.policy_of(conn, self.type, id)
        if policy_id is None:
            raise qos_rules.not_found(id)
        try:
            yield policy_id
        except NotFound:
            raise qos_rules.not_found(id) from None

    def _locked(self, conn: Connection, call: Call, policy_id: str) -> QosPolicy:
        """The policy, locked, if the caller may change it."""
        call.require(project_id=qos_policies.visible(conn, call.caller, policy_id).project_id)
        qos_rules.lock_ports(conn, policy_id, self.type)
        return qos_policies.visible(conn, call.caller, policy_id, lock=True)

    def _one(self, conn: Connection, call: Call, row: QosRule) -> Json:
        return {self.name: self.views(conn, call, [row])[0]}


def declared(type: Type, noun: str, *says: Attribute) -> DeclaredRule:
    """`says`: what is said of one, besides its id."""
    name = f"{type.name}_rule"
    return DeclaredRule(
        type=type,
        name=name,
        record=QosRule,
        path=f"/qos/policies/<policy_id>/{name}s",
        id=f"{type.name}_id",
        title="QoS rules",
        noun=noun,
        attributes=(Attribute("id", c.id, filter=any_of, sort=True), *says, *NAMED_OWNER),
    )


RULES = {
    each.type.name: each
    for each in (
        declared(
            qos_rules.BANDWIDTH,
            "bandwidth limit",
            _number("max_kbps"),
            _burst("max_burst_kbps"),
            _direction(Literal["egress", "ingress"]),
        ),
        declared(qos_rules.MARKING, "DSCP marking", _number("dscp_mark", Mark)),
        declared(
            qos_rules.GUARANTEED, "minimum bandwidth", _number("min_kbps"), _direction(Literal["egress", "ingress"])
        ),
        declared(
            qos_rules.PACKETS,
            "packet rate limit",
            _number("max_kpps"),
            _burst("max_burst_kpps"),
            _direction(Literal["egress", "ingress"]),
        ),
        declared(
            qos_rules.GUARANTEED_PACKETS,
            "minimum packet rate",
            _number("min_kpps"),
            _direction(Literal["egress", "ingress", "any"]),
        ),
    )
}
"""Name of a type → its rules."""


def offered(driver: Any) -> list[DeclaredRule]:
    """The types that a driver obeys."""
    return [each for each in RULES.values() if each.type.needs is None or each.type.needs.providedBy(driver)]


def views_in_policy(conn: Connection, call: Call, rows: Sequence[QosRule]) -> list[Json]:
    """The rules of a policy, whatever their types."""
    return [
        {**RULES[row.type].views(conn, call, [row])[0], "qos_policy_id": row.policy_id, "type": row.type}
        for row in rows
    ]
