"""The workflows of the compute service, one file for each or for a pair of opposites."""

from __future__ import annotations

from cloudctl.compute.lifecycle import (
    evacuate,
    interfaces,
    move,
    outside,
    power,
    rescue,
    resize,
    shelve,
    unshelve,
    volumes,
)
from cloudctl.compute.lifecycle.boot import boots
from cloudctl.compute.lifecycle.create_image import CREATE_BACKUP, CREATE_IMAGE
from cloudctl.compute.lifecycle.delete import DELETE, FORCE_DELETE
from cloudctl.compute.lifecycle.freeze_volumes import FREEZE_VOLUMES
from cloudctl.compute.lifecycle.purge import PURGE
from cloudctl.compute.lifecycle.rebuild import REBUILD
from cloudctl.compute.options import ComputeOptions
from cloudctl.tasks import Workflow


def workflows(options: ComputeOptions) -> tuple[Workflow, ...]:
    return (
        *boots(options),
        DELETE,
        FORCE_DELETE,
        PURGE,
        *power.workflows(options),
        rescue.RESCUE,
        rescue.UNRESCUE,
        rescue.SET_PASSWORD,
        CREATE_IMAGE,
        CREATE_BACKUP,
        FREEZE_VOLUMES,
        REBUILD,
        *resize.workflows(options),
        *shelve.workflows(options),
        unshelve.workflow(options),
        *move.workflows(options),
        evacuate.workflow(options),
        volumes.ATTACH,
        volumes.DETACH,
        interfaces.ATTACH,
        interfaces.DETACH,
        interfaces.PORT_LOST,
        interfaces.LOSE_PORT,
        outside.REFRESH,
        outside.EXTEND_VOLUME,
        outside.COMPARE,
    )
