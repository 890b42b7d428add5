"""Security groups and their rules. Reference: network.md, section 9; network-rules.md, sections 5 and 8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import bindparam, delete, insert, or_, select
from sqlalchemy.exc import IntegrityError

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.drivers.specs import SecurityGroupRule, SecurityGroupSpec
from cloudctl.errors import Conflict
from cloudctl.network import kinds, quotas, rule_templates, shares, shown, standard, tags
from cloudctl.network.owned import Owned
from cloudctl.network.rules import NewRule, columns
from cloudctl.network.tables import AddressGroup, Port, PortSecurityGroup, SecurityGroup
from cloudctl.network.tables import SecurityGroupRule as SecurityGroupRuleRecord
from cloudctl.rest import quota
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Origin

DEFAULT = "default"
DEFAULT_DESCRIPTION = "Default security group"


@frozen
class NewGroup:
    name: str
    description: str = ""
    stateful: bool = True


# -- who sees what

RECORDS = Owned(
    SecurityGroup, "Security group {} does not exist", "SecurityGroupNotFound", shared=shares.SECURITY_GROUP
)
get, visible, visible_to, not_found = RECORDS.get, RECORDS.visible, RECORDS.visible_to, RECORDS.not_found
RULES = Owned(SecurityGroupRuleRecord, "Security group rule {} does not exist", "SecurityGroupRuleNotFound")
visible_rule, rules_visible_to, rule_not_found = RULES.visible, RULES.visible_to, RULES.not_found


def in_turn(conn: Connection, caller: Caller, id: str, remote: Iterable[str] = ()) -> SecurityGroup:
    """The group, locked for `add_rules`: after the turn, as by who puts a new port into it.

    `remote`: the groups that the rules will name.
    """
    return quotas.after_turn(conn, caller, id, visible, between=lambda conn, _: _hold(conn, {id, *remote}))


def to_remove(conn: Connection, caller: Caller, id: str) -> SecurityGroup:
    """The group, locked for `remove`: after the turn, and with the groups that lose rules."""

    def with_those_that_name_it(conn: Connection, group: SecurityGroup) -> None:
        _hold(conn, {group.id, *conn.scalars(_naming, {"group": group.id})})

    return quotas.after_turn(conn, caller, id, visible, between=with_those_that_name_it)


def rule_in_turn(conn: Connection, caller: Caller, id: str) -> SecurityGroupRuleRecord:
    """The rule, locked for `remove_rule` after its group."""

    def its_group(conn: Connection, rule: SecurityGroupRuleRecord) -> None:
        _hold(conn, {rule.security_group_id})

    return quotas.after_turn(conn, caller, id, visible_rule, between=its_group)


def _hold(conn: Connection, ids: Collection[str]) -> None:
    """Lock groups. Rules name groups of other projects, too, and all of these come and go at the same time."""
    for _ in standard.rows(conn, _locked, groups=sorted(ids)):
        """Each in its turn."""


# Built once: building a statement costs more than running it.
_locked = (
    select(SecurityGroup.id)
    .where(SecurityGroup.id.in_(bindparam("groups", expanding=True)))
    .order_by(SecurityGroup.id)
    .with_for_update()
)
_with_rules = (
    select(SecurityGroup.stateful, SecurityGroup.revision, SecurityGroupRuleRecord)
    .join_from(
        SecurityGroup,
        SecurityGroupRuleRecord,
        SecurityGroupRuleRecord.security_group_id == SecurityGroup.id,
        isouter=True,
    )
    .where(SecurityGroup.id == bindparam("wanted"))
    .order_by(SecurityGroupRuleRecord.created_at, SecurityGroupRuleRecord.id)
)
_default = select(SecurityGroup.id).where(
    SecurityGroup.project_id == bindparam("project"), SecurityGroup.is_default.is_(True)
)
_rules = (
    select(SecurityGroupRuleRecord)
    .where(SecurityGroupRuleRecord.security_group_id.in_(bindparam("groups", expanding=True)))
    .order_by(SecurityGroupRuleRecord.security_group_id, SecurityGroupRuleRecord.created_at, SecurityGroupRuleRecord.id)
)


_new_rule = insert(SecurityGroupRuleRecord)
_delete_rule = delete(SecurityGroupRuleRecord).where(SecurityGroupRuleRecord.id == bindparam("wanted"))
_same = (
    select(SecurityGroupRuleRecord.id)
    .where(SecurityGroupRuleRecord.security_group_id == bindparam("group"))
    .where(SecurityGroupRuleRecord.meaning.in_(bindparam("meanings", expanding=True)))
    .limit(1)
)
_realised = (
    select(Port.id)
    .join_from(PortSecurityGroup, Port, Port.id == PortSecurityGroup.port_id)
    .where(PortSecurityGroup.security_group_id == bindparam("group"), or_(Port.realised.is_(True), Port.host != ""))
    .limit(1)
)


_in_group = select(PortSecurityGroup.port_id).where(PortSecurityGroup.security_group_id == bindparam("group"))
_members = standard.in_order(Port, Port.id.in_(_in_group))
_addresses = select(AddressGroup.addresses).where(AddressGroup.id == bindparam("group"))
_naming = (
    select(SecurityGroupRuleRecord.security_group_id)
    .where(SecurityGroupRuleRecord.remote_group_id == bindparam("group"))
    .distinct()
)
_naming_addresses = (
    select(SecurityGroupRuleRecord.security_group_id)
    .where(SecurityGroupRuleRecord.remote_address_group_id == bindparam("group"))
    .order_by(SecurityGroupRuleRecord.security_group_id)
    .distinct()
)


def default_of(conn: Connection, project_id: str) -> str | None:
    """The id of a project's `default` group, None before it is made."""
    return conn.scalar(_default, {"project": project_id})


