"""One line of text per event, as Twisted's text log observer writes it, in a quarter of the time.

As in `json_log`, lines of events that hold text and numbers are made here, the others (a failure, an object) are left
to Twisted, and a reader of the log cannot tell which of the two wrote a line. Paths, names and error texts may be what
users sent, so unprintable characters, such as a terminal's commands, are written as their numbers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import IO, Any

from twisted.logger import FileLogObserver, LogEvent, formatEventAsClassicLogText, formatTime

from cloudctl.json_log import EXPECTED, flattened


def observer(out: IO[Any]) -> FileLogObserver:
    """A replacement for `twisted.logger.textFileLogObserver`."""

    def written(event: LogEvent) -> str | None:
        line = flat(event) or formatEventAsClassicLogText(event)
        return line and harmless(line)

    return FileLogObserver(out, written)


def harmless(lines: str) -> str:
    """The text without anything that moves a cursor, hides text, or is not text. Newlines and tabs stay."""
    if lines[:-1].isprintable():
        return lines
    return "".join(each if each.isprintable() or each in "\n\t" else _written(each) for each in lines)


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode()


def flat(event: LogEvent) -> str | None:
    """The line of an event whose values are plain; None for any other event, and for one without text."""
    if not EXPECTED.issuperset(map(type, event.values())):
        return None
    log_format = event.get("log_format")
    if not log_format or flattened(log_format) is None:
        return None
    try:
        text = log_format.format_map(event)
    except (KeyError, TypeError, ValueError):
        # The format names a missing value, or applies a number's format to a text.
        return None
    when, level, system = event.get("log_time"), event.get("log_level"), event.get("log_system")
    if system is None:
        system = f"{event.get('log_namespace', '-')}#{'-' if level is None else level.name}"
    if not text:
        return None
    line = f"{'-' if when is None else second(rounded(when))} [{system}] {text}"
    return line.replace("\n", "\n\t") + "\n"


def rounded(when: float) -> int:
    """The second that is shown of this time, which a `datetime` first rounds to microseconds."""
    return int(when) + (round(when % 1 * 1_000_000) == 1_000_000)


@lru_cache(maxsize=4)
def second(when: int) -> str:
    """Cached, as many events fall into the same second and no more of their time is shown."""
    return formatTime(when)
