"""The workflows of block storage, one a file. Reference: volume-states.md."""

from __future__ import annotations

from cloudctl.tasks import Workflow
from cloudctl.volume.lifecycle.create import CREATE
from cloudctl.volume.lifecycle.delete import DELETE
from cloudctl.volume.lifecycle.detach import DETACH
from cloudctl.volume.lifecycle.extend import EXTEND

WORKFLOWS: tuple[Workflow, ...] = (CREATE, DELETE, EXTEND, DETACH)
