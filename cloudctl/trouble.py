"""What is done again and again, and fails for a while: how little of that belongs into the log."""

from __future__ import annotations

from attrs import define, field
from twisted.logger import Logger, LogLevel


@define
class Trouble:
    """A line when it begins, or its reason is another one, and a line when it is over. `what`: fails meanwhile."""

    log: Logger  # of whom it is told
    what: str
    over: str
    level: LogLevel = LogLevel.warn
    _told: str = field(default="", init=False)  # the last reason; empty: there is no trouble

    def is_met(self, why: object) -> None:
        """It has failed."""
        if (reason := str(why) or type(why).__name__) != self._told:
            self.log.emit(self.level, "{what}: {why}", what=self.what, why=reason)
            self._told = reason

    def is_over(self) -> None:
        """It has been done."""
        if self._told:
            self.log.info("{over}", over=self.over)
            self._told = ""
