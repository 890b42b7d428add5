"""Error bodies: the one place where an exception becomes a status code and JSON. Reference: discovery.md, section 6."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from attrs import frozen

from cloudctl.errors import CloudError, OverQuota
from cloudctl.rest.body import BodyError, Problem

JsonObject = dict[str, Any]

UNAUTHENTICATED = "The request you have made requires authentication."
UNFORESEEN = "Unexpected API Error. The operator finds its cause under the request id {request_id}."

COMPUTE_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "entityTooLarge",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}


def reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


@frozen
class Faults:
    """The error bodies of one service."""

    envelope: Callable[[int, str, str], JsonObject]  # (status, message, networking's type) → body
    problems: Callable[[list[Problem]], tuple[int, str]]  # what is wrong with a body → (status, message)
    quota_status: int = 413
    unknown_path: str = "The resource could not be found."

    def of(self, error: CloudError) -> tuple[int, JsonObject]:
        status = self.quota_status if isinstance(error, OverQuota) else error.status
        return status, self.envelope(status, error.message, error.type)

    def of_body(self, error: BodyError) -> tuple[int, JsonObject]:
        status, message = self.problems(error.problems)
        return status, self.envelope(status, message, "HTTPBadRequest")


def _identity(status: int, message: str, type: str) -> JsonObject:
    return {"error": {"code": status, "message": message, "title": reason(status)}}


def _named(names: Mapping[int, str], otherwise: str) -> Callable[[int, str, str], JsonObject]:
    def envelope(status: int, message: str, type: str) -> JsonObject:
        return {names.get(status, otherwise): {"code": status, "message": message}}

    return envelope


def _network(status: int, message: str, type: str) -> JsonObject:
    return {"NeutronError": {"type": type, "message": message, "detail": ""}}


def _image(status: int, message: str, type: str) -> JsonObject:
    return {"message": message, "code": f"{status} {reason(status)}", "title": reason(status)}


def _schema_problems(problems: list[Problem]) -> tuple[int, str]:
    """As JSON-schema services say it: the field, the value, the reason."""
    told = [
        f"{p.message} @ {p.path}"
        if p.kind == "syntax"
        else f"Invalid input for field/attribute {p.name}: {p.message} @ {p.path}"
        for p in problems
    ]
    return 400, "; ".join(told)


def _identity_problems(problems: list[Problem]) -> tuple[int, str]:
    return 400, "; ".join(f"{p.message} @ {p.path}" for p in problems)


def _network_problems(problems: list[Problem]) -> tuple[int, str]:
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


IDENTITY = Faults(_identity, _identity_problems)
COMPUTE = Faults(_named(COMPUTE_NAMES, "computeFault"), _schema_problems)
VOLUME = Faults(_named({**COMPUTE_NAMES, 413: "overLimit"}, "volumeFault"), _schema_problems)
NETWORK = Faults(_network, _network_problems, quota_status=409)
IMAGE = Faults(_image, _identity_problems)
INSTANCE_HA = Faults(_named(COMPUTE_NAMES, "masakariFault"), _schema_problems)
