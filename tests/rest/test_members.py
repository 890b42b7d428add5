"""A long list of wrong members costs no more than a short one."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.rest.body import BodyError, structure
from cloudctl.rest.members import PART
from tests.effort import lines


@pytest.mark.parametrize(
    ("value", "type_"), [(list(range(20_000)), list[str]), ({str(n): n for n in range(6_000)}, dict[str, str])]
)
def test_of_many_wrong_members_a_few_are_told(value: Any, type_: Any) -> None:
    def ask() -> None:
        with pytest.raises(BodyError) as refused:
            structure(value, type_)
        assert 0 < len(refused.value.problems) <= PART

    lines(ask, 100_000)


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 3 * PART + 5])
def test_all_members_are_there_in_their_order(size: int) -> None:
    words = [str(number) for number in range(size)]
    assert structure(words, list[str]) == words
    pairs = dict.fromkeys(words, "x")
    assert structure(pairs, dict[str, str]) == pairs
