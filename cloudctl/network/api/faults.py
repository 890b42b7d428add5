"""Error bodies of the networking API: they carry the type of the error. Reference: discovery.md, section 6."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import evolve

from cloudctl.rest.body import Problem
from cloudctl.rest.faults import Faults, JsonObject

EMPTY = "zero-length"  # the parser's word for an empty body
INDEX = re.compile(r"(\[\d+\])+$")
NAMES = re.compile(r"'([^']*)'")
TOP = re.compile(r"\$(\.[^.\[]*){0,2}")


def _envelope(status: int, message: str, type: str) -> JsonObject:
    return {"NeutronError": {"type": type, "message": message, "detail": ""}}


# Messages of the strict reader of bodies, and the wording that clients of networking know.
WORDS: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"'?(.*?)'? is too long \(at most (\d+) characters\)", r"'\1' exceeds maximum length of \2."),
        (r"'?(.*?)'? is not of type 'string'", r"'\1' is not a valid string."),
        (r"'?(.*?)'? is not of type 'integer'", r"'\1' is not an integer."),
        (r"'?(.*?)'? is not of type 'boolean'", r"'\1' cannot be converted to boolean."),
        (r"'?(.*?)'? is not of type 'array'", r"'\1' is not a list."),
        (r"'?(.*?)'? is not of type 'object'", r"'\1' is not a dictionary."),
        (r"(.*) is less than the minimum of (.*)", r"'\1' is too small - must be at least '\2'."),
        (r"(.*) is (?:greater than the maximum of|beyond) (.*)", r"'\1' is too large - must be no larger than '\2'."),
        (r"(.*) is not one of (.*)", r"\1 is not in \2."),
        (r"'?(.*?)'? contains only whitespace", r"'\1' Blank strings are not permitted."),
    )
]


def _problems(problems: list[Problem]) -> tuple[int, str]:
    return 400, " ".join(map(_told, problems))


def _told(problem: Problem) -> str:
    at_top = problem.path == "$"
    if problem.kind == "syntax" and EMPTY in problem.message:
        return "Resource body required"
    if problem.kind == "syntax":
        return f"Failed to parse request: {problem.message}"
    if problem.kind == "required" and at_top:
        return f"Unable to find {_quoted(problem)} in request body"
    if problem.kind == "type" and at_top:
        return "Resource body required"
    if problem.kind == "ungiven":
        return f"Attribute {_quoted(problem)} not allowed in POST{_where(problem)}"
    if problem.kind == "unchangeable":
        return f"Cannot update read-only attribute {_quoted(problem)[1:-1]}{_where(problem)}"
    if problem.kind == "unknown":
        return f"Unrecognized attribute(s) {_quoted(problem)}{_where(problem)}"
    if problem.kind == "required":
        return f"Failed to parse request. Required attribute {_quoted(problem)} not specified{_where(problem)}"
    # An item of a list is called by the list's name.
    name = evolve(problem, path=INDEX.sub("", problem.path)).name
    return f"Invalid input for {name}. Reason: {_reason(problem.message)}{_where(problem)}"


def _reason(message: str) -> str:
    for pattern, words in WORDS:
        if pattern.fullmatch(message):
            return pattern.sub(words, message)
    return message if message.endswith(".") else f"{message}."


def _quoted(problem: Problem) -> str:
    """The names in a message, in one pair of quotes."""
    return f"'{', '.join(NAMES.findall(problem.message))}'"


def _where(problem: Problem) -> str:
    """Where the problem is, unless it is in the only record of the body."""
    return "" if TOP.fullmatch(problem.path) else f" @ {problem.path}"


FAULTS = Faults(_envelope, _problems, quota_status=409)
