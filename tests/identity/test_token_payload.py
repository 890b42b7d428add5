"""Token strings: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, reject
from hypothesis import strategies as st

from cloudctl.identity.keys import KeysInMemory
from cloudctl.identity.payload import (
    METHODS,
    Delegation,
    Scope,
    ScopeKind,
    Token,
    Unreadable,
    new_audit_id,
    seal,
    unseal,
)

KEYS = KeysInMemory()
IDS = st.one_of(st.uuids().map(lambda id: id.hex), st.text("abcdef0123456789ABCDEFghi-", max_size=24))
LARGEST = Token(
    "f" * 32,
    METHODS,
    Scope(ScopeKind.PROJECT, "e" * 32),
    2**32 - 1,
    2**32 - 1,
    2**63,
    (new_audit_id(), new_audit_id()),
    Delegation.APPLICATION_CREDENTIAL,
    "d" * 32,
)


@given(
    st.builds(
        Token,
        IDS,
        st.lists(st.sampled_from(METHODS), unique=True).map(lambda names: tuple(n for n in METHODS if n in names)),
        st.builds(Scope, st.sampled_from(ScopeKind), IDS),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**63),
        st.lists(st.builds(new_audit_id), min_size=1, max_size=2).map(tuple),
        st.sampled_from(Delegation),
        IDS,
    )
)
def test_what_is_sealed_is_unsealed(token: Token) -> None:
    try:
        sealed = seal(token, KEYS)
    except ValueError:
        # Longer than any that we make: see below.
        reject()
    assert unseal(sealed, KEYS) == token


def test_the_largest_token_has_at_most_255_characters() -> None:
    assert len(seal(LARGEST, KEYS)) <= 255


def test_a_token_that_would_be_too_long_is_not_made() -> None:
    with pytest.raises(ValueError, match="characters"):
        seal(evolve(LARGEST, user_id="g" * 64), KEYS)


@given(st.one_of(st.text(max_size=300), st.text("abcdefABCDEF_-=0123", max_size=300)))
def test_nothing_else_is_a_token(text: str) -> None:
    with pytest.raises(Unreadable):
        unseal(text, KEYS)


@given(st.binary(max_size=120))
def test_a_sealed_text_that_is_no_token_is_refused(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        unseal(KEYS.fernet().encrypt(b"\0" + raw).decode(), KEYS)


def test_another_clouds_token_is_refused() -> None:
    with pytest.raises(Unreadable):
        unseal(seal(LARGEST, KeysInMemory()), KEYS)
