"""Volume types: what kind of volume one gets, and who may use it. Reference: volume.md, section 7."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import asdict, field, frozen
from sqlalchemy import ColumnElement, String, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.rest.caller import Caller
from cloudctl.volume import quotas, volumes
from cloudctl.volume.tables import Volume, VolumeDefaultType, VolumeType, VolumeTypeAccess

MULTIATTACH = "multiattach"
ZONES = "RESKEY:availability_zones"
SMALLEST, LARGEST = "provisioning:min_vol_size", "provisioning:max_vol_size"
# Extra specs that everyone sees; the others show how the cloud is built.
OPEN_SPECS = frozenset({ZONES, MULTIATTACH, "replication_enabled"})


RECORDS = ById(VolumeType, "Volume type {} could not be found.")
# A volume gets one that is `pinned`: who changes what its volumes are locks it.
get, pinned, not_found = RECORDS.get, RECORDS.pinned, RECORDS.not_found


def is_multiattach(type_: VolumeType) -> bool:
    return bool(type_.extra_specs.get(MULTIATTACH) == "<is> True")


def demand_size(type_: VolumeType, size: int) -> None:
    """Raises Invalid if the type's extra specs forbid this size in GiB."""
    for key, wrong in ((SMALLEST, lambda bound: size < bound), (LARGEST, lambda bound: size > bound)):
        text = type_.extra_specs.get(key) or ""
        if text.isascii() and text.isdigit() and wrong(int(text)):
            raise Invalid(f"Invalid input received: Volume size {size} is not allowed by {key} = {text} of its type.")


def demand_zone(type_: VolumeType, zone: str) -> None:
    """Raises Invalid if volumes of the type cannot be in the zone."""
    allowed = [name.strip() for name in (type_.extra_specs.get(ZONES) or "").split(",") if name.strip()]
    if allowed and zone not in allowed:
        raise Invalid(f"Invalid volume_type: type {type_.name} has no volumes in the availability zone {zone}.")


# -- queries


def seen_by(caller: Caller) -> tuple[ColumnElement[bool], ...]:
    """The conditions of every query for types by this caller."""
    return () if caller.may("volume:types:all") else (usable_in(caller.project_id),)


def usable_in(project_id: str) -> ColumnElement[bool]:
    """A public type, or one that is shared with the project."""
    granted = select(VolumeTypeAccess.volume_type_id).where(VolumeTypeAccess.project_id == project_id)
    return or_(VolumeType.is_public, VolumeType.id.in_(granted))


# Built once: building a statement costs more than running it.
_default = (
    select(VolumeType)
    .outerjoin(
        VolumeDefaultType,
        and_(
            VolumeDefaultType.volume_type_id == VolumeType.id,
            VolumeDefaultType.project_id == bindparam("project", type_=String()),
        ),
    )
    .where(or_(VolumeDefaultType.project_id.is_not(None), VolumeType.name == bindparam("configured", type_=String())))
    .order_by(VolumeDefaultType.project_id.is_(None))
    .limit(1)
)
_pinned_default = _default.with_for_update(read=True, key_share=True, of=VolumeType.table)


def visible(conn: Connection, caller: Caller, type_id: str) -> VolumeType:
    """As `get`, if the type is public, shared with the caller's project, or the caller sees all."""
    found = conn.execute(select(VolumeType).where(VolumeType.id == type_id, *seen_by(caller))).first()
    if found is None:
        raise not_found(type_id)
    return found


def find_by_name_or_id(
    conn: Connection, caller: Caller, name_or_id: str, *, for_volume: bool = False
) -> VolumeType | None:
    """One that the caller may see, by id or else by name. `for_volume`: `pinned`."""
    where = (or_(VolumeType.id == name_or_id, VolumeType.name == name_or_id), *seen_by(caller))
    query = select(VolumeType).where(*where).order_by(VolumeType.id != name_or_id)
    return conn.execute(query.with_for_update(read=True, key_share=True) if for_volume else query).first()


def by_name_or_id(conn: Connection, caller: Caller, name_or_id: str, *, for_volume: bool = False) -> VolumeType:
    """As `visible`, by id or else by name. Raises NotFound. `for_volume`: `pinned`."""
    found = find_by_name_or_id(conn, caller, name_or_id, for_volume=for_volume)
    if found is None:
        raise NotFound(f"Volume type with name {name_or_id[:255]} could not be found.")
    return found


def default(conn: Connection, project_id: str, configured: str, *, for_volume: bool = False) -> VolumeType:
    """The default type of the project, else the configured one (by name). Raises NotFound. `for_volume`: `pinned`."""
    query = _pinned_default if for_volume else _default
    found = conn.execute(query, {"project": project_id, "configured": configured}).first()
    if found is None:
        raise NotFound("Default volume type can not be found.")
    return found


def names(conn: Connection) -> dict[str, str]:
    """Id → name, of all types: there are few."""
    return dict(iter(conn.execute(select(VolumeType.id, VolumeType.name))))


def is_used(conn: Connection, type_id: str) -> bool:
    query = select(Volume.id).where(volumes.of_type(type_id)).limit(1)
    return conn.execute(query).first() is not None


# -- actions


@frozen
class NewType:
    name: str
    description: str | None = None
    extra_specs: Mapping[str, str | None] = field(factory=dict)
    is_public: bool = True


def create(conn: Connection, new: NewType, now: datetime) -> VolumeType:
    """Raises Conflict if there is a type of this name."""
    type_id = new_id()
    with unique(conn, _taken(new.name)):
        conn.execute(insert(VolumeType).values(id=type_id, created_at=now, **asdict(new)))
    return get(conn, type_id)


