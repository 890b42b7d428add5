"""Images from volumes, and volumes from images, on the wire. Reference: volume.md, section 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend, IVolumeData, IVolumeFormats, IVolumeSnapshots
from cloudctl.errors import NotImplementedHere
from cloudctl.image import images
from cloudctl.rest import resource
from cloudctl.rest.body import Body, Length, LooseBool, Uuid, given
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.resource import Json
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields
from cloudctl.volume import reimaging, types, uploads
from cloudctl.volume.api.actions import ACTION
from cloudctl.volume.api.types import ATTRIBUTES
from cloudctl.volume.tables import Volume
from cloudctl.volume.uploads import NewUpload

LATER = Fields[[NewUpload]](
    "an upload to an image",
    {
        "protected": (since(3, 1), lambda wanted: wanted.protected),
        "visibility": (since(3, 1), lambda wanted: wanted.visibility),
    },
)

DiskFormat = Literal["raw", "vmdk", "vdi", "qcow2", "vhd", "vhdx", "ploop"]
ContainerFormat = Literal["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"]


@frozen
class Upload:
    image_name: Annotated[str, Length(1, 255, blank=False)]
    disk_format: DiskFormat = "raw"
    container_format: ContainerFormat = "bare"
    force: LooseBool = False


@frozen
class UploadVisible(Upload):
    """From 3.1 on."""

    visibility: Literal["public", "private", "shared", "community"] = "private"
    protected: LooseBool = False


@frozen
class Uploading:
    routes = Routes("Volume actions")

    db: Database
    backend: IVolumeBackend

    @routes.action(
        ACTION,
        "os-volume_upload_image",
        policy="volume:volumes:upload",
        body={(3, 0): Body(Upload), (3, 1): Body(UploadVisible)},
    )
    async def upload(self, call: Call, volume_id: str, body: Upload) -> Any:
        """Make an image from the content of a volume."""
        if not (IVolumeData.providedBy(self.backend) and IVolumeSnapshots.providedBy(self.backend)):
            raise NotImplementedHere("The volume backend cannot export volume data.")
        wanted = NewUpload(**given(body))
        if wanted.visibility == images.PUBLIC:
            call.require("volume:volumes:upload_public")
        formats = self.backend.formats if IVolumeFormats.providedBy(self.backend) else ()
        row, type_, image_id = await self.db.run(_start, call, volume_id, wanted, formats)
        answer = {
            "id": row.id,
            "updated_at": micros(row.updated_at),
            "status": row.status,
            "display_description": row.description,
            "size": row.size,
            "volume_type": type_,
            "image_id": image_id,
            "container_format": wanted.container_format,
            "disk_format": wanted.disk_format,
            "image_name": wanted.image_name,
        }
        return {"os-volume_upload_image": answer | LATER.of(call.version, wanted)}


@frozen
class Reimage:
    image_id: Uuid
    reimage_reserved: LooseBool = False


@frozen
class Reimaging:
    routes = Routes("Volume actions")

    db: Database
    backend: IVolumeBackend

    @routes.action(ACTION, "os-reimage", policy="volume:volumes:reimage", since=(3, 68), body=Body(Reimage))
    async def reimage(self, call: Call, volume_id: str, body: Reimage) -> None:
        """Replace the content of a volume with an image."""
        if not IVolumeData.providedBy(self.backend):
            raise NotImplementedHere("The volume backend cannot import data.")
        if body.reimage_reserved:
            call.require("volume:volumes:reimage_reserved")
        await self.db.run(reimaging.start, call.caller, volume_id, body.image_id, body.reimage_reserved)


def _start(
    conn: Connection, call: Call, volume_id: str, wanted: NewUpload, formats: Sequence[str]
) -> tuple[Volume, Json, str]:
    """The volume, its type as it is shown, and the id of the image."""
    row, image_id = uploads.start(conn, call.caller, volume_id, wanted, formats)
    return row, resource.views(conn, call, ATTRIBUTES, [types.get(conn, row.volume_type_id)])[0], image_id
