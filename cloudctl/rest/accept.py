"""The header Accept: which of the types on offer a client prefers. RFC 9110, section 12.5.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_RANGES = 50

RANGE = re.compile(r"\s*([^\s;,]+/[^\s;,]+)\s*((?:;[^,]*)?)")
QUALITY = re.compile(r";\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*(?:;|$)", re.IGNORECASE)


def preferred(accept: str, offers: Sequence[str]) -> str | None:
    """The offer that the header prefers, the first of those it likes equally; None if it names none."""
    ranges = list(_ranges(accept.split(",")[:MOST_RANGES]))
    liked = {offer: _quality(ranges, offer) for offer in offers}
    best = max(liked.values(), default=0.0)
    return next((offer for offer, quality in liked.items() if quality == best > 0), None)


def takes(accept: str, offer: str) -> bool:
    """Whether a client takes this type. One whose header names nothing that can be read takes any."""
    ranges = list(_ranges(accept.split(",")[:MOST_RANGES]))
    return not ranges or _quality(ranges, offer) > 0


def _ranges(parts: Iterable[str]) -> Iterable[tuple[str, float]]:
    """(media range, quality); what cannot be read is left out."""
    for part in parts:
        if (found := RANGE.fullmatch(part)) is not None:
            quality = QUALITY.search(found[2])
            yield found[1].lower(), float(quality[1]) if quality else 1.0


def _quality(ranges: Sequence[tuple[str, float]], offer: str) -> float:
    """The quality in the most specific range that matches the offer."""
    kind = offer.partition("/")[0]
    for named in (offer, f"{kind}/*", "*/*"):
        if (found := [quality for name, quality in ranges if name == named]) != []:
            return max(found)
    return 0.0
