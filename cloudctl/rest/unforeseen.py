"""What no handler expected, as the client is told it, and as the log has it."""

from __future__ import annotations

from twisted.logger import Logger
from twisted.python.failure import Failure

from cloudctl.db.absence import why_away
from cloudctl.errors import CloudError, Unavailable
from cloudctl.rest.uploads import LATER

log = Logger()


def refusal(failure: Failure, what: str, message: str) -> CloudError:
    """`what` failed. A database that does not answer, or has no room, is a 503 and a line; anything else a 500 with
    `message`, logged with its traceback.
    """
    if why := why_away(failure.value):
        log.error("{what}: the database is unavailable: {why}", what=what, why=why)
        return Unavailable("The service is unavailable now; try again later.", headers=LATER)
    log.failure("{what}: unexpected error", failure, what=what)
    return CloudError(message)
