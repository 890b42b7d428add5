"""Something that fails for a while: how much of it is in the log."""

from __future__ import annotations

from twisted.logger import Logger, LogLevel, capturedLogs, formatEvent

from cloudctl.trouble import Trouble


def test_what_fails_again_and_again_is_told_once_and_so_is_its_end_and_another_reason() -> None:
    trouble = Trouble(Logger(), "host {east} is away", "host {east} is back")
    with capturedLogs() as lines:
        trouble.is_over()
        for why in (ValueError("no {route}"), ValueError("no {route}"), "refused", "refused", TimeoutError()):
            trouble.is_met(why)
        for _ in range(2):
            trouble.is_over()
        trouble.is_met("refused")
    told = [
        "host {east} is away: no {route}",
        "host {east} is away: refused",
        "host {east} is away: TimeoutError",
        "host {east} is back",
        "host {east} is away: refused",
    ]
    assert [formatEvent(each) for each in lines] == told
    assert [each["log_level"] for each in lines].count(LogLevel.info) == 1
