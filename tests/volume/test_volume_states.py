"""The state table of volumes. Reference: volume-states.md, sections 1 to 4."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.db.columns import utc
from cloudctl.errors import Conflict, NotFound
from cloudctl.volume import states
from cloudctl.volume.tables import Volume
from tests.volume.asking import volume

# Move → (where it may start, where it leads), as the reference has it.
EXPECTED = {
    "delete": ({"available", "error", "error_restoring", "error_extending", "error_managing"}, "deleting"),
    "extend": ({"available"}, "extending"),
    "extend in use": ({"available", "in-use"}, "extending"),
    "reserve": ({"available"}, "attaching"),
    "reserve again": ({"available", "in-use"}, "attaching"),
    "begin detaching": ({"in-use"}, "detaching"),
    "roll detaching": ({"detaching"}, "in-use"),
    "make read-only": ({"available"}, "available"),
    "download": ({"creating"}, "downloading"),
    "created": ({"creating", "downloading"}, "available"),
    "create failed": ({"creating", "downloading"}, "error"),
    "delete failed": ({"deleting"}, "error_deleting"),
    "extend failed": ({"extending"}, "error_extending"),
    "snapshot": ({"available"}, None),
    "snapshot in use": ({"available", "in-use"}, None),
    "back up": ({"available"}, "backing-up"),
    "back up in use": ({"available", "in-use"}, "backing-up"),
    "restore": ({"available"}, "restoring-backup"),
    "restore new": ({"creating"}, "restoring-backup"),
    "restore failed": ({"restoring-backup"}, "error_restoring"),
    "restore new failed": ({"creating", "restoring-backup"}, "error"),
    "upload": ({"available"}, "uploading"),
    "upload in use": ({"available", "in-use"}, "uploading"),
    "revert": ({"available"}, "reverting"),
    "revert failed": ({"reverting"}, "error"),
}
SNAPSHOTS = {
    "created": ({"creating"}, "available"),
    "create failed": ({"creating"}, "error"),
    "delete": ({"available", "error"}, "deleting"),
    "delete with its volume": ({"available", "error", "deleting"}, "deleting"),
    "delete with its group": ({"available", "error", "deleting", "error_deleting"}, "deleting"),
    "delete failed": ({"deleting"}, "error_deleting"),
    "busy": ({"deleting"}, "available"),
    "back up": ({"available"}, "backing-up"),
    "backed up": ({"backing-up"}, "available"),
    "revert": ({"available"}, "restoring"),
    "reverted": ({"restoring"}, "available"),
    "revert failed": ({"restoring"}, "error"),
}
BACKUPS = {
    "created": ({"creating"}, "available"),
    "create failed": ({"creating"}, "error"),
    "delete": ({"available", "error"}, "deleting"),
    "delete failed": ({"deleting"}, "error_deleting"),
    "restore": ({"available"}, "restoring"),
    "restored": ({"restoring"}, "available"),
}


def set_status(cloud: Any, id: str, status: str) -> None:
    cloud.transact(
        lambda conn: conn.execute(Volume.table.update().where(Volume.id == id).values(status=status)).rowcount
    )


def test_the_table_names_statuses_that_exist() -> None:
    known = states.RESETTABLE | {"deleting", "reverting"}
    for name, move in states.MOVES.items():
        assert all(wanted.values <= known for wanted in move.sources.values()), name
        assert set(move.target.values()) <= known, name


@pytest.mark.parametrize("name", EXPECTED)
def test_a_move_starts_where_the_reference_says_and_nowhere_else(make: Any, cloud: Any, demo: Any, name: str) -> None:
    id = make()["id"]
    sources, target = EXPECTED[name]
    for status in sorted(states.RESETTABLE | {"deleting", "reverting"}):
        set_status(cloud, id, status)

        def attempt(conn: Any) -> bool:
            return states.try_move(conn, id, name, utc(cloud.clock.seconds()))

        assert cloud.transact(attempt) is (status in sources), status
        assert volume(demo, id)["status"] == (target if status in sources and target else status)


def test_the_moves_of_snapshots_and_backups_are_those_of_the_reference() -> None:
    for moves, expected in ((states.SNAPSHOT_MOVES, SNAPSHOTS), (states.BACKUP_MOVES, BACKUPS)):
        found: dict[str, Any] = {
            name: (move.sources["status"].values, move.target["status"]) for name, move in moves.items() if move.sources
        }
        assert found == expected
        # From any status: what an administrator forces.
        assert {name for name in moves if name not in expected} == {"force delete"}


def test_a_move_that_is_not_allowed_is_refused_in_the_words_of_the_table(make: Any, cloud: Any) -> None:
    id = make()["id"]
    now = utc(cloud.clock.seconds())
    with pytest.raises(Conflict, match="must be 'in-use'"):
        cloud.transact(lambda conn: states.move(conn, id, "begin detaching", now))
    with pytest.raises(NotFound):
        cloud.transact(lambda conn: states.move(conn, "none", "delete", now))
