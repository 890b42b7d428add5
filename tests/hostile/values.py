"""What a malicious or buggy client may put into a body or a query."""

from __future__ import annotations

from typing import Any

VALUES: list[Any] = [
    None, True, 0, -1, 10**30, 2**31, 1.5, 1e308, "", " ", "x" * 300, "é\u202e😀", "'; DROP TABLE servers; --", "%s%n",
    [], {}, [[]], {"a": {"b": {}}}, [None], ["x", 1], "0" * 40, "true", "http://", "://", "a/../../b",
]  # fmt: skip

TEXTS = [
    "x" * 3000, "é", "%00", "..", "'", '"', "\\", "%ff", "a b", "-1", "99999999999999999999", "{}", "[", "(",
    "2026-01-01", "0001-01-01T00:00:00%2B23:00", "9999-12-31T23:59:59-23:00", "nan", "1e400", "*", "a{9999}",
]  # fmt: skip


def raw(key: str) -> list[bytes]:
    """Bodies that are not JSON, or that make no sense to a call whose body is an object under `key`."""
    named = b'{"' + key.encode() + b'":'
    return [
        b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", named + b'"\\ud800"}', named + b'{"name": "\\u0000"}}',
        named + b'{"size": 1e999}}', named + b'{"min_count": 1e999}}', named + b"[" * 5000,
        named + b"{}," + named[1:] + b"1}", named + b'{"type": ' * 300 + b"1" + b"}" * 301,
    ]  # fmt: skip
