"""Accounts of deleted projects: their contents are removed a while later.

Resellers may fill accounts without a project, so an account records whether its project was ever seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select, update
from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.db.columns import seconds, utc
from cloudctl.identity.tables import Project
from cloudctl.object_store import accounts, containers, objects, parts
from cloudctl.object_store.accounts import SEEN
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.tables import Account, Container
from cloudctl.tasks.rounds import Rounds

log = Logger()

PAGE, BATCH = 500, 200


class Orphans(Rounds):
    """`kept`: seconds for which such accounts stay."""

    def __init__(self, intake: Intake, period: float, kept: float) -> None:
        super().__init__(intake.db.clock, period, "accounts of deleted projects could not be emptied")
        self.intake = intake
        self.kept = kept

    async def look(self) -> None:
        """One round. Raises the database's errors."""
        after: str | None = ""
        while after is not None:
            now = utc(self.clock.seconds())
            due, after = await self.intake.db.run(look_at_some, after, self.kept, now)
            for project_id in due:
                is_empty = False
                while not is_empty:
                    is_empty, freed = await self.intake.db.run(remove_some, project_id)
                    await self.intake.remove(freed)
                log.info("account AUTH_{id}: its project was deleted, so its data was deleted", id=project_id)


def look_at_some(conn: Connection, after: str, kept: float, now: datetime) -> tuple[Sequence[str], str | None]:
    """The due accounts among those after this one, and where to go on; None: there are no more."""
    query = select(Account).where(Account.project_id > after).order_by(Account.project_id).limit(PAGE)
    found = conn.execute(query).all()
    there = set(conn.scalars(select(Project.id).where(Project.id.in_([each.project_id for each in found]))))
    due: list[str] = []
    for account in found:
        said = account.headers.get(SEEN)
        if account.project_id in there:
            _say(conn, account, "")
        elif said == "":
            _say(conn, account, str(int(seconds(now))))
        elif said is not None and int(said) + kept <= seconds(now):
            due.append(account.project_id)
    return due, found[-1].project_id if len(found) == PAGE else None


def _say(conn: Connection, account: Account, said: str) -> None:
    if account.headers.get(SEEN) == said:
        return
    # The other headers may have been changed since they were read.
    found = accounts.find(conn, account.project_id, lock=True)
    if found is not None:
        mine = Account.project_id == account.project_id
        conn.execute(update(Account).where(mine).values(headers={**found.headers, SEEN: said}))


def remove_some(conn: Connection, project_id: str) -> tuple[bool, Sequence[str]]:
    """Remove some of an account. Returns whether it is gone now, and the files of what was removed."""
    mine = select(Container).where(Container.project_id == project_id).order_by(Container.name).limit(1)
    container = conn.execute(mine.with_for_update()).first()
    if container is None:
        conn.execute(delete(Account).where(Account.project_id == project_id))
        return True, ()
    freed = objects.take_some(conn, container.id, BATCH)
    if freed is not None:
        return False, freed
    containers.remove(conn, container)
    return False, parts.abort_all(conn, container.id)