def rules_of(conn: Connection, group_ids: Sequence[str]) -> dict[str, list[SecurityGroupRuleRecord]]:
    """Group id → its rules, the oldest first. Groups without rules are missing."""
    return standard.grouped((row.security_group_id, row) for row in standard.rows(conn, _rules, groups=group_ids))


def names(conn: Connection, ids: Iterable[str]) -> dict[str, str]:
    """Id → name. Ids of no group are missing."""
    query = select(SecurityGroup.id, SecurityGroup.name).where(SecurityGroup.id.in_(sorted(set(ids))))
    return dict(conn.execute(query))


def by_ids(conn: Connection, ids: Iterable[str]) -> dict[str, SecurityGroup]:
    """Id → group. Ids of no group are missing."""
    query = select(SecurityGroup).where(SecurityGroup.id.in_(sorted(set(ids))))
    return {row.id: row for row in conn.execute(query)}


def resolve(conn: Connection, project_id: str, names_or_ids: Iterable[str]) -> list[str]:
    """The ids of a project's groups, in the requested order and each once.

    Raises NotFound for a group that the project does not have, Conflict for a name that two have.
    """
    wanted = list(dict.fromkeys(names_or_ids))
    query = select(SecurityGroup.id, SecurityGroup.name).where(
        SecurityGroup.project_id == project_id,
        or_(SecurityGroup.id.in_(wanted), SecurityGroup.name.in_(wanted)),
    )
    groups = conn.execute(query).all()
    found = []
    for each in wanted:
        matches = [id for id, _ in groups if id == each] or [id for id, name in groups if name == each]
        if not matches:
            raise not_found(each)
        if len(matches) > 1:
            raise Conflict(f"Multiple security groups match name '{each}'. Use an ID to be more specific.")
        found.append(matches[0])
    return list(dict.fromkeys(found))


def check_ids(conn: Connection, project_id: str, ids: Iterable[str], everybodys: bool) -> list[str]:
    """The ids, each once, of a project's groups and of those shared with it; none can be deleted before the commit.

    `everybodys`: groups of other projects are accepted, too. Raises NotFound, Conflict for a mix of stateful and
    stateless groups.
    """
    wanted = list(dict.fromkeys(ids))
    query = select(SecurityGroup).where(SecurityGroup.id.in_(wanted)).order_by(SecurityGroup.id)
    found = {
        row.id: row
        for row in conn.execute(query.with_for_update(read=True, key_share=True))
        if everybodys or row.project_id == project_id or shares.reaches(conn, row.id, project_id)
    }
    for each in wanted:
        if each not in found:
            raise not_found(each)
    if len({row.stateful for row in found.values()}) > 1:
        message = "Cannot apply both stateful and stateless security groups on the same port at the same time"
        raise Conflict(message, type="SecurityGroupConflict")
    return wanted


