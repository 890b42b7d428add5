"""Volume types on the wire: records, extra specs, access, default types. Reference: volume.md, section 7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import true

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.identity import projects
from cloudctl.rest.body import Body, Items, Length, LooseBool, Name, Text, truth
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition
from cloudctl.rest.resource import REQUIRED, Attribute
from cloudctl.rest.route import Routes
from cloudctl.volume import search, types
from cloudctl.volume.api import gates
from cloudctl.volume.api.fields import Specs
from cloudctl.volume.api.resource import Declared, created, updated
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import VolumeType
from cloudctl.volume.types import NewType

PUBLIC = "os-volume-type-access:is_public"


@frozen
class ExtraSpecs:
    extra_specs: Specs


@frozen
class ProjectAccess:
    project: Annotated[str, Length(1, 64)]


OneSpec = Annotated[Specs, Items(1, 1)]


@frozen
class TypeSpecs:
    """What a type has besides its attributes."""

    routes = Routes("Volume types")

    db: Database

    # -- extra specs

    @routes.get("/types/<type_id>/extra_specs", policy="volume:types:show")
    async def list_extra_specs(self, call: Call, type_id: str) -> Any:
        """Show the extra specs of a type."""
        row = await self.db.read(types.visible, call.caller, type_id)
        return {"extra_specs": _shown(call, row)}

    @routes.post("/types/<type_id>/extra_specs", policy="volume:types:write", body=Body(ExtraSpecs))
    async def merge_extra_specs(self, call: Call, type_id: str, body: ExtraSpecs) -> Any:
        """Add to the extra specs of a type."""
        await self.db.run(types.change_extra_specs, type_id, call.now, body.extra_specs)
        return {"extra_specs": body.extra_specs}

    @routes.get("/types/<type_id>/extra_specs/<key>", policy="volume:types:show")
    async def show_extra_spec(self, call: Call, type_id: str, key: str) -> Any:
        """Show one extra spec."""
        specs = _shown(call, await self.db.read(types.visible, call.caller, type_id))
        if key not in specs:
            raise types.no_spec(type_id, key)
        return {key: specs[key]}

    @routes.put("/types/<type_id>/extra_specs/<key>", policy="volume:types:write", body=Body(OneSpec))
    async def set_extra_spec(self, call: Call, type_id: str, key: str, body: dict[str, str | None]) -> Any:
        """Set one extra spec."""
        if key not in body:
            raise Invalid("Request body and URI mismatch")
        await self.db.run(types.change_extra_specs, type_id, call.now, body)
        return body

    @routes.delete("/types/<type_id>/extra_specs/<key>", policy="volume:types:write", status=202)
    async def delete_extra_spec(self, call: Call, type_id: str, key: str) -> None:
        """Delete one extra spec."""
        await self.db.run(types.change_extra_specs, type_id, call.now, {}, (key,))

    # -- access

    @routes.get("/types/<type_id>/os-volume-type-access", policy="volume:types:access")
    async def list_access(self, call: Call, type_id: str) -> Any:
        """List the projects that may use a private type."""
        projects = await self.db.scan(types.projects_with_access, type_id)
        return {"volume_type_access": [{"volume_type_id": type_id, "project_id": each} for each in projects]}

    @routes.action(
        "/types/<type_id>/action", "addProjectAccess", policy="volume:types:access", body=Body(ProjectAccess)
    )
    async def grant(self, call: Call, type_id: str, body: ProjectAccess) -> None:
        """Give a project access to a type."""
        await self.db.run(types.grant, type_id, body.project)

    @routes.action(
        "/types/<type_id>/action", "removeProjectAccess", policy="volume:types:access", body=Body(ProjectAccess)
    )
    async def revoke(self, call: Call, type_id: str, body: ProjectAccess) -> None:
        """Take a project's access to a type away."""
        await self.db.run(types.revoke, type_id, body.project)


# -- the resource


def _seen(call: Call) -> list[Condition]:
    return [*types.seen_by(call.caller), *_filters(call)]


def _filters(call: Call) -> list[Condition]:
    found: list[Condition] = []
    if call.may("volume:types:all"):
        public = call.query.get("is_public")
        if public is None:
            # Whoever sees all has to ask for all: without the filter the list is that of the project.
            found.append(types.usable_in(call.project_id))
        elif public.lower() not in ("none", ""):
            wanted = truth(public)
            if wanted is None:
                raise Invalid(f"Invalid is_public filter {public[:64]!r}")
            found.append(VolumeType.is_public.is_(wanted))
    specs = call.query.get("extra_specs")
    if specs is not None and call.version in gates.SPECS_FILTER:
        found.append(_with_specs(call, specs))
    return found


def _with_specs(call: Call, text: str) -> Condition:
    """Raises Invalid; a filter must not reveal what the caller may not see."""
    wanted = search.pairs("extra_specs", text)
    if not call.may("volume:types:all") and not wanted.keys() <= types.OPEN_SPECS:
        raise Invalid("Invalid filters extra_specs are found in query options.")
    return search.holds(VolumeType.extra_specs)([text]) if wanted else true()


def _specs(conn: Connection, call: Call, found: Sequence[VolumeType]) -> list[dict[str, Any]]:
    return [_shown(call, each) for each in found]


