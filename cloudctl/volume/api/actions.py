"""Actions on volumes: size, flags and statuses. Reference: volume.md, section 3."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from cloudctl.db import Database
from cloudctl.errors import Invalid
from cloudctl.rest.body import MISSING, Body, LooseBool, Missing, given
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.volume import operations, states, volumes
from cloudctl.volume.api import gates
from cloudctl.volume.api.fields import ImageMetadata, Key, Size, Word, resettable
from cloudctl.volume.api.volumes import delete
from cloudctl.volume.operations import Reset
from cloudctl.volume.options import VolumeOptions

ACTION = "/volumes/<volume_id>/action"


@frozen
class Extend:
    new_size: Size


@frozen
class SetBootable:
    bootable: LooseBool


@frozen
class SetReadonly:
    readonly: LooseBool


@frozen
class ResetStatus:
    status: Word | Missing = MISSING
    attach_status: Literal["attached", "detached"] | Missing = MISSING
    migration_status: Literal["migrating", "error", "success", "completing", "none", "starting"] | Missing | None = (
        MISSING
    )

    def reset(self) -> Reset:
        """Raises Invalid."""
        sent = given(self)
        if not sent:
            raise Invalid("Must specify 'status', 'attach_status' or 'migration_status' for update.")
        if sent.get("status") is not None:
            sent["status"] = resettable(sent["status"], states.RESETTABLE)
        if "migration_status" in sent and sent["migration_status"] is None:
            sent["migration_status"] = "none"
        return Reset(**sent)


@frozen
class SetImageMetadata:
    metadata: ImageMetadata


@frozen
class UnsetImageMetadata:
    key: Key


@frozen
class VolumeActions:
    routes = Routes("Volume actions")

    db: Database
    options: VolumeOptions

    @routes.action(ACTION, "os-extend", policy="volume:volumes:extend", body=Body(Extend))
    async def extend(self, call: Call, volume_id: str, body: Extend) -> None:
        """Make a volume larger."""
        in_use = call.version in gates.EXTEND_IN_USE
        await self.db.run(operations.extend, call.caller, volume_id, body.new_size, self.options, in_use)

    @routes.action(ACTION, "os-set_bootable", policy="volume:volumes:update", status=200, body=Body(SetBootable))
    async def set_bootable(self, call: Call, volume_id: str, body: SetBootable) -> None:
        """Set whether servers can boot from a volume."""
        await self.db.run(operations.set_bootable, call.caller, volume_id, body.bootable)

    @routes.action(ACTION, "os-update_readonly_flag", policy="volume:volumes:update", body=Body(SetReadonly))
    async def set_readonly(self, call: Call, volume_id: str, body: SetReadonly) -> None:
        """Set whether a volume may only be attached read-only."""
        await self.db.run(operations.set_readonly, call.caller, volume_id, body.readonly)

    @routes.action(ACTION, "os-reset_status", policy="volume:volumes:reset_status", body=Body(ResetStatus))
    async def reset_status(self, call: Call, volume_id: str, body: ResetStatus) -> None:
        """Set a status manually; the volume itself stays as it is."""
        await self.db.run(operations.reset, call.caller, volume_id, body.reset())

    @routes.action(ACTION, "os-force_delete", policy="volume:volumes:force_delete")
    async def force_delete(self, call: Call, volume_id: str) -> None:
        """Delete a volume whatever its status."""
        await self.db.run(delete, call, volume_id, True)

    @routes.action(
        ACTION, "os-set_image_metadata", policy="volume:volumes:update", status=200, body=Body(SetImageMetadata)
    )
    async def set_image_metadata(self, call: Call, volume_id: str, body: SetImageMetadata) -> Any:
        """Add to the image metadata of a volume."""
        found = await self.db.run(operations.set_image_metadata, call.caller, volume_id, body.metadata)
        return {"metadata": found}

    @routes.action(ACTION, "os-show_image_metadata", policy="volume:volumes:show", status=200)
    async def show_image_metadata(self, call: Call, volume_id: str) -> Any:
        """Show the image metadata of a volume."""
        row = await self.db.read(volumes.visible, call.caller, volume_id)
        return {"metadata": row.image_metadata}

    @routes.action(
        ACTION, "os-unset_image_metadata", policy="volume:volumes:update", status=200, body=Body(UnsetImageMetadata)
    )
    async def unset_image_metadata(self, call: Call, volume_id: str, body: UnsetImageMetadata) -> None:
        """Delete one entry of the image metadata."""
        await self.db.run(operations.unset_image_metadata, call.caller, volume_id, body.key)
