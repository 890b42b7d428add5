"""`/qos/policies/{id}/TYPE_rules`, and the same rules without their policy in the path.

Reference: network.md, section 10. There is one declaration per type; the Operations are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from attrs import field, frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.network import qos_policies, qos_rules
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.qos_rules import NewRule, Type
from cloudctl.network.tables import QosPolicy, QosRule
from cloudctl.rest import resource
from cloudctl.rest.body import Body, Check, Loose, Range, ValueProblem, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Listing, any_of, number
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Operation, Routes

MARKS = (0, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 44, 46, 48, 56)
Rate = Annotated[int, Loose(), Range(0)]


def _mark(value: int) -> int:
    if value not in MARKS:
        raise ValueProblem(f"{value} is not one of {', '.join(map(str, MARKS))}")
    return value


Mark = Annotated[int, Loose(), Check(_mark)]
c = QosRule
TITLE = "QoS rules"


def _direction(type: Any, default: Any = "egress") -> Attribute:
    return Attribute("direction", c.direction, type, post=default, put=True, filter=any_of, sort=True)


def _number(name: str, type: Any = Rate) -> Attribute:
    return Attribute(name, c.value, type, post=REQUIRED, put=True, filter=number, sort=True)


def _burst(name: str) -> Attribute:
    return Attribute(name, c.burst, Rate, post=0, put=True, filter=number, sort=True)


@frozen(eq=False)
class DeclaredRule:
    """A type of rules: `says` is what its body may have besides the id."""

    type: Type
    says: tuple[Attribute, ...]
    noun: str
    name: str = field(init=False)  # in JSON
    attributes: tuple[Attribute, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.type.name}_rule")
        object.__setattr__(self, "attributes", (Attribute("id", c.id, filter=any_of, sort=True), *self.says))

    @cached_property
    def collection(self) -> lists.Collection:
        listing = Listing(
            c.table,
            sort_keys=resource.sort_keys(self.attributes),
            order=(("id", "asc"),),
            filters=resource.filters(self.attributes),
        )
        return lists.Collection(f"{self.name}s", listing, qos_rules.not_found)

    @cached_property
    def routes(self) -> Routes:
        """The Operations, named after the methods of QosRules that answer them."""
        routes = Routes(TITLE)
        several = f"/qos/policies/<policy_id>/{self.name}s"
        one, alias = f"{several}/<{self.type.name}_id>", f"/qos/alias_{self.name}s/<{self.type.name}_id>"
        create = Body(resource.body(f"Create {self.name}", self.attributes), self.name)
        update = Body(resource.body(f"Update {self.name}", self.attributes, update=True), self.name)

        def add(method: str, path: str, handler: str, rule: str, summary: str, **options: Any) -> None:
            rule = f"network:qos_rules:{rule}"
            routes.operations.append(Operation(TITLE, method, path, handler, rule, summary=summary, **options))

        add("GET", several, "list", "show", f"List {self.noun}s of a policy.", pure=True)
        add("POST", several, "create", "change", f"Add a {self.noun} to a policy.", status=201, body=create)
        for path, suffix, of in ((one, "", ""), (alias, "_alone", " whose policy one does not know")):
            add("GET", path, f"show{suffix}", "show", f"Show a {self.noun}{of}.", pure=True)
            add("PUT", path, f"update{suffix}", "change", f"Change a {self.noun}{of}; ports follow.", body=update)
            add("DELETE", path, f"delete{suffix}", "change", f"Delete a {self.noun}{of}.", status=204)
        return routes

    def views(self, conn: Connection, call: Call, rows: Sequence[QosRule]) -> list[Json]:
        return resource.views(conn, call, self.attributes, rows)


RULES = {
    each.type.name: each
    for each in (
        DeclaredRule(
            qos_rules.BANDWIDTH,
            (_number("max_kbps"), _burst("max_burst_kbps"), _direction(Literal["egress", "ingress"])),
            "bandwidth limit",
        ),
        DeclaredRule(qos_rules.MARKING, (_number("dscp_mark", Mark),), "DSCP marking"),
        DeclaredRule(
            qos_rules.GUARANTEED,
            (_number("min_kbps"), _direction(Literal["egress", "ingress"])),
            "minimum bandwidth",
        ),
        DeclaredRule(
            qos_rules.PACKETS,
            (_number("max_kpps"), _burst("max_burst_kpps"), _direction(Literal["egress", "ingress"])),
            "packet rate limit",
        ),
        DeclaredRule(
            qos_rules.GUARANTEED_PACKETS,
            (_number("min_kpps"), _direction(Literal["egress", "ingress", "any"])),
            "minimum packet rate",
        ),
    )
}
"""Name of a type → its rules."""


def offered(driver: Any) -> list[DeclaredRule]:
    """The types that a driver obeys."""
    return [each for each in RULES.values() if each.type.needs is None or each.type.needs.providedBy(driver)]


@frozen
class QosRules:
    """The Operations on rules of one type; `routes` lists them."""

    db: Database
    declared: DeclaredRule

    @property
    def routes(self) -> Routes:
        return self.declared.routes

    def _id(self, path: dict[str, str]) -> str:
        return path[f"{self.declared.type.name}_id"]

    async def list(self, call: Call, policy_id: str) -> Json:
        return await self.db.scan(self._list, call, policy_id)

    def _list(self, conn: Connection, call: Call, policy_id: str) -> Json:
        policy = qos_policies.visible(conn, call.caller, policy_id)
        of_type = c.policy_id == policy.id, c.type == self.declared.type.name
        page = lists.fetch(conn, call, self.declared.collection, *of_type)
        return lists.answer(call, self.declared.collection, page, self.declared.views(conn, call, page.rows))

    async def create(self, call: Call, policy_id: str, body: Any) -> Json:
        return {self.declared.name: await self.db.run(self._create, call, policy_id, body)}

    def _create(self, conn: Connection, call: Call, policy_id: str, body: Any) -> Json:
        new = NewRule(self.declared.type, **given(body))
        return self._one(conn, call, qos_rules.add(conn, _locked(conn, call, policy_id), new, call.now, call.caller))

    async def show(self, call: Call, policy_id: str, **path: str) -> Json:
        found = await self.db.read(self._show, call, policy_id, self._id(path))
        return {self.declared.name: lists.narrowed(call, found)}

    def _show(self, conn: Connection, call: Call, policy_id: str, id: str) -> Json:
        policy = qos_policies.visible(conn, call.caller, policy_id)
        return self._one(conn, call, qos_rules.get(conn, policy, self.declared.type, id))

    async def update(self, call: Call, policy_id: str, body: Any, **path: str) -> Json:
        return {self.declared.name: await self.db.run(self._update, call, policy_id, self._id(path), body)}

    def _update(self, conn: Connection, call: Call, policy_id: str, id: str, body: Any) -> Json:
        policy = _locked(conn, call, policy_id)
        row, changes = qos_rules.get(conn, policy, self.declared.type, id), given(body)
        if changes:
            row = qos_rules.change(conn, policy, row, changes, call.now, call.caller)
        return self._one(conn, call, row)

    async def delete(self, call: Call, policy_id: str, **path: str) -> None:
        await self.db.run(self._delete, call, policy_id, self._id(path))

    def _delete(self, conn: Connection, call: Call, policy_id: str, id: str) -> None:
        policy = _locked(conn, call, policy_id)
        row = qos_rules.get(conn, policy, self.declared.type, id)
        qos_rules.remove(conn, policy, row, call.now, call.caller)

    # -- without the policy in the path

    async def show_alone(self, call: Call, **path: str) -> Json:
        found = await self.db.read(self._alone, self._show, call, self._id(path))
        return {self.declared.name: lists.narrowed(call, found)}

    async def update_alone(self, call: Call, body: Any, **path: str) -> Json:
        return {self.declared.name: await self.db.run(self._alone, self._update, call, self._id(path), body)}

    async def delete_alone(self, call: Call, **path: str) -> None:
        await self.db.run(self._alone, self._delete, call, self._id(path))

    def _alone(self, conn: Connection, do: Callable[..., Any], call: Call, id: str, *rest: Any) -> Any:
        """`do` with the policy that a rule belongs to. Any NotFound is raised for the rule."""
        policy_id = qos_rules.policy_of(conn, self.declared.type, id)
        if policy_id is None:
            raise qos_rules.not_found(id)
        try:
            return do(conn, call, policy_id, id, *rest)
        except NotFound:
            raise qos_rules.not_found(id) from None

    def _one(self, conn: Connection, call: Call, row: QosRule) -> Json:
        return self.declared.views(conn, call, [row])[0]


def _locked(conn: Connection, call: Call, policy_id: str) -> QosPolicy:
    """The policy, locked, if the caller may change it."""
    row = qos_policies.visible(conn, call.caller, policy_id, lock=True)
    call.require(project_id=row.project_id)
    return row


def views_in_policy(conn: Connection, call: Call, rows: Sequence[QosRule]) -> list[Json]:
    """The rules of a policy, whatever their types."""
    return [
        {**RULES[row.type].views(conn, call, [row])[0], "qos_policy_id": row.policy_id, "type": row.type}
        for row in rows
    ]