def _shown(call: Call, type_: VolumeType) -> dict[str, Any]:
    """Only administrators see extra specs that show how the cloud is built."""
    if call.may("volume:types:all"):
        return dict(type_.extra_specs)
    return {key: value for key, value in type_.extra_specs.items() if key in types.OPEN_SPECS}


ATTRIBUTES = (
    Attribute("id", VolumeType.id, sort=True),
    Attribute("name", VolumeType.name, Name, post=REQUIRED, put=Name | None, sort=True),
    Attribute("description", VolumeType.description, Text | None, post=None, put=True),
    Attribute("is_public", VolumeType.is_public, LooseBool, put=True, sort=True),
    Attribute(PUBLIC, VolumeType.is_public, LooseBool, post=True),
    Attribute("extra_specs", VolumeType.extra_specs, Specs | None, post=None, view=_specs),
    Attribute("qos_specs_id", VolumeType.qos_specs_id, rule="volume:types:all"),
    created(VolumeType, shown=False),
    updated(VolumeType, shown=False),
)
# The attributes shown of a type when it is made or changed.
OWN = tuple(each.name for each in ATTRIBUTES if each.name != "qos_specs_id")


def volume_types(options: VolumeOptions) -> Declared[VolumeType]:
    """The resource, for a cloud whose options name the default type and the quotas."""
    default = options.default_type

    def visible(conn: Connection, call: Call, type_id: str) -> VolumeType:
        if type_id == "default":
            return types.default(conn, call.project_id, default)
        return types.visible(conn, call.caller, type_id)

    def create(conn: Connection, call: Call, values: dict[str, Any]) -> VolumeType:
        wanted = {**values, "name": values["name"].strip(), "extra_specs": values["extra_specs"] or {}}
        return types.create(conn, NewType(**wanted), call.now)

    def change(conn: Connection, call: Call, type_: VolumeType, changes: dict[str, Any]) -> VolumeType:
        # What a client does not change, it sends as null.
        changes = {name: value for name, value in changes.items() if value is not None}
        if not changes:
            raise Invalid("Specify volume type name, description, is_public or a combination thereof.")
        if "name" in changes:
            changes["name"] = changes["name"].strip()
        if type_.name == default != changes.get("name", default):
            raise Invalid(f"Invalid volume_type: {default} is the default type and cannot be renamed.")
        return types.change(conn, type_, changes, call.now)

    def remove(conn: Connection, call: Call, type_: VolumeType) -> None:
        types.remove(conn, type_, default)

    return Declared(
        name="volume_type",
        record=VolumeType,
        path="/types",
        id="type_id",
        ruled="types",
        rules=dict.fromkeys(("create", "update", "delete"), "write"),
        status={"create": 200},
        links="volume_type_links",
        title="Volume types",
        attributes=ATTRIBUTES,
        shows={"create": OWN, "update": tuple(name for name in OWN if name != PUBLIC)},
        scope=_seen,
        filters=None,
        visible=visible,
        not_found=types.not_found,
        create=create,
        change=change,
        remove=remove,
        says={
            "list": "List the volume types that the caller may use.",
            "show": "Show a volume type; `default` is the one of volumes whose creator names none.",
            "delete": "Delete a volume type that no volume has.",
        },
    )


# -- default types of projects


@frozen
class DefaultType:
    volume_type: Name


@frozen
class DefaultTypes:
    routes = Routes("Default types")

    db: Database

    @routes.get("/default-types", policy="volume:default_types:read", since=(3, 62))
    async def list(self, call: Call) -> Any:
        """List the projects that have a default type of their own."""
        rows = await self.db.scan(types.defaults)
        return {"default_types": [_default(row.project_id, row.volume_type_id) for row in rows]}

    @routes.get("/default-types/<target_id>", policy="volume:default_types:read", since=(3, 62))
    async def show(self, call: Call, target_id: str) -> Any:
        """Show the default type of a project."""
        rows = await self.db.scan(types.defaults, target_id)
        if not rows:
            raise NotFound(f"Default type for project {target_id[:64]} not found.")
        return {"default_type": _default(target_id, rows[0].volume_type_id)}

    @routes.put(
        "/default-types/<target_id>",
        policy="volume:default_types:write",
        since=(3, 62),
        body=Body(DefaultType, key="default_type"),
    )
    async def set(self, call: Call, target_id: str, body: DefaultType) -> Any:
        """Set the default type of a project."""
        type_id = await self.db.run(_set_default, call, target_id, body.volume_type)
        return {"default_type": _default(target_id, type_id)}

    @routes.delete("/default-types/<target_id>", policy="volume:default_types:write", since=(3, 62))
    async def unset(self, call: Call, target_id: str) -> None:
        """Reset a project to the cloud's default type."""
        await self.db.run(types.unset_default, target_id)


def _default(project_id: str, type_id: str) -> dict[str, str]:
    return {"project_id": project_id, "volume_type_id": type_id}


def _set_default(conn: Connection, call: Call, project_id: str, name_or_id: str) -> str:
    if not projects.exists(conn, project_id):
        raise NotFound(f"Project {project_id[:64]} could not be found.")
    type_ = types.by_name_or_id(conn, call.caller, name_or_id, for_volume=True)
    types.set_default(conn, project_id, type_.id)
    return str(type_.id)
