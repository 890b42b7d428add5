"""Error bodies of the networking API: they carry the type of the error. Reference: discovery.md, section 6."""

from __future__ import annotations

from cloudctl.rest.body import Problem
from cloudctl.rest.faults import Faults, JsonObject


def _envelope(status: int, message: str, type: str) -> JsonObject:
    return {"NeutronError": {"type": type, "message": message, "detail": ""}}


def _problems(problems: list[Problem]) -> tuple[int, str]:
    told = []
    for p in problems:
        if p.kind == "unknown":
            told.append(f"Unrecognized attribute(s) @ {p.path}: {p.message}")
        elif p.kind == "required":
            told.append(f"Failed to parse request. Required attribute not specified: {p.message} @ {p.path}")
        elif p.kind == "syntax":
            told.append(f"Failed to parse request: {p.message}")
        else:
            told.append(f"Invalid input for {p.name}. Reason: {p.message} @ {p.path}.")
    return 400, " ".join(told)


FAULTS = Faults(_envelope, _problems, quota_status=409)
