"""Error bodies of the object store: a line of HTML, or of text. Reference: object-store.md, A1."""

from __future__ import annotations

from html import escape

from attrs import frozen

from cloudctl.rest.faults import Faults, Form, JsonObject, plain_problems, reason

# The default messages.
USUAL = {
    401: "This server could not verify that you are authorized to access the document you requested.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    405: "The method is not allowed for this resource.",
    409: "There was a conflict when trying to complete your request.",
    411: "Content-Length header required.",
    412: "A precondition for this request was not met.",
    416: "The Range requested is not available.",
    422: "Unable to process the contained instructions",
    507: "There was not enough space to save the resource.",
}


# These explain what is wrong with a request, for its author: the explanation is the whole body.
IN_WORDS = (400, 409, 412, 413, 416)


def _envelope(status: int, message: str, type: str) -> JsonObject:
    told = message if status in IN_WORDS else ""
    return {"title": reason(status), "message": message or USUAL.get(status, ""), "words": told}


def _write(body: JsonObject) -> bytes:
    return f"<html><h1>{escape(body['title'])}</h1><p>{escape(body['message'])}</p></html>".encode()


def _words(body: JsonObject) -> bytes:
    return str(body["words"]).encode()


@frozen
class SwiftFaults(Faults):
    """A line of HTML, or of plain text."""

    def form_of(self, body: JsonObject, accept: str) -> Form:
        return WORDS if body["words"] else HTML


WORDS = Form("text/plain", _words, "UTF-8")
HTML = Form("text/html", _write, "UTF-8")
HTML_TYPE = ("Content-Type", HTML.content_type)
# For answers to HEAD: Swift sends this and its clients expect it, although 204 implies it.
NOTHING = (("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", "0"))

FAULTS = SwiftFaults(_envelope, plain_problems, unknown_path=USUAL[404], forms=(HTML,), otherwise=HTML)
