"""Allocations: who has how much of which provider. Nobody gets more than there is.

Taking something first locks the provider, by raising its generation, and then reads what is left: two that want the
last of it take turns. The scheduler (`claims`) and the API write through the same functions.
Reference: compute-scheduling.md, section 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.errors import Conflict, Invalid
from cloudctl.placement.tables import Allocation, Consumer, Inventory, Provider

INSTANCE, MIGRATION, UNKNOWN = "INSTANCE", "MIGRATION", "unknown"
# The generation of a consumer that has just been given what it is to have for the first time.
FIRST = 1
# What is kept of an Owner, beside the id.
SAID = ("project_id", "user_id", "type")

Amounts = Mapping[str, int]
"""Resource class → how much."""

# Built once: building costs more than running it.
_lock = (
    update(Provider)
    .where(Provider.id == bindparam("of"))
    .values(generation=Provider.generation + 1, shares=Provider.shares + bindparam("more"))
)
_there = select(Provider.id).where(Provider.id == bindparam("of"))
# The provider is locked already, and has its new generation.
_count = update(Provider).where(Provider.id == bindparam("of")).values(shares=Provider.shares + bindparam("more"))
_has = select(Inventory).where(Inventory.provider_id == bindparam("of"))
_use = (
    update(Inventory)
    .where(Inventory.provider_id == bindparam("of"), Inventory.resource_class == bindparam("resource"))
    .values(used=Inventory.used + bindparam("more"))
)
_new = insert(Allocation)
_new_consumer = insert(Consumer)
_consumer = select(Consumer).where(Consumer.id == bindparam("by"))
_locked = _consumer.with_for_update()
# Both databases know this form of INSERT.
_given = postgresql.insert(Consumer.table)
_make_or_raise = _given.on_conflict_do_update(
    index_elements=[Consumer.table.c.id],
    set_={
        "generation": Consumer.generation + 1,
        # Old clients do not name the owner: it stays the same.
        **{name: func.coalesce(func.nullif(_given.excluded[name], ""), Consumer.table.c[name]) for name in SAID},
    },
)
_raise = update(Consumer).where(Consumer.id == bindparam("by")).values(generation=Consumer.generation + 1)
_held = (
    select(Allocation)
    .where(Allocation.consumer_id == bindparam("by"))
    .order_by(Allocation.provider_id, Allocation.resource_class)
)
_let_go = delete(Allocation).where(Allocation.consumer_id == bindparam("by"))
_forget = delete(Consumer).where(Consumer.id == bindparam("by"))


class Contended(Conflict):
    """Somebody else has changed the consumer or the provider in the meantime: read again, then try again."""

    type = "placement.concurrent_update"


@frozen
class Owner:
    """Whose allocations they are."""

    consumer_id: str
    project_id: str
    user_id: str = ""
    type: str = INSTANCE


@frozen
class NewAllocations:
    """All that a consumer is to have: provider → amounts; if empty, the consumer is forgotten.

    `generation` is that of the consumer as it was read, None for a new one. `checked`: whether it must be unchanged.
    """

    owner: Owner
    shares: Mapping[str, Amounts] = field(factory=dict)
    generation: int | None = None
    checked: bool = True


def find_consumer(conn: Connection, consumer_id: str) -> Consumer | None:
    return conn.execute(_consumer, {"by": consumer_id}).first()


def held(conn: Connection, consumer_id: str) -> dict[str, dict[str, int]]:
    """Provider → what the consumer has of it."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in conn.execute(_held, {"by": consumer_id}):
        found[row.provider_id][row.resource_class] = row.amount
    return dict(found)


def too_much(inventory: Inventory | None, amount: int) -> str:
    """Why this amount cannot be taken, now or at all; empty: it can. The rule of capacity."""
    if inventory is None:
        return "there is no such inventory"
    if not inventory.min_unit <= amount <= inventory.max_unit or amount % inventory.step_size:
        return f"{amount} is not {inventory.min_unit} to {inventory.max_unit} in steps of {inventory.step_size}"
    if inventory.used + amount > inventory.capacity:
        return f"{inventory.used} of {inventory.capacity} are used, {amount} more are too many"
    return ""


def take(conn: Connection, owner: Owner, provider_id: str, amounts: Amounts) -> bool:
    """Add a share of a provider of which the consumer has none. If it does not fit: False, and nothing is taken.

    A share of nothing is none: nobody could give it back.
    """
    if not amounts:
        return conn.execute(_there, {"of": provider_id}).first() is not None
    if not conn.execute(_lock, {"of": provider_id, "more": 1}).rowcount:
        return False  # there is no such provider (any more), whatever there is of inventories
    has = {each.resource_class: each for each in conn.execute(_has, {"of": provider_id})}
    if any(too_much(has.get(name), amount) for name, amount in amounts.items()):
        conn.execute(_count, {"of": provider_id, "more": -1})
        return False
    _ensure_consumer(conn, owner)
    _write(conn, owner.consumer_id, provider_id, amounts)
    return True


def release(conn: Connection, consumer_id: str) -> None:
    """Give back everything the consumer has, and forget it. Repeating it does nothing."""
    # It comes first, so that of two at once only one gives anything back.
    if not conn.execute(_forget, {"by": consumer_id}).rowcount:
        return
    shares = held(conn, consumer_id)
    for provider_id in sorted(shares):
        conn.execute(_lock, {"of": provider_id, "more": -1})
    _give_back(conn, consumer_id, shares)