# -- groups


def ensure_default(conn: Connection, project_id: str, now: datetime) -> str:
    """The id of the project's `default` group, which is made if it does not exist."""
    found = default_of(conn, project_id)
    if found is not None:
        return found
    values = standard.new(project_id, now, description=DEFAULT_DESCRIPTION)
    try:
        with conn.begin_nested():
            conn.execute(insert(SecurityGroup).values(**values, name=DEFAULT, stateful=True, is_default=True))
    except IntegrityError:
        # Another transaction made it meanwhile.
        found = default_of(conn, project_id)
        assert found is not None
        return found
    own: str = values["id"]
    _insert_rules(conn, project_id, own, rule_templates.rules_of_new(conn, own, True), now)
    return own


def create(conn: Connection, project_id: str, new: NewGroup, now: datetime) -> SecurityGroup:
    """Raises Conflict for the name `default`, OverQuota."""
    ensure_default(conn, project_id, now)
    if new.name.lower() == DEFAULT:
        raise Conflict("Default security group already exists.", type="SecurityGroupDefaultAlreadyExists")
    values = standard.new(project_id, now, description=new.description)
    new_rules = rule_templates.rules_of_new(conn, values["id"], False)
    quota.take(conn, quotas.QUOTAS, project_id, {"security_group": 1, "security_group_rule": len(new_rules)})
    conn.execute(insert(SecurityGroup).values(**values, name=new.name, stateful=new.stateful))
    _insert_rules(conn, project_id, values["id"], new_rules, now)
    return get(conn, values["id"])


def lock_members(conn: Connection, group_id: str) -> None:
    """Lock the ports in a group that is about to get another name, which they show, before the group."""
    standard.hold(conn, _members, group=group_id)


def change(conn: Connection, row: SecurityGroup, changes: dict[str, Any], now: datetime, by: Origin) -> SecurityGroup:
    """Set name, description, stateful of a locked group. Raises Conflict."""
    name = changes.get("name", row.name)
    if name != row.name and row.is_default:
        raise Conflict("Updating default security group not allowed.", type="SecurityGroupCannotUpdateDefault")
    if name.lower() == DEFAULT and not row.is_default:
        raise Conflict("Default security group already exists.", type="SecurityGroupDefaultAlreadyExists")
    if changes.get("stateful", row.stateful) != row.stateful and _is_used(conn, row.id):
        raise _in_use(row.id)
    standard.change(conn, SecurityGroup.table, row.id, now, **changes)
    if name != row.name:
        shown.group_changed(conn, row.id)
    _realise(conn, row.id, now, by)
    return get(conn, row.id)


def remove(conn: Connection, row: SecurityGroup, now: datetime, by: Origin, default_too: bool = False) -> None:
    """Delete a group from `to_remove`, and rules and templates that name it. Raises Conflict while ports are in it."""
    if row.is_default and not default_too:
        raise Conflict(
            "Insufficient rights for removing default security group.", type="SecurityGroupCannotRemoveDefault"
        )
    if _is_used(conn, row.id):
        raise _in_use(row.id)
    rules = SecurityGroupRuleRecord.table
    others = [each for each in conn.scalars(_naming, {"group": row.id}) if each != row.id]
    gone = or_(rules.c.security_group_id == row.id, rules.c.remote_group_id == row.id)
    tags.forget_all(conn, select(rules.c.id).where(gone))
    conn.execute(delete(rules).where(gone))
    for other in others:
        _rules_changed(conn, other, now, by)
    rule_templates.forget_group(conn, row.id)
    RECORDS.delete(conn, row)
    tasks.supersede(conn, kinds.DELETE_SECURITY_GROUP, row.id, by)


def _is_used(conn: Connection, group_id: str) -> bool:
    query = select(PortSecurityGroup.port_id).where(PortSecurityGroup.security_group_id == group_id).limit(1)
    return conn.execute(query).first() is not None


def _in_use(group_id: str) -> Conflict:
    return Conflict(f"Security Group {group_id} in use.", type="SecurityGroupInUse")


