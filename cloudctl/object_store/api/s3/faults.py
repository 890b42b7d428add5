"""Error bodies of S3: XML with a code. Reference: object-store.md, B3.

The code of an error is its `type`. Errors of the domain have no S3 code, and get the code for their status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl import context
from cloudctl.errors import CloudError
from cloudctl.object_store.api.s3 import xml
from cloudctl.rest.body import BodyError
from cloudctl.rest.faults import Faults, Form, JsonObject, plain_problems

# The statuses of the codes that are raised here.
STATUSES: Final = {
    "AccessControlListNotSupported": 400,
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketAclWithObjectOwnership": 400,
    "InvalidBucketName": 400,
    "InvalidChunkSizeError": 403,
    "InvalidDigest": 400,
    "InvalidLocationConstraint": 400,
    "InvalidPart": 400,
    "InvalidPartNumber": 416,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidStorageClass": 400,
    "InvalidTag": 400,
    "InvalidToken": 400,
    "InvalidURI": 400,
    "KeyTooLongError": 400,
    "MalformedPOSTRequest": 400,
    "MalformedPolicy": 400,
    "MalformedTrailerError": 400,
    "MalformedXML": 400,
    "MetadataTooLarge": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchBucketPolicy": 404,
    "NoSuchCORSConfiguration": 404,
    "NoSuchKey": 404,
    "NoSuchLifecycleConfiguration": 404,
    "NoSuchPublicAccessBlockConfiguration": 404,
    "NoSuchTagSet": 404,
    "NoSuchUpload": 404,
    "NoSuchVersion": 404,
    "NoSuchWebsiteConfiguration": 404,
    "NotImplemented": 501,
    "ObjectLockConfigurationNotFoundError": 404,
    "OperationAborted": 409,
    "OwnershipControlsNotFoundError": 404,
    "PreconditionFailed": 412,
    "ReplicationConfigurationNotFoundError": 404,
    "RequestTimeTooSkewed": 403,
    "ServerSideEncryptionConfigurationNotFoundError": 404,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "XAmzContentSHA256Mismatch": 400,
}
# The default code of a status.
CODES: Final = {
    400: "InvalidRequest",
    401: "AccessDenied",
    403: "AccessDenied",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    409: "OperationAborted",
    411: "MissingContentLength",
    412: "PreconditionFailed",
    413: "EntityTooLarge",
    416: "InvalidRange",
    422: "BadDigest",
    429: "SlowDown",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
    507: "SlowDown",
}
USUAL: Final = {
    "AccessControlListNotSupported": "The bucket does not allow ACLs",
    "AccessDenied": "Access Denied",
    "BadDigest": "The Content-MD5 you specified did not match what we received.",
    "InvalidChunkSizeError": "Only the last chunk is allowed to have a size less than 8192 bytes",
    "IncompleteBody": "The request body terminated unexpectedly",
    "MalformedTrailerError": "The request contained trailing data that was not well-formed or did not conform to our "
    "published schema.",
    "MalformedXML": "The XML you provided was not well-formed or did not validate against our published schema",
    "MethodNotAllowed": "The specified method is not allowed against this resource.",
    "NoSuchBucket": "The specified bucket does not exist.",
    "NoSuchKey": "The specified key does not exist.",
    "MissingContentLength": "You must provide the Content-Length HTTP header.",
    "PreconditionFailed": "At least one of the pre-conditions you specified did not hold",
    "SignatureDoesNotMatch": "The request signature we calculated does not match the signature you provided. Check "
    "your key and signing method.",
    "SlowDown": "Please reduce your request rate.",
}


class S3Error(CloudError):
    """`more`: what S3 adds to the message, by element name."""

    def __init__(self, code: str, message: str, more: Mapping[str, str], headers: Mapping[str, str]) -> None:
        super().__init__(message, type=code, headers=headers)
        self.more = dict(more)
        self.status = STATUSES[code]


def error(code: str, message: str = "", more: Mapping[str, str] | None = None, **headers: str) -> CloudError:
    """An error with one of S3's codes. In names of headers, _ stands for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return S3Error(code, message or USUAL.get(code, code), more or {}, named)


def _envelope(status: int, message: str, type: str) -> JsonObject:
    code = type if type in STATUSES else CODES.get(status, "InternalError")
    return {"code": code, "message": message or USUAL.get(code, code)}


def _write(body: JsonObject) -> bytes:
    return xml.document(element(body["code"], body["message"], **body.get("more", {})))


def element(code: str, message: str, **more: str) -> Element:
    """An error as S3 reports it. It has no namespace."""
    request_id = context.transaction_id.get()
    return xml.element("Error", Code=code, Message=message, **more, RequestId=request_id, HostId=request_id)


FORM = Form("application/xml", _write)


@frozen
class S3Faults(Faults):
    """The status follows from the code."""

    def of(self, error: CloudError) -> tuple[int, JsonObject]:
        status, body = super().of(error)
        if isinstance(error, S3Error):
            body["more"] = error.more
        return STATUSES.get(body["code"], status), body

    def of_body(self, error: BodyError) -> tuple[int, JsonObject]:
        return super().of_body(error)


FAULTS = S3Faults(_envelope, plain_problems, unknown_path=USUAL["NoSuchKey"], forms=(FORM,), otherwise=FORM)
