"""Error bodies: the one place where an exception becomes a status code and JSON. Reference: discovery.md, section 6.

Each service declares its `Faults`; here are the forms that several of them share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

import orjson
from attrs import frozen

from cloudctl.errors import CloudError, OverQuota
from cloudctl.rest.accept import preferred
from cloudctl.rest.body import BodyError, Problem

JsonObject = dict[str, Any]

UNAUTHENTICATED = "The request you have made requires authentication."
UNFORESEEN = "Unexpected API Error. The operator finds its cause under the request id {request_id}."

# The key of an error body by its status, in the services that have such keys.
NAMES = {
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


# Refusals that may tell when to try again.
LIMITED = (413, 429)


def reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


@frozen
class Form:
    """How an error body is written: `write` turns what the envelope returns into bytes."""

    type: str  # "text/html"
    write: Callable[[JsonObject], bytes]
    charset: str = ""

    @property
    def content_type(self) -> str:
        return f"{self.type}; charset={self.charset}" if self.charset else self.type


def _html(body: JsonObject) -> bytes:
    code, message = escape(str(body["code"])), escape(str(body["message"]))
    return f"""<html>
 <head>
  <title>{code}</title>
 </head>
 <body>
  <h1>{code}</h1>
  {message}<br /><br />
 </body>
</html>""".encode()


def _plain(body: JsonObject) -> bytes:
    return f"{body['code']}\n\n{body['message']}\n".encode()


JSON = Form("application/json", orjson.dumps)
# For envelopes that have a `code` such as "404 Not Found", and a `message`.
HTML = Form("text/html", _html, "UTF-8")
PLAIN = Form("text/plain", _plain, "UTF-8")


@frozen
class Faults:
    """The error bodies of one service.

    `forms`: those that a client may choose from by its header Accept, the service's first choice first; `otherwise` is
    the form for a client that names none of them.
    """

    envelope: Callable[[int, str, str], JsonObject]  # (status, message, networking's type) → body
    problems: Callable[[list[Problem]], tuple[int, str]]  # what is wrong with a body → (status, message)
    quota_status: int = 413
    unknown_path: str = "The resource could not be found."
    tells_when: bool = False  # `retryAfter` beside the message of an `overLimit`, as in the header Retry-After
    forms: Sequence[Form] = (JSON,)
    otherwise: Form = JSON

    def form(self, accept: str) -> Form:
        chosen = preferred(accept, [form.type for form in self.forms])
        return next((form for form in self.forms if form.type == chosen), self.otherwise)

    def form_of(self, body: JsonObject, accept: str) -> Form:
        """How this body is written."""
        return self.form(accept)

    def of(self, error: CloudError) -> tuple[int, JsonObject]:
        status = self.quota_status if isinstance(error, OverQuota) else error.status
        body = self.envelope(status, error.message, error.type)
        if self.tells_when and status in LIMITED and "Retry-After" in error.headers:
            body = {name: {**told, "retryAfter": error.headers["Retry-After"]} for name, told in body.items()}
        return status, body

    def of_body(self, error: BodyError) -> tuple[int, JsonObject]:
        status, message = self.problems(error.problems)
        return status, self.envelope(status, message, "HTTPBadRequest")


def named(names: Mapping[int, str], otherwise: str) -> Callable[[int, str, str], JsonObject]:
    """The envelope whose only key names the status."""

    def envelope(status: int, message: str, type: str) -> JsonObject:
        return {names.get(status, otherwise): {"code": status, "message": message}}

    return envelope


def schema_problems(problems: list[Problem]) -> tuple[int, str]:
    """As services with JSON schemas word it: the field, the value, the reason."""
    return 400, "; ".join(_told(problem) for problem in problems)


def _told(problem: Problem) -> str:
    if problem.kind == "syntax":
        return f"{problem.message} @ {problem.path}"
    value = "" if problem.value is None else f" Value: {problem.value}."
    return f"Invalid input for field/attribute {problem.name}.{value} {problem.message} @ {problem.path}"


def plain_problems(problems: list[Problem]) -> tuple[int, str]:
    """What is wrong, and where."""
    return 400, "; ".join(f"{p.message} @ {p.path}" for p in problems)
