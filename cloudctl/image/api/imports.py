"""Imports of images, and the tasks that show them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import asdict, evolve, frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.image import imports as domain
from cloudctl.image.api.definitions import plain
from cloudctl.image.api.images import CreateImage, new_image
from cloudctl.image.api.stores import named_store, offers
from cloudctl.image.imports import GLANCE_DOWNLOAD, URI_LENGTH, WEB_DOWNLOAD, NewImport
from cloudctl.image.options import ImageOptions
from cloudctl.image.patching import DiskFormat
from cloudctl.image.regions import Elsewhere
from cloudctl.image.stores import Stores
from cloudctl.image.tables import ImageTask
from cloudctl.rest.body import MISSING, Body, Items, Length, Missing, structure, uuid
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.formats import zulu
from cloudctl.rest.listing import Limits, Page, conditions, page, paging
from cloudctl.rest.outgoing import Permitted
from cloudctl.rest.route import Routes

Uri = Annotated[str, Length(1, URI_LENGTH)]


@frozen
class Method:
    name: str
    uri: Uri | Missing | None = MISSING
    # Of glance-download.
    glance_image_id: Annotated[str, Length(1, 255)] | Missing = MISSING
    glance_region: Annotated[str, Length(1, 255)] | Missing = MISSING
    glance_service_interface: Annotated[str, Length(1, 255)] | Missing = MISSING


@frozen
class ImportImage:
    method: Method
    stores: Annotated[list[str], Items(0, 10)] | Missing | None = MISSING
    all_stores: bool | Missing | None = MISSING
    all_stores_must_succeed: bool | Missing | None = MISSING


@frozen
class TaskInput:
    import_from: Uri
    import_from_format: DiskFormat | Missing = MISSING
    image_properties: dict[str, Any] | Missing = MISSING


@frozen
class CreateTask:
    type: Literal["import"]
    input: TaskInput


LIMITS = Limits(most=1000, default=25)


def view(row: ImageTask) -> dict[str, Any]:
    return {
        "id": row.id,
        "type": row.type,
        "status": row.status,
        "owner": row.owner,
        "image_id": row.image_id,
        "request_id": row.request_id,
        "user_id": row.user_id,
        "input": row.input,
        "result": None if row.result is None else {"image_id": row.result},
        "message": row.message,
        "expires_at": zulu(row.expires_at),
        "created_at": zulu(row.created_at),
        "updated_at": zulu(row.updated_at),
    }


def task_view(row: ImageTask) -> dict[str, Any]:
    return {**view(row), "self": f"/v2/tasks/{row.id}", "schema": "/v2/schemas/task"}


def summary(row: ImageTask) -> dict[str, Any]:
    left_out = ("input", "result", "message")
    return {name: value for name, value in task_view(row).items() if name not in left_out}


def wish(call: Call, body: ImportImage, options: ImageOptions, permitted: Permitted, stores: Stores) -> NewImport:
    """The import that a request asks for, if it is possible at all. Raises Invalid."""
    name, methods = body.method.name, domain.methods(stores)
    uri = None if body.method.uri is MISSING else body.method.uri
    if name not in methods:
        raise Invalid(f"The import method {name[:64]!r} is not one of {', '.join(methods)}.")
    if (name == WEB_DOWNLOAD) != (uri is not None):
        raise Invalid("A uri is required for web-download and not allowed for other methods.")
    image = elsewhere(body.method) if name == GLANCE_DOWNLOAD else None
    if image is None and any(each is not MISSING for each in _named(body.method)):
        raise Invalid("Only glance-download takes an image of another service.")
    if uri is not None:
        domain.check(uri, options, permitted)
    all_must = body.all_stores_must_succeed is not False
    return NewImport(name, uri, plain(body), chosen(call, body, stores), all_must, image)


def _named(method: Method) -> tuple[str | Missing, ...]:
    return method.glance_image_id, method.glance_region, method.glance_service_interface


def elsewhere(method: Method) -> Elsewhere:
    """Raises Invalid."""
    if method.glance_image_id is MISSING or method.glance_region is MISSING:
        raise Invalid("glance-download needs a glance_image_id and a glance_region.")
    try:
        image_id = uuid(method.glance_image_id)
    except ValueError:
        raise Invalid("The remote image id does not look like a UUID.") from None
    return Elsewhere(image_id, method.glance_region, method.glance_service_interface or "public")


def chosen(call: Call, body: ImportImage, stores: Stores) -> list[str]:
    """The stores that a body names, or a header, or the default one. Raises Invalid."""
    named = [] if body.stores is MISSING else body.stores or []
    if body.all_stores:
        if named:
            raise Invalid("Either all_stores is true, or stores are named.")
        return stores.writable
    return stores.ordered({store.id for store in map(stores.to_write, named)} or {named_store(call, stores).id})


def listed(conn: Connection, call: Call) -> Page:
    """All imports of the cloud, page by page, for administrators."""
    wanted = conditions(domain.LISTING, call)
    return page(conn, domain.LISTING, paging(call, LIMITS), domain.kept(call.now), *wanted)


@frozen
class Imports:
    routes = Routes("Imports")

    db: Database
    options: ImageOptions
    permitted: Permitted
    stores: Stores

    @routes.post("/images/<image_id>/import", policy="image:images:import", body=Body(ImportImage), status=202)
    async def start(self, call: Call, image_id: str, body: ImportImage) -> Reply:
        """Import staged data or what is at an address, or copy an image's data to other stores, in the background."""
        wanted = wish(call, body, self.options, self.permitted, self.stores)
        await self.db.run(domain.start, call.caller, image_id, wanted, self.options)
        return Reply(None, headers=offers(self.stores))

    @routes.get("/images/<image_id>/tasks", policy="image:images:tasks")
    async def of_image(self, call: Call, image_id: str) -> dict[str, Any]:
        """List the imports of an image."""
        rows = await self.db.scan(domain.of_image, call.caller, image_id)
        return {"tasks": [view(row) for row in rows]}