# -- rules


def add_rules(
    conn: Connection, group: SecurityGroup, wanted: Sequence[NewRule], now: datetime, by: Origin
) -> list[SecurityGroupRuleRecord]:
    """Add rules to a group from `in_turn`, all or none. Raises Invalid, OverQuota, Conflict (one is there already)."""
    found = [columns(rule) for rule in wanted]
    meanings = [rule["meaning"] for rule in found]
    if len(set(meanings)) < len(meanings):
        message = "Duplicate Security Group Rule in POST."
        raise Conflict(message, type="DuplicateSecurityGroupRuleInPost")
    existing = conn.scalar(_same, {"group": group.id, "meanings": meanings})
    if existing is not None:
        message = f"Security group rule already exists. Rule id is {existing}."
        raise Conflict(message, type="SecurityGroupRuleExists")
    quota.take(conn, quotas.QUOTAS, group.project_id, {"security_group_rule": len(found)})
    made = _insert_rules(conn, group.project_id, group.id, found, now)
    _rules_changed(conn, group.id, now, by)
    return made


def remove_rule(conn: Connection, row: SecurityGroupRuleRecord, now: datetime, by: Origin) -> None:
    tags.forget(conn, row.id)
    conn.execute(_delete_rule, {"wanted": row.id})
    _rules_changed(conn, row.security_group_id, now, by)


def _insert_rules(
    conn: Connection, project_id: str, group_id: str, found: Sequence[dict[str, Any]], now: datetime
) -> list[SecurityGroupRuleRecord]:
    rules = [
        SecurityGroupRuleRecord(**standard.new(project_id, now, security_group_id=group_id, **rule)) for rule in found
    ]
    if rules:
        conn.execute(_new_rule, [rule._asdict() for rule in rules])
    return rules


def _rules_changed(conn: Connection, group_id: str, now: datetime, by: Origin) -> None:
    standard.change(conn, SecurityGroup.table, group_id, now)
    _realise(conn, group_id, now, by)


# -- the driver


def _realise(conn: Connection, group_id: str, now: datetime, by: Origin) -> None:
    """Update the driver if it holds a port in the group, or is about to: only then does it hold the group."""
    if conn.execute(_realised, {"group": group_id}).first() is not None:
        tasks.submit_once(conn, kinds.ENSURE_SECURITY_GROUP, group_id, by)


def driver_spec(conn: Connection, group_id: str) -> SecurityGroupSpec | None:
    """The group as the driver shall hold it; None if there is none."""
    found = held(conn, group_id)
    return None if found is None else found[0]


def held(conn: Connection, group_id: str) -> tuple[SecurityGroupSpec, int] | None:
    """The same with the revision that it has."""
    rows = conn.execute(_with_rules, {"wanted": group_id}).all()
    if not rows:
        return None
    stateful, revision, _ = rows[0]
    # The row of a group without rules has a rule of Nones.
    specs = (spec for *_, rule in rows if rule.id for spec in _rule_specs(conn, rule))
    return SecurityGroupSpec(id=group_id, rules=tuple(specs), stateful=stateful), revision


def _rule_specs(conn: Connection, row: SecurityGroupRuleRecord) -> list[SecurityGroupRule]:
    """The rule; one that names an address group becomes a rule for each of that group's addresses of the family."""
    rule = SecurityGroupRule(
        direction=row.direction,
        ethertype=row.ethertype,
        protocol=row.protocol,
        port_range_min=row.port_range_min,
        port_range_max=row.port_range_max,
        remote_prefix=row.remote_ip_prefix,
        remote_group_id=row.remote_group_id,
    )
    if row.remote_address_group_id is None:
        return [rule]
    addresses = conn.scalar(_addresses, {"group": row.remote_address_group_id}) or []
    return [evolve(rule, remote_prefix=each) for each in addresses if (":" in each) is (row.ethertype == "IPv6")]


def address_group_changed(conn: Connection, address_group_id: str, now: datetime, by: Origin) -> None:
    """Update the security groups that let the address group's addresses through."""
    for group_id in conn.scalars(_naming_addresses, {"group": address_group_id}).all():
        _realise(conn, group_id, now, by)
