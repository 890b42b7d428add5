"""Members: projects that an image is shared with."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Database
from cloudctl.image import members as domain
from cloudctl.image.options import ImageOptions
from cloudctl.image.tables import ImageMember
from cloudctl.rest.body import Body, Length, extra
from cloudctl.rest.call import Call
from cloudctl.rest.formats import zulu
from cloudctl.rest.route import Routes


@frozen
class CreateMember:
    member: Annotated[str, Length(1, 255, blank=False)]
    others: dict[str, Any] = extra()


@frozen
class UpdateMember:
    status: Literal["accepted", "pending", "rejected"]
    others: dict[str, Any] = extra()  # stock libraries name the member again


def view(row: ImageMember) -> dict[str, Any]:
    return {
        "image_id": row.image_id,
        "member_id": row.member_id,
        "status": row.status,
        "created_at": zulu(row.created_at),
        "updated_at": zulu(row.updated_at),
        "schema": "/v2/schemas/member",
    }


@frozen
class Members:
    routes = Routes("Members")

    db: Database
    options: ImageOptions

    @routes.get("/images/<image_id>/members", policy="image:members:list")
    async def list(self, call: Call, image_id: str) -> dict[str, Any]:
        """List the members; a member sees only itself."""
        rows = await self.db.scan(domain.listed, call.caller, image_id)
        return {"members": [view(row) for row in rows], "schema": "/v2/schemas/members"}

    @routes.post("/images/<image_id>/members", policy="image:members:create", body=Body(CreateMember))
    async def create(self, call: Call, image_id: str, body: CreateMember) -> dict[str, Any]:
        """Share an image with a project."""
        return view(await self.db.run(domain.add, call.caller, image_id, body.member, self.options.max_members))

    @routes.get("/images/<image_id>/members/<member_id>", policy="image:members:show")
    async def show(self, call: Call, image_id: str, member_id: str) -> dict[str, Any]:
        """Show a membership."""
        return view(await self.db.read(domain.show, call.caller, image_id, member_id))

    @routes.put("/images/<image_id>/members/<member_id>", policy="image:members:update", body=Body(UpdateMember))
    async def update(self, call: Call, image_id: str, member_id: str, body: UpdateMember) -> dict[str, Any]:
        """Accept or reject an image that is shared with the caller's project."""
        return view(await self.db.run(domain.answer, call.caller, image_id, member_id, body.status))

    @routes.delete("/images/<image_id>/members/<member_id>", policy="image:members:delete")
    async def remove(self, call: Call, image_id: str, member_id: str) -> None:
        """Stop sharing an image with a project."""
        await self.db.run(domain.remove, call.caller, image_id, member_id)
