"""The workflows of the compute service, one file each or for a pair of opposites."""

from __future__ import annotations

from cloudctl.compute.lifecycle import interfaces, power, rescue, resize, volumes
from cloudctl.compute.lifecycle.boot import boots
from cloudctl.compute.lifecycle.create_image import CREATE_IMAGE
from cloudctl.compute.lifecycle.delete import DELETE
from cloudctl.compute.lifecycle.purge import PURGE
from cloudctl.compute.lifecycle.rebuild import REBUILD
from cloudctl.compute.options import ComputeOptions
from cloudctl.tasks import Workflow


def workflows(options: ComputeOptions) -> tuple[Workflow, ...]:
    return (
        *boots(options),
        DELETE,
        PURGE,
        *power.workflows(options),
        rescue.RESCUE,
        rescue.UNRESCUE,
        rescue.SET_PASSWORD,
        CREATE_IMAGE,
        REBUILD,
        *resize.workflows(options),
        volumes.ATTACH,
        volumes.DETACH,
        interfaces.ATTACH,
        interfaces.DETACH,
    )