@frozen
class Tasks:
    """The older way to import, for administrators."""

    routes = Routes("Tasks")

    db: Database
    options: ImageOptions

    @routes.get("/tasks", policy="image:tasks:list")
    async def list(self, call: Call) -> dict[str, Any]:
        """List the imports of all images."""
        found = await self.db.scan(listed, call)
        first = call.query.having(marker=None)
        answer: dict[str, Any] = {
            "tasks": [summary(row) for row in found.rows],
            "schema": "/v2/schemas/tasks",
            "first": f"/v2/tasks?{first}" if first else "/v2/tasks",
        }
        if found.more and found.rows:
            answer["next"] = f"/v2/tasks?{call.query.having(marker=found.rows[-1].id)}"
        return answer

    @routes.post("/tasks", policy="image:tasks:create", body=Body(CreateTask), status=201)
    async def create(self, call: Call, body: CreateTask) -> Reply:
        """Create an image from the data at an address; the task reports what is wrong with the address."""
        wanted = body.input
        made = structure(wanted.image_properties or {}, CreateImage, "$.input.image_properties")
        if wanted.import_from_format and made.disk_format is MISSING:
            made = evolve(made, disk_format=wanted.import_from_format)
        if made.container_format is MISSING:
            made = evolve(made, container_format="bare")
        new = new_image(call, made, self.options)
        if not (new.disk_format and new.container_format):
            raise Invalid("An import needs a disk_format and a container_format.")
        told = {name: value for name, value in asdict(wanted).items() if value is not MISSING}
        row = await self.db.run(domain.start_task, call.caller, new, told, wanted.import_from, self.options)
        return Reply(task_view(row), headers=(("Location", f"{call.root_url}/v2/tasks/{row.id}"),))

    @routes.get("/tasks/<task_id>", policy="image:tasks:show")
    async def show(self, call: Call, task_id: str) -> dict[str, Any]:
        """Show an import."""
        return task_view(await self.db.read(domain.show, task_id, call.now))
