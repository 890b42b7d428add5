"""What may be in a body at all, whatever its operation takes."""

from __future__ import annotations

import orjson
import pytest

from cloudctl.rest.body import BodyError
from cloudctl.rest.decoding import DEEPEST, parse


def test_json_is_read() -> None:
    assert parse(b'{"a": [1, "\\u00e9", "\\\\u0000"]}') == {"a": [1, "\u00e9", "\\u0000"]}
    assert parse(b'"\\\\\\\\u0000"') == "\\\\u0000"


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"{", "not valid JSON"), (b'["\\u0000"]', "NUL"), (b'"\\\\\\u0000"', "NUL"), (b"\xff", "not valid JSON")],
)
def test_what_is_no_json_or_cannot_be_stored_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(BodyError, match=why):
        parse(raw)


@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_only_what_an_answer_can_hold_is_taken(begin: bytes, end: bytes) -> None:
    def nested(depth: int) -> bytes:
        return begin * depth + b"0" + end * depth

    value = parse(b"[" + b",".join(3 * [nested(DEEPEST - 1)]) + b"]")
    assert parse(orjson.dumps(value)) == value
    for depth in (DEEPEST + 1, 1000):
        with pytest.raises(BodyError, match="nested too deeply"):
            parse(nested(depth))
    # One that is empty counts, too.
    full = b"[" * (DEEPEST - 1)
    assert parse(full + b"[]" + b"]" * (DEEPEST - 1))
    with pytest.raises(BodyError, match="nested too deeply"):
        parse(full + b"[[]]" + b"]" * (DEEPEST - 1))
    # As many side by side are not deep.
    assert parse(orjson.dumps(200 * [[{}]])) == 200 * [[{}]]
