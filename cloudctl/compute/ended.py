"""What outlives its use: servers that were deleted, with their migrations and actions, and what only those had who are
gone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, or_, select

from cloudctl.compute.kinds import DELETE, FORCE_DELETE, GUEST, MIGRATION, PURGE, SERVER
from cloudctl.compute.migrations import OPEN
from cloudctl.compute.quotas import CLASS, QUOTAS
from cloudctl.compute.tables import (
    BlockDevice,
    ConsoleToken,
    FlavorAccess,
    Keypair,
    Migration,
    Server,
    ServerInterface,
    UserLimit,
)
from cloudctl.db.ended import Ended, before
from cloudctl.identity.ended import limits_of, no_project, no_user
from cloudctl.placement.tables import Consumer
from cloudctl.rest.quota import QuotaLimit
from cloudctl.tasks.ended import tasks_of
from cloudctl.tasks.tables import DONE, TaskRow
from cloudctl.volume.tables import Attachment

# Other names for tables that are looked into for rows of the same table.
_work, _deletion, _purge = (TaskRow.table.alias().c for _ in range(3))
_move = Migration.table.alias().c


def _none(column: Column[Any], *where: ColumnElement[bool]) -> ColumnElement[bool]:
    """No row's column names the server."""
    return ~select(column).where(column == Server.id, *where).exists()


# Its host was down: it still has the guest, as far as anyone knows, and only the row tells the audit whose that is.
_on_a_host = select(_deletion.id).where(
    _deletion.resource_type == SERVER,
    _deletion.resource_id == Server.id,
    _deletion.kind.in_((DELETE.name, FORCE_DELETE.name)),
    _deletion.memo["remove"]["left_behind"].as_string().is_not(None),
    # An earlier one was for something else that a host had kept.
    _none(
        _purge.resource_id,
        _purge.resource_type == SERVER,
        _purge.kind == PURGE.name,
        _purge.state == DONE,
        _purge.id > _deletion.id,
    ),
)

SERVERS = Ended(
    "deleted servers",
    Server,
    (
        before(Server.deleted_at),
        _none(_work.resource_id, _work.resource_type == SERVER, _work.ended_at.is_(None)),
        _none(_move.server_id, _move.status.in_(OPEN)),
        _none(ServerInterface.server_id),
        _none(BlockDevice.server_id),
        _none(Attachment.server_id),
        _none(Consumer.id),
        ~_on_a_host.exists(),
    ),
)


def _of_no_server(column: Column[str]) -> ColumnElement[bool]:
    """The server that this column names is gone, or goes now."""
    mine = select(Server.id).where(Server.id == column)
    return or_(~mine.exists(), mine.where(SERVERS.condition).exists())


# Those of a server that stays, stay.
MIGRATIONS = Ended(
    "migrations of deleted servers",
    Migration,
    (before(Migration.updated_at), Migration.status.not_in(OPEN), _of_no_server(Migration.server_id)),
)
_moved = select(Migration.id).where(Migration.id == TaskRow.resource_id)

ENDED = (
    SERVERS,
    MIGRATIONS,
    tasks_of("tasks of deleted servers", SERVER, where=_of_no_server(TaskRow.resource_id)),
    tasks_of(
        "tasks of their migrations",
        MIGRATION,
        where=or_(~_moved.exists(), _moved.where(MIGRATIONS.condition).exists()),
    ),
    tasks_of("comparisons of guests", GUEST),
    Ended("expired console tokens", ConsoleToken, (before(ConsoleToken.expires_at),)),
    limits_of(QUOTAS.service, QuotaLimit.project_id.not_like(f"{CLASS}%")),
    Ended("limits of users of deleted projects", UserLimit, (no_project(UserLimit.project_id),)),
    Ended("flavors of deleted projects", FlavorAccess, (no_project(FlavorAccess.project_id),)),
    Ended("key pairs of deleted users", Keypair, (no_user(Keypair.user_id),)),
)