def change(conn: Connection, type_: VolumeType, changes: Mapping[str, Any], now: datetime) -> VolumeType:
    """Raises NotFound, Conflict if the name is another type's."""
    with unique(conn, _taken(changes.get("name", type_.name))):
        conn.execute(update(VolumeType).where(VolumeType.id == type_.id).values(updated_at=now, **changes))
    after = get(conn, type_.id)
    if after.name != type_.name:
        quotas.rename_type(conn, type_.name, after.name)
    return after


def remove(conn: Connection, type_: VolumeType, configured: str) -> None:
    """Raises Conflict while volumes have it; Invalid for a default type and for the only one; NotFound."""
    type_id = get(conn, type_.id, lock=True).id
    is_default = conn.execute(select(VolumeDefaultType).where(VolumeDefaultType.volume_type_id == type_id))
    if type_.name == configured or is_default.first() is not None:
        raise Invalid(f"Invalid volume_type: {type_.name} is a default type and cannot be deleted.")
    if conn.execute(select(func.count()).select_from(VolumeType)).scalar_one() == 1:
        raise Invalid(f"Invalid volume_type: {type_.name} is the only type and cannot be deleted.")
    demand_unused(conn, type_id, "Target volume type is still in use.")
    conn.execute(delete(VolumeTypeAccess).where(VolumeTypeAccess.volume_type_id == type_id))
    conn.execute(delete(VolumeType).where(VolumeType.id == type_id))
    quotas.forget_type(conn, type_.name)


def change_extra_specs(
    conn: Connection, type_id: str, now: datetime, wanted: dict[str, str | None], gone: tuple[str, ...] = ()
) -> None:
    """Merge `wanted` into the extra specs and drop `gone`. Raises NotFound; Conflict while volumes have the type."""
    locked = select(VolumeType.extra_specs).where(VolumeType.id == type_id).with_for_update()
    specs = conn.execute(locked).scalar()
    if specs is None:
        raise not_found(type_id)
    for key in gone:
        if key not in specs:
            raise no_spec(type_id, key)
    demand_unused(conn, type_id, f"Volume Type {type_id} is currently in use.")
    kept = {key: value for key, value in {**specs, **wanted}.items() if key not in gone}
    conn.execute(update(VolumeType).where(VolumeType.id == type_id).values(extra_specs=kept, updated_at=now))


def no_spec(type_id: str, key: str) -> NotFound:
    return NotFound(f"Volume Type {type_id[:64]} has no extra specs with key {key[:255]}.")


def demand_unused(conn: Connection, type_id: str, refusal: str) -> None:
    """Raises Conflict with this text while volumes have the type."""
    if is_used(conn, type_id):
        raise Conflict(refusal)


def _taken(name: str) -> Conflict:
    return Conflict(f"Volume Type {name} already exists.")


# -- access to types that are not public


def projects_with_access(conn: Connection, type_id: str) -> list[str]:
    """Raises NotFound, also for a public type: it has no list of projects."""
    if get(conn, type_id).is_public:
        raise NotFound("Access list not available for public volume types.")
    query = select(VolumeTypeAccess.project_id).where(VolumeTypeAccess.volume_type_id == type_id)
    return list(conn.execute(query.order_by(VolumeTypeAccess.project_id)).scalars())


def grant(conn: Connection, type_id: str, project_id: str) -> None:
    """Raises NotFound, Invalid for a public type, Conflict if the project has access."""
    _demand_private(conn, type_id)
    with unique(conn, Conflict(f"Volume type access for {type_id} / {project_id} combination already exists.")):
        conn.execute(insert(VolumeTypeAccess).values(volume_type_id=type_id, project_id=project_id))


def revoke(conn: Connection, type_id: str, project_id: str) -> None:
    """Raises NotFound if the project has no access, Invalid for a public type."""
    _demand_private(conn, type_id)
    granted = (VolumeTypeAccess.volume_type_id == type_id) & (VolumeTypeAccess.project_id == project_id)
    if conn.execute(delete(VolumeTypeAccess).where(granted)).rowcount == 0:
        raise NotFound(f"Volume type access not found for {type_id} / {project_id} combination.")


def _demand_private(conn: Connection, type_id: str) -> None:
    if get(conn, type_id).is_public:
        raise Invalid("Invalid volume type: Type access modification is not applicable to public volume type.")


# -- default types of projects


def set_default(conn: Connection, project_id: str, type_id: str) -> None:
    changed = update(VolumeDefaultType).where(_project(project_id)).values(volume_type_id=type_id)
    if conn.execute(changed).rowcount == 0:
        try:
            with conn.begin_nested():
                conn.execute(insert(VolumeDefaultType).values(project_id=project_id, volume_type_id=type_id))
        except IntegrityError:
            # Another request was first.
            conn.execute(changed)


def unset_default(conn: Connection, project_id: str) -> None:
    conn.execute(delete(VolumeDefaultType).where(VolumeDefaultType.project_id == project_id))


def defaults(conn: Connection, project_id: str | None = None) -> list[VolumeDefaultType]:
    """Rows (project_id, volume_type_id) of one project or of all, by project."""
    query = select(VolumeDefaultType).order_by(VolumeDefaultType.project_id)
    return list(conn.execute(query if project_id is None else query.where(_project(project_id))).all())


def _project(project_id: str) -> ColumnElement[bool]:
    return VolumeDefaultType.project_id == project_id
