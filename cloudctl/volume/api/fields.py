"""Fields of request bodies that several resources share. Reference: volume.md, section 1.7."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.errors import Invalid
from cloudctl.rest.body import Check, Items, Length, Loose, Pattern, Range

# Leading and trailing blanks are dropped.
Label = Annotated[str, Check(str.strip), Length(0, 255)]
Key = Annotated[str, Length(1, 255), Pattern(r"[a-zA-Z0-9\-_:. /]+", "made of letters, digits and -_:. /")]
Metadata = dict[Key, Annotated[str, Length(0, 255)]]
# Values come from properties of images, which may be long: the signature of one is.
ImageMetadata = dict[Key, Annotated[str, Length(0, 65535)]]
OneMetadatum = Annotated[Metadata, Items(1, 1)]
SpecKey = Annotated[str, Length(1, 255), Pattern(r"[a-zA-Z0-9\-_:.]+", "made of letters, digits and -_:.")]
Specs = dict[SpecKey, Annotated[str, Length(0, 255)] | None]
PlainSpecs = dict[SpecKey, Annotated[str, Length(0, 255)]]
Size = Annotated[int, Loose(), Range(1)]
Word = Annotated[str, Length(1, 255)]
HostName = Annotated[str, Length(1, 255)]
Object = dict[str, Any]


def resettable(status: str, allowed: frozenset[str]) -> str:
    """A status that an administrator may set. Raises Invalid."""
    if status.lower() not in allowed:
        raise Invalid(f"Must specify a valid status: {status[:64]!r} cannot be set.")
    return status.lower()


@frozen
class ReplaceMetadata:
    metadata: Metadata