def hand_over(conn: Connection, from_id: str, to_id: str, type: str) -> None:
    """Give all that one consumer has to another, which must have nothing of these providers. May be repeated."""
    old = conn.execute(_locked, {"by": from_id}).first()
    if old is None:
        return
    if find_consumer(conn, to_id) is None:
        conn.execute(_new_consumer, old._replace(id=to_id, type=type, generation=FIRST)._asdict())
    else:
        conn.execute(_raise, {"by": to_id})
    conn.execute(update(Allocation).where(Allocation.consumer_id == from_id).values(consumer_id=to_id))
    conn.execute(_forget, {"by": from_id})


def replace(conn: Connection, wanted: Sequence[NewAllocations]) -> None:
    """Give each of these consumers exactly what it is to have, all or none.

    Raises Contended for a consumer of another generation, Conflict if it does not fit, Invalid for a provider or a
    class that does not exist. The caller rolls the transaction back.
    """
    # Consumers before providers, and each in one order, so that no two wait for each other.
    in_order = sorted(wanted, key=lambda each: each.owner.consumer_id)
    new = {each.owner.consumer_id for each in in_order if _lock_or_make(conn, each)}
    before = {each.owner.consumer_id: held(conn, each.owner.consumer_id) for each in wanted}
    providers = {provider_id for each in wanted for provider_id in (*each.shares, *before[each.owner.consumer_id])}
    for provider_id in sorted(providers):
        if not conn.execute(_lock, {"of": provider_id, "more": 0}).rowcount:
            raise Invalid(f"Allocation for resource provider '{provider_id[:64]}' that does not exist.")
    for each in wanted:
        if before[each.owner.consumer_id]:
            mine = before[each.owner.consumer_id]
            conn.execute(_count, [{"of": provider_id, "more": -1} for provider_id in mine])
            _give_back(conn, each.owner.consumer_id, mine)
    for each in wanted:
        _put(conn, each, each.owner.consumer_id in new)


def _put(conn: Connection, wanted: NewAllocations, is_new: bool) -> None:
    owner = wanted.owner
    if not wanted.shares:
        conn.execute(_forget, {"by": owner.consumer_id})
        return
    for provider_id, amounts in wanted.shares.items():
        has = {each.resource_class: each for each in conn.execute(_has, {"of": provider_id})}
        for name, amount in amounts.items():
            if why := too_much(has.get(name), amount):
                raise Conflict(f"Unable to allocate inventory of {name} on resource provider {provider_id}: {why}.")
        conn.execute(_count, {"of": provider_id, "more": 1})
        _write(conn, owner.consumer_id, provider_id, amounts)
    if not is_new:
        _ensure_consumer(conn, owner)


def _lock_or_make(conn: Connection, wanted: NewAllocations) -> bool:
    """Whether the consumer is new. Nobody else changes it before the transaction ends. Raises Contended."""
    owner = wanted.owner
    while (found := conn.execute(_locked, {"by": owner.consumer_id}).first()) is None:
        _check_generation(wanted, None)
        if not wanted.shares:
            return False
        try:
            with conn.begin_nested():
                conn.execute(_new_consumer, {"id": owner.consumer_id, **_said(owner), "generation": FIRST})
        except IntegrityError:
            continue  # another transaction has just made it
        return True
    _check_generation(wanted, found.generation)
    return False


def _check_generation(wanted: NewAllocations, generation: int | None) -> None:
    """Raises Contended."""
    if wanted.checked and generation != wanted.generation:
        raise Contended(
            f"consumer generation conflict - expected {_told(generation)} but got {_told(wanted.generation)}"
        )


def _told(generation: int | None) -> str:
    return "null" if generation is None else str(generation)


def _ensure_consumer(conn: Connection, owner: Owner) -> None:
    """Make sure that the consumer exists; if it did, raise its generation."""
    conn.execute(_make_or_raise, {"id": owner.consumer_id, **_said(owner), "generation": FIRST})


def _said(owner: Owner) -> dict[str, str]:
    return {name: getattr(owner, name) for name in SAID}


def _write(conn: Connection, consumer_id: str, provider_id: str, amounts: Amounts) -> None:
    if not amounts:
        return
    shares = {"consumer_id": consumer_id, "provider_id": provider_id}
    conn.execute(_new, [{**shares, "resource_class": name, "amount": amount} for name, amount in amounts.items()])
    _change_used(conn, provider_id, amounts, 1)


def _give_back(conn: Connection, consumer_id: str, shares: Mapping[str, Amounts]) -> None:
    """The providers are locked, and no longer count the consumer."""
    for provider_id in sorted(shares):
        _change_used(conn, provider_id, shares[provider_id], -1)
    conn.execute(_let_go, {"by": consumer_id})


def _change_used(conn: Connection, provider_id: str, amounts: Amounts, sign: int) -> None:
    changes = [{"of": provider_id, "resource": name, "more": sign * amount} for name, amount in amounts.items()]
    conn.execute(_use, changes)


def of_consumers(conn: Connection, consumer_ids: Iterable[str]) -> Mapping[str, Consumer]:
    found = conn.execute(select(Consumer).where(Consumer.id.in_(list(consumer_ids))))
    return {each.id: each for each in found}
