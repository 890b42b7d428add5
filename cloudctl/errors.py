"""What can go wrong, in the words of the domain.

A rule raises one of these; `rest.faults` alone turns it into a status code and the error body of the service that was
called. `type` is the networking API's exception name; the other services ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping


class CloudError(Exception):
    """A refusal that the caller can understand. `message` is shown to the caller, so it holds no secret."""

    status = 500
    type = "HTTPInternalServerError"

    def __init__(self, message: str, *, type: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.headers = dict(headers or {})
        if type is not None:
            self.type = type


class Invalid(CloudError):
    """A value, a field or a parameter is wrong."""

    status = 400
    type = "InvalidInput"


class Unauthorized(CloudError):
    """No token, a bad token, or bad credentials."""

    status = 401
    type = "HTTPUnauthorized"


class Forbidden(CloudError):
    """The caller is known and may not do this."""

    status = 403
    type = "PolicyNotAuthorized"


class NotFound(CloudError):
    """It does not exist, or the caller may not know that it does."""

    status = 404
    type = "HTTPNotFound"


class MethodNotAllowed(CloudError):
    """The path exists; the method does not. Carries `Allow`."""

    status = 405
    type = "HTTPMethodNotAllowed"


class NotAcceptable(CloudError):
    """A microversion out of range, or a type that nothing here has."""

    status = 406
    type = "HTTPNotAcceptable"


class Conflict(CloudError):
    """The present state of a resource forbids it."""

    status = 409
    type = "Conflict"


class Gone(CloudError):
    """It existed when the call began."""

    status = 410
    type = "HTTPGone"


class LengthRequired(CloudError):
    """The request does not say how long its body is."""

    status = 411
    type = "HTTPLengthRequired"


class PreconditionFailed(CloudError):
    """If-Match names another revision."""

    status = 412
    type = "RevisionNumberConstraintFailed"


class TooLarge(CloudError):
    """The request body is over its limit."""

    status = 413
    type = "HTTPRequestEntityTooLarge"


class OverQuota(CloudError):
    """A limit of the project is reached. 409 in the networking API, 413 elsewhere."""

    status = 413
    type = "OverQuota"


class UnsupportedMediaType(CloudError):
    """The body's Content-Type or its format is not accepted."""

    status = 415
    type = "HTTPUnsupportedMediaType"


class RangeNotSatisfiable(CloudError):
    """The byte range lies outside the data."""

    status = 416
    type = "HTTPRangeNotSatisfiable"


class Unprocessable(CloudError):
    """The data is not what was announced."""

    status = 422
    type = "HTTPUnprocessableEntity"


class TooMany(CloudError):
    """The client sends more requests than it may. Carries `Retry-After`."""

    status = 429
    type = "OverLimit"


class NotImplementedHere(CloudError):
    """The configured driver has no such capability."""

    status = 501
    type = "HTTPNotImplemented"


class Unavailable(CloudError):
    """Something that is needed is down; the same request may succeed later."""

    status = 503
    type = "ServiceUnavailable"


class InsufficientStorage(CloudError):
    """There is no room on the disk."""

    status = 507
    type = "HTTPInsufficientStorage"


class ConfigError(Exception):
    """The configuration is wrong. `problems` are lines of «path: what is wrong and what would be right»."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
