"""QoS specs: what volumes of some types may do. Reference: volume.md, section 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from cloudctl.db import Connection
from cloudctl.db.by_id import ById
from cloudctl.db.columns import new_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.volume.tables import QosSpecs, Volume, VolumeType

CONSUMERS = ("back-end", "front-end", "both")
# A spec of these may be given per GiB, with bounds of the product: `read_iops_sec_per_gb`, `read_iops_sec_per_gb_min`,
# `read_iops_sec_max`.
PACES = tuple(f"{what}_{unit}_sec" for what in ("read", "write", "total") for unit in ("iops", "bytes"))
MOST = 2**63 - 1  # that JSON of every client can tell


RECORDS = ById(QosSpecs, "No such QoS spec {}.")
get, not_found = RECORDS.get, RECORDS.not_found


# Built once: building a statement costs more than running it.
_of_volume = (
    select(QosSpecs, Volume.size)
    .join(VolumeType.table, VolumeType.qos_specs_id == QosSpecs.id)
    .join(Volume.table, Volume.volume_type_id == VolumeType.id)
    .where(Volume.id == bindparam("volume"))
)


@frozen
class NewQosSpecs:
    name: str
    consumer: str = CONSUMERS[0]
    specs: Mapping[str, str] = field(factory=dict)


def create(conn: Connection, new: NewQosSpecs, now: datetime) -> QosSpecs:
    """Raises Conflict if the name is taken."""
    values = {"id": new_id(), "name": new.name, "consumer": new.consumer, "specs": dict(new.specs), "created_at": now}
    with unique(conn, Conflict(f"Qos specs {new.name} already exists.")):
        return conn.execute(insert(QosSpecs).values(**values).returning(QosSpecs)).one()


def merge(conn: Connection, specs_id: str, wanted: Mapping[str, str], consumer: str | None, now: datetime) -> None:
    """Raises NotFound."""
    record = get(conn, specs_id, lock=True)
    values = {"specs": {**record.specs, **wanted}, "consumer": consumer or record.consumer}
    conn.execute(update(QosSpecs).where(QosSpecs.id == specs_id).values(updated_at=now, **values))


def drop(conn: Connection, specs_id: str, keys: Sequence[str], now: datetime) -> None:
    """Raises NotFound, also for a key that is absent."""
    record = get(conn, specs_id, lock=True)
    for key in keys:
        if key not in record.specs:
            raise NotFound(f"QoS spec {specs_id} has no spec with key {key[:255]}.")
    kept = {key: value for key, value in record.specs.items() if key not in keys}
    conn.execute(update(QosSpecs).where(QosSpecs.id == specs_id).values(specs=kept, updated_at=now))


def remove(conn: Connection, specs_id: str, force: bool) -> None:
    """`force`: even while types have it; they lose it. Raises NotFound, Conflict."""
    get(conn, specs_id, lock=True)
    if force:
        disassociate_all(conn, specs_id)
    elif types_with(conn, specs_id):
        raise Conflict(f"Qos specs {specs_id} is still associated with entities.")
    conn.execute(delete(QosSpecs).where(QosSpecs.id == specs_id))


# -- types that have it


def types_with(conn: Connection, specs_id: str) -> list[VolumeType]:
    """Sorted by name."""
    having = select(VolumeType).where(VolumeType.qos_specs_id == specs_id)
    return list(conn.execute(having.order_by(VolumeType.name)).all())


def associate(conn: Connection, specs_id: str, type_: VolumeType) -> None:
    """Raises NotFound, Invalid if the type has others."""
    get(conn, specs_id, lock=True)
    free = VolumeType.qos_specs_id.is_(None) | (VolumeType.qos_specs_id == specs_id)
    changed = update(VolumeType).where(VolumeType.id == type_.id, free).values(qos_specs_id=specs_id)
    if conn.execute(changed).rowcount == 0:
        raise Invalid(f"Invalid volume type: Type {type_.id} is already associated with another qos specs.")


def disassociate(conn: Connection, specs_id: str, type_: VolumeType) -> None:
    """A type without it stays as it is. Raises NotFound."""
    get(conn, specs_id)
    both = (VolumeType.id == type_.id, VolumeType.qos_specs_id == specs_id)
    conn.execute(update(VolumeType).where(*both).values(qos_specs_id=None))


def disassociate_all(conn: Connection, specs_id: str) -> None:
    """Raises NotFound."""
    get(conn, specs_id)
    conn.execute(update(VolumeType).where(VolumeType.qos_specs_id == specs_id).values(qos_specs_id=None))


# -- what a volume may do


def of_volume(conn: Connection, volume_id: str) -> dict[str, Any] | None:
    """What a hypervisor is to enforce for the volume; None: nothing."""
    found = conn.execute(_of_volume, {"volume": volume_id}).first()
    if found is None:
        return None
    record, size = found
    return None if record.consumer == "back-end" else resolved(record.specs, size)


def resolved(specs: Mapping[str, str], size: int) -> dict[str, Any]:
    """The specs of a volume of `size` GiB: what is given per GiB becomes a number. What is no number stays as it is."""
    found: dict[str, Any] = dict(specs)
    for pace in PACES:
        each = _number(specs.get(f"{pace}_per_gb"))
        if each is None:
            continue
        least, most = _number(found.pop(f"{pace}_per_gb_min", None)), _number(found.pop(f"{pace}_max", None))
        del found[f"{pace}_per_gb"]
        found[pace] = min(max(each * size, least or 0), MOST if most is None else most, MOST)
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
