"""Resource providers: their trees, what they have, and what is said about them. Two that change one take turns.

A host's provider has the host's id and name. What a driver reports about a host is written again every few seconds;
whatever else a client says about its provider stays. Reference: compute-scheduling.md, sections 2 and 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.turns import take_turn
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.placement import aggregates, names
from cloudctl.placement.allocations import Contended
from cloudctl.placement.tables import (
    Allocation,
    Host,
    Inventory,
    Provider,
    ProviderAggregate,
    ProviderTrait,
    ResourceClass,
    Trait,
)

TREES = "placement/trees"  # the turn of who changes one: a tree is several rows, and more is looked at than written
# Built once: building costs more than running it.
_next = (
    update(Provider)
    .where(Provider.id == bindparam("wanted"), Provider.generation == bindparam("known"))
    .values(generation=Provider.generation + 1, updated_at=bindparam("at"))
)


@frozen
class NewProvider:
    name: str
    id: str | None = None
    parent_id: str | None = None


@frozen
class NewInventory:
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1
    allocation_ratio: float = 1.0


class InUse(Conflict):
    """Consumers have a share of what is to be removed."""

    type = "placement.inventory.inuse"


RECORDS = ById(Provider, "No resource provider with uuid {} found", "placement.resource_provider.not_found")
find, get, not_found = RECORDS.find, RECORDS.get, RECORDS.not_found


def create(conn: Connection, new: NewProvider, now: datetime) -> Provider:
    """Raises Invalid for a parent that does not exist, Conflict for a name or an id that is taken."""
    id, root_id = new.id or new_id(), None
    if new.parent_id == id:
        raise Invalid("parent provider UUID cannot be same as UUID. Unable to create resource provider.")
    if new.parent_id is not None:
        take_turn(conn, TREES)
        root_id = _parent(conn, new.parent_id).root_id
    row = {"id": id, "name": new.name, "parent_id": new.parent_id, "root_id": root_id or id}
    try:
        with conn.begin_nested():
            conn.execute(insert(Provider).values(**row, created_at=now, updated_at=now))
    except IntegrityError:
        # Of a name that is taken, too, the id is told: it is what a client that repeats its request looks for.
        if find(conn, id) is not None:
            raise _taken("uuid", id) from None
        raise _taken("name", new.name) from None
    return get(conn, id)


def change(conn: Connection, provider: Provider, changes: Mapping[str, Any], now: datetime, moves: bool) -> Provider:
    """`name`, `parent_id`. `moves`: a provider with a parent may get another, or none.

    Raises NotFound, Invalid, Conflict.
    """
    if "parent_id" in changes:
        take_turn(conn, TREES)
        provider = get(conn, provider.id)
    parent_id = changes.get("parent_id", provider.parent_id)
    with unique(conn, _taken("name", changes.get("name", provider.name))):
        named = {"name": changes["name"], "updated_at": now}
        conn.execute(update(Provider).where(Provider.id == provider.id).values(named))
    if parent_id != provider.parent_id:
        if provider.parent_id is not None and not moves:
            raise Invalid("re-parenting a provider is not currently allowed.")
        _move(conn, provider, parent_id)
    return get(conn, provider.id)


def _move(conn: Connection, provider: Provider, parent_id: str | None) -> None:
    below = subtree(conn, provider)
    root_id = provider.id
    if parent_id is not None:
        if parent_id in below:
            raise Invalid("creating loop in the provider tree is not allowed.")
        root_id = _parent(conn, parent_id).root_id
    conn.execute(update(Provider).where(Provider.id == provider.id).values(parent_id=parent_id))
    conn.execute(update(Provider).where(Provider.id.in_(below)).values(root_id=root_id))


def subtree(conn: Connection, provider: Provider) -> set[str]:
    """The ids of a provider and of all below it."""
    tree = select(Provider.id, Provider.parent_id).where(Provider.root_id == provider.root_id)
    children: dict[str | None, list[str]] = {}
    for id, parent_id in conn.execute(tree):
        children.setdefault(parent_id, []).append(id)
    found, waiting = set(), [provider.id]
    while waiting:
        found.add(each := waiting.pop())
        waiting += children.get(each, [])
    return found


def _parent(conn: Connection, parent_id: str) -> Provider:
    found = find(conn, parent_id)
    if found is None:
        raise Invalid(f"parent provider UUID {parent_id[:64]} does not exist.")
    return found


def _taken(what: str, value: str) -> Conflict:
    return Conflict(f"Conflicting resource provider {what}: {value} already exists.", type="placement.duplicate_name")


def remove(conn: Connection, provider: Provider) -> None:
    """Raises NotFound, Conflict while it has children, consumers have a share of it, or it is a host."""
    take_turn(conn, TREES)
    provider = get(conn, provider.id)
    if conn.execute(select(Provider.id).where(Provider.parent_id == provider.id).limit(1)).first() is not None:
        raise Conflict(
            f"Unable to delete parent resource provider {provider.id}: It has child resource providers.",
            type="placement.resource_provider.cannot_delete_parent",
        )
    gone = delete(Provider).where(Provider.id == provider.id, Provider.shares == 0)
    is_host = conn.execute(select(Host.id).where(Host.id == provider.id)).first() is not None
    if is_host or not conn.execute(gone).rowcount:
        raise Conflict(
            f"Unable to delete resource provider {provider.id}: Resource provider has allocations.",
            type="placement.resource_provider.inuse",
        )
    _forget(conn, {provider.id})


def remove_tree(conn: Connection, provider_id: str) -> bool:
    """Remove a provider, and all below it. If consumers have a share of one of them: False, and all stay."""
    take_turn(conn, TREES)
    found = find(conn, provider_id)
    ids = {provider_id} if found is None else subtree(conn, found)
    locked = select(Provider.shares).where(Provider.id.in_(ids)).order_by(Provider.id).with_for_update()
    if any(conn.scalars(locked)):
        return False
    conn.execute(delete(Provider).where(Provider.id.in_(ids)))
    _forget(conn, ids)
    return True


def _forget(conn: Connection, ids: set[str]) -> None:
    """Whatever is said about these providers."""
    for table in (Inventory, ProviderTrait, ProviderAggregate):
        conn.execute(delete(table).where(table.table.c.provider_id.in_(ids)))


def advance(conn: Connection, provider_id: str, generation: int, now: datetime) -> Provider:
    """Raise the provider's generation, if it is this one; nobody else changes it before the transaction ends.

    Raises NotFound, Contended.
    """
    if not conn.execute(_next, {"wanted": provider_id, "known": generation, "at": now}).rowcount:
        found = get(conn, provider_id)
        raise Contended(
            f"resource provider generation conflict for resource provider {provider_id}: actual: {found.generation}, "
            f"given: {generation}. Please update the generation and try again."
        )
    return get(conn, provider_id)


# -- what it has


def inventories_of(conn: Connection, provider_id: str) -> dict[str, Inventory]:
    """Resource class → inventory, by name."""
    mine = select(Inventory).where(Inventory.provider_id == provider_id).order_by(Inventory.resource_class)
    return {each.resource_class: each for each in conn.execute(mine)}


def set_inventories(conn: Connection, provider_id: str, wanted: Mapping[str, NewInventory]) -> None:
    """These and no others. The provider is locked. Raises Invalid for an unknown class, InUse."""
    known = inventories_of(conn, provider_id)
    check_classes(conn, wanted, "Unknown resource class in inventory:", lock=True)
    gone = [each for name, each in known.items() if name not in wanted]
    if used := [each.resource_class for each in gone if each.used]:
        raise InUse(f"Inventory for '{', '.join(used)}' on resource provider '{provider_id}' in use.")
    for each in gone:
        remove_inventory(conn, each)
    for name, inventory in wanted.items():
        put_inventory(conn, provider_id, name, inventory, known.get(name))


def put_inventory(conn: Connection, provider_id: str, name: str, wanted: NewInventory, known: Inventory | None) -> None:
    if known is None:
        conn.execute(insert(Inventory).values(provider_id=provider_id, resource_class=name, **asdict(wanted)))
        return
    mine = Inventory.provider_id == provider_id, Inventory.resource_class == name
    conn.execute(update(Inventory).where(*mine).values(asdict(wanted)))


def remove_inventory(conn: Connection, inventory: Inventory) -> None:
    """Raises InUse."""
    if inventory.used:
        raise InUse(
            f"Inventory for '{inventory.resource_class}' on resource provider '{inventory.provider_id}' in use."
        )
    mine = Inventory.provider_id == inventory.provider_id, Inventory.resource_class == inventory.resource_class
    conn.execute(delete(Inventory).where(*mine))


# -- what is said about it


def traits_of(conn: Connection, provider_id: str) -> list[str]:
    mine = select(ProviderTrait.trait).where(ProviderTrait.provider_id == provider_id)
    return sorted(conn.scalars(mine))


def set_traits(conn: Connection, provider_id: str, wanted: Iterable[str]) -> None:
    """These and no others. The provider is locked. Raises Invalid for an unknown one."""
    asked = set(wanted)
    # They stay until the transaction ends: see `remove_trait`.
    made = select(Trait.name).where(Trait.name.in_(asked)).order_by(Trait.name).with_for_update(read=True)
    known = names.TRAITS | set(conn.scalars(made))
    if unknown := sorted(asked - known):
        raise Invalid(f"No such trait {', '.join(unknown)[:255]}.")
    conn.execute(delete(ProviderTrait).where(ProviderTrait.provider_id == provider_id))
    conn.execute(insert(ProviderTrait), [{"provider_id": provider_id, "trait": each} for each in sorted(asked)])


def aggregates_of(conn: Connection, provider_id: str) -> list[str]:
    mine = select(ProviderAggregate.aggregate_id).where(ProviderAggregate.provider_id == provider_id)
    return sorted(conn.scalars(mine))


def set_aggregates(conn: Connection, provider_id: str, wanted: Iterable[str]) -> None:
    """These and no others. The provider is locked. A host's are those of the compute API, and determine its zone.

    If it is a host, that is locked as well, and first.
    """
    host = aggregates.lock_host(conn, provider_id)
    conn.execute(delete(ProviderAggregate).where(ProviderAggregate.provider_id == provider_id))
    rows = [{"provider_id": provider_id, "aggregate_id": each} for each in sorted(set(wanted))]
    conn.execute(insert(ProviderAggregate), rows)
    aggregates.rezone(conn, [] if host is None else [host])


def consumers_of(conn: Connection, provider_id: str) -> Sequence[Allocation]:
    mine = select(Allocation).where(Allocation.provider_id == provider_id)
    return conn.execute(mine.order_by(Allocation.consumer_id, Allocation.resource_class)).all()


# -- classes and traits that clients create


def classes(conn: Connection) -> list[str]:
    """The standard ones first."""
    return [*names.RESOURCE_CLASSES, *sorted(conn.scalars(select(ResourceClass.name)))]


def check_classes(
    conn: Connection, wanted: Iterable[str], said: str = "No such resource class", *, lock: bool = False
) -> None:
    """Raises Invalid, with a message that begins with `said`, for a class that does not exist.

    `lock`: the others stay until the transaction ends.
    """
    unknown = set(wanted) - set(names.RESOURCE_CLASSES)
    if unknown:
        made = select(ResourceClass.name).where(ResourceClass.name.in_(unknown)).order_by(ResourceClass.name)
        unknown -= set(conn.scalars(made.with_for_update(read=True) if lock else made))
    if unknown:
        raise Invalid(f"{said} {', '.join(sorted(unknown))[:255]}.")


def remove_class(conn: Connection, name: str) -> None:
    """Raises NotFound, Invalid for a standard one, Conflict while a provider has it."""
    if name in names.RESOURCE_CLASSES:
        raise Invalid(f"Cannot delete standard resource class {name}.")
    # First of all the class: then nobody uses it who has not by then. The caller rolls the transaction back.
    if not conn.execute(delete(ResourceClass).where(ResourceClass.name == name)).rowcount:
        raise NotFound(f"No such resource class {name[:255]}.")
    if conn.execute(select(Inventory.provider_id).where(Inventory.resource_class == name).limit(1)).first():
        raise Conflict(f"Cannot delete resource class {name}: it is in use in inventory.")


def traits(conn: Connection, used: bool | None = None) -> list[str]:
    """By name. `used`: only those that some provider has, or that none has."""
    every = names.TRAITS | set(conn.scalars(select(Trait.name)))
    if used is None:
        return sorted(every)
    said = set(conn.scalars(select(ProviderTrait.trait).distinct()))
    return sorted(every & said if used else every - said)


def remove_trait(conn: Connection, name: str) -> None:
    """Raises NotFound, Invalid for a standard one, Conflict while a provider has it."""
    if name in names.TRAITS:
        raise Invalid(f"Cannot delete standard trait {name}.")
    # First of all the trait: see `remove_class`.
    if not conn.execute(delete(Trait).where(Trait.name == name)).rowcount:
        raise NotFound(f"No such trait {name[:255]}.")
    if conn.execute(select(ProviderTrait.provider_id).where(ProviderTrait.trait == name).limit(1)).first():
        raise Conflict(f"The trait {name} is in use by a resource provider.")


def make_name(conn: Connection, record: type[Trait] | type[ResourceClass], name: str) -> bool:
    """Create a trait, or class; whether it is new. Raises Invalid for a name that clients cannot create."""
    if not names.is_custom(name):
        raise Invalid(f"{name[:64]!r} does not match '^CUSTOM_[A-Z0-9_]+$'.")
    column = record.table.c.name
    if conn.execute(select(column).where(column == name)).first() is not None:
        return False
    try:
        with conn.begin_nested():
            conn.execute(insert(record).values(name=name))
    except IntegrityError:
        return False
    return True


def known_class(conn: Connection, name: str) -> bool:
    found = select(ResourceClass.name).where(ResourceClass.name == name)
    return name in names.RESOURCE_CLASSES or conn.execute(found).first() is not None


def known_trait(conn: Connection, name: str) -> bool:
    return name in names.TRAITS or conn.execute(select(Trait.name).where(Trait.name == name)).first() is not None
