"""Checksums of objects uploaded in parts: of all the data, or of the parts' checksums.

Reference: AWS, «Checking object integrity», «CompleteMultipartUpload».
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import frozen

from cloudctl.object_store.api.headers import Headers
from cloudctl.object_store.api.s3 import headers
from cloudctl.object_store.api.s3.checksums import ALGORITHMS, HEADER
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.metadata import PRIVATE
from cloudctl.object_store.tables import Upload, UploadPart
from cloudctl.rest.call import Call

ALGORITHM, TYPE = "x-amz-checksum-algorithm", "x-amz-checksum-type"
KEPT_ALGORITHM: Final = f"{PRIVATE}X-Amz-Checksum-Algorithm"
COMPOSITE, WHOLE = "COMPOSITE", headers.WHOLE
# Which of the two a checksum can be; the first is the default. Only CRCs can be combined.
TYPES: Final = {
    "crc32": (COMPOSITE, WHOLE),
    "crc32c": (COMPOSITE, WHOLE),
    "crc64nvme": (WHOLE,),
    "sha1": (COMPOSITE,),
    "sha256": (COMPOSITE,),
}


def _combine(algorithm: str) -> Callable[[int, int, int], int]:
    """A function from the sums of two pieces, and the bytes of the second, to the sum of both."""
    # Imported only once somebody requests one.
    from awscrt import checksums

    found: Callable[[int, int, int], int] = getattr(checksums, f"combine_{algorithm}")
    return found


@frozen
class Sum:
    """The checksum that an upload is to have."""

    algorithm: str
    type: str

    @classmethod
    def asked(cls, call: Call) -> Sum | None:
        """Raises InvalidRequest."""
        algorithm, type = (call.header(ALGORITHM) or "").lower(), (call.header(TYPE) or "").upper()
        if not algorithm and not type:
            return None
        if not algorithm:
            raise error("InvalidRequest", f"The {TYPE} header can only be used with the {ALGORITHM} header.")
        if algorithm not in TYPES:
            raise error("InvalidRequest", "Checksum algorithm provided is unsupported.")
        if type and type not in TYPES[algorithm]:
            raise error(
                "InvalidRequest", f"The {type[:32]} checksum type cannot be used with the {algorithm} algorithm."
            )
        return cls(algorithm, type or TYPES[algorithm][0])

    @classmethod
    def of(cls, upload: Upload) -> Sum | None:
        algorithm = upload.headers.get(KEPT_ALGORITHM)
        return None if algorithm is None else cls(algorithm, upload.headers[headers.KEPT_TYPE])

    @property
    def kept(self) -> dict[str, str]:
        """The headers in which an upload stores it."""
        return {KEPT_ALGORITHM: self.algorithm, headers.KEPT_TYPE: self.type}

    @property
    def told(self) -> Headers:
        return (ALGORITHM, self.algorithm.upper()), (TYPE, self.type)

    def of_parts(self, found: Sequence[tuple[str, int]]) -> str:
        """The sum of the object, from the parts' sums (base64) and sizes (bytes)."""
        raw = [(base64.b64decode(value), size) for value, size in found]
        if self.type == COMPOSITE:
            digest = ALGORITHMS[self.algorithm]()
            for each, _ in raw:
                digest.update(each)
            return f"{base64.b64encode(digest.digest()).decode()}-{len(raw)}"
        combine, total = _combine(self.algorithm), 0
        for each, size in raw:
            total = combine(total, int.from_bytes(each, "big"), size)
        return base64.b64encode(total.to_bytes(len(raw[0][0]), "big")).decode()


@frozen
class Completing:
    """The headers of a completed object, checked against what the client says."""

    given: Mapping[str, str]  # algorithm → base64
    type: str
    size: str

    @classmethod
    def of(cls, call: Call) -> Completing:
        given = {name: call.header(HEADER + name) or "" for name in ALGORITHMS if call.header(HEADER + name)}
        return cls(given, (call.header(TYPE) or "").upper(), call.header("x-amz-mp-object-size") or "")

    def __call__(self, upload: Upload, found: Sequence[UploadPart]) -> dict[str, str]:
        """The headers to store. Raises InvalidRequest, BadDigest."""
        size = sum(part.size for part in found)
        if self.size and self.size != str(size):
            raise error(
                "InvalidRequest",
                f"The provided 'x-amz-mp-object-size' header value {self.size[:32]} does not match what was computed: "
                f"{size}",
            )
        kept = dict(upload.headers)
        wanted = Sum.of(upload)
        if wanted is None:
            return kept
        if self.type not in ("", wanted.type) or not set(self.given) <= {wanted.algorithm}:
            raise error(
                "InvalidRequest", f"The upload was created with {wanted.type} {wanted.algorithm}; use the same here."
            )
        name = HEADER + wanted.algorithm
        sums = [(dict(headers.sums(part.headers))[name], part.size) for part in found]
        value = wanted.of_parts(sums)
        if self.given and self.given[wanted.algorithm] not in (value, value.partition("-")[0]):
            raise error("BadDigest", f"The {wanted.algorithm} you specified did not match the calculated checksum.")
        del kept[KEPT_ALGORITHM]
        return kept | headers.kept_sums({name: value})
