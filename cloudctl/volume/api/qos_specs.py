"""QoS specs on the wire. Reference: volume.md, section 8."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import Body, Items, Name, extra, structure
from cloudctl.rest.call import Call
from cloudctl.rest.resource import Attribute
from cloudctl.rest.route import Routes
from cloudctl.volume import qos_specs, types
from cloudctl.volume.api import lists
from cloudctl.volume.api.fields import PlainSpecs, SpecKey
from cloudctl.volume.api.resource import Declared, created
from cloudctl.volume.qos_specs import NewQosSpecs
from cloudctl.volume.tables import QosSpecs, VolumeType

Consumer = Literal["front-end", "back-end", "both"]
ONE = "/qos-specs/<specs_id>"


@frozen
class CreateQosSpecs:
    """Every other key is a spec."""

    name: Name
    consumer: Consumer = "back-end"
    specs: dict[str, Any] = extra()


@frozen
class UpdateQosSpecs:
    consumer: Consumer | None = None
    specs: dict[str, Any] = extra()


@frozen
class DeleteKeys:
    keys: Annotated[list[SpecKey], Items(1)]


def specs_of(sent: dict[str, Any]) -> dict[str, str]:
    """Raises BodyError."""
    found: dict[str, str] = structure(sent, PlainSpecs, "$.qos_specs")
    return found


def visible(conn: Connection, call: Call, specs_id: str) -> QosSpecs:
    return qos_specs.get(conn, specs_id)


def remove(conn: Connection, call: Call, record: QosSpecs) -> None:
    qos_specs.remove(conn, record.id, call.query.flag("force"))


QOS_SPECS = Declared(
    name="qos_specs",
    plural="qos_specs",
    record=QosSpecs,
    path="/qos-specs",
    id="specs_id",
    title="QoS specs",
    noun="QoS specs",
    attributes=(
        Attribute("id", QosSpecs.id, filter=lists.exact, sort=True),
        Attribute("name", QosSpecs.name, filter=lists.exact, sort=True),
        Attribute("consumer", QosSpecs.consumer, filter=lists.exact, sort=True),
        Attribute("specs", QosSpecs.specs),
        created(QosSpecs, shown=False),
    ),
    linked=True,
    scope=lambda call: [],
    visible=visible,
    not_found=qos_specs.not_found,
    remove=remove,
    rules={"list": "read", "show": "read", "delete": "write"},
    says={"delete": "Delete QoS specs that no type has; or, with `force`, take them from all types."},
    query={"delete": ("force",)},
)


@frozen
class QosSpecsOfTypes:
    """What QoS specs have besides their attributes, and the types that have them."""

    routes = Routes("QoS specs")

    db: Database

    @routes.post("/qos-specs", policy="volume:qos_specs:write", body=Body(CreateQosSpecs, key="qos_specs"))
    async def create(self, call: Call, body: CreateQosSpecs) -> Any:
        """Make QoS specs."""
        new = NewQosSpecs(body.name.strip(), body.consumer, specs_of(body.specs))
        return await self.db.run(_create, call, new)

    @routes.put(ONE, policy="volume:qos_specs:write", body=Body(UpdateQosSpecs, key="qos_specs"))
    async def update(self, call: Call, specs_id: str, body: UpdateQosSpecs) -> Any:
        """Set some of the QoS specs."""
        wanted = specs_of(body.specs)
        await self.db.run(qos_specs.merge, specs_id, wanted, body.consumer, call.now)
        return {"qos_specs": wanted | ({} if body.consumer is None else {"consumer": body.consumer})}

    @routes.put(f"{ONE}/delete_keys", policy="volume:qos_specs:write", status=202, body=Body(DeleteKeys))
    async def delete_keys(self, call: Call, specs_id: str, body: DeleteKeys) -> None:
        """Delete some of the QoS specs."""
        await self.db.run(qos_specs.drop, specs_id, body.keys, call.now)

    @routes.get(f"{ONE}/associations", policy="volume:qos_specs:read")
    async def associations(self, call: Call, specs_id: str) -> Any:
        """List the types that have these QoS specs."""
        return {"qos_associations": await self.db.scan(_associations, specs_id)}

    # These are GET but change something: the API defines them so.

    @routes.get(f"{ONE}/associate", policy="volume:qos_specs:write", status=202, query=("vol_type_id",))
    async def associate(self, call: Call, specs_id: str) -> None:
        """Associate these QoS specs with a type."""
        await self.db.run(_associate, specs_id, _type_id(call))

    @routes.get(f"{ONE}/disassociate", policy="volume:qos_specs:write", status=202, query=("vol_type_id",))
    async def disassociate(self, call: Call, specs_id: str) -> None:
        """Remove these QoS specs from a type."""
        await self.db.run(_disassociate, specs_id, _type_id(call))

    @routes.get(f"{ONE}/disassociate_all", policy="volume:qos_specs:write", status=202)
    async def disassociate_all(self, call: Call, specs_id: str) -> None:
        """Remove these QoS specs from all types."""
        await self.db.run(qos_specs.disassociate_all, specs_id)


def _create(conn: Connection, call: Call, new: NewQosSpecs) -> Any:
    return QOS_SPECS.answer("create", conn, call, qos_specs.create(conn, new, call.now))


def _associations(conn: Connection, specs_id: str) -> list[dict[str, str]]:
    qos_specs.get(conn, specs_id)
    having: list[VolumeType] = qos_specs.types_with(conn, specs_id)
    return [{"association_type": "volume_type", "name": each.name, "id": each.id} for each in having]


def _type_id(call: Call) -> str:
    """Raises Invalid."""
    found = call.query.get("vol_type_id")
    if not found:
        raise Invalid("Volume Type id must not be None.")
    return found


def _associate(conn: Connection, specs_id: str, type_id: str) -> None:
    qos_specs.associate(conn, specs_id, types.get(conn, type_id))


def _disassociate(conn: Connection, specs_id: str, type_id: str) -> None:
    qos_specs.disassociate(conn, specs_id, types.get(conn, type_id))
