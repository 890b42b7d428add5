"""What changes with microversions."""

from __future__ import annotations

import pytest

from cloudctl.rest.body import Body
from cloudctl.rest.route import Operation
from cloudctl.rest.versions import at


def test_the_newest_entry_that_is_not_too_new_counts() -> None:
    choices = {(2, 1): "first", (2, 10): "second"}
    assert [at(choices, version) for version in ((2, 1), (2, 9), (2, 10), (2, 99))] == ["first"] * 2 + ["second"] * 2


def test_nothing_counts_before_the_first_entry() -> None:
    with pytest.raises(KeyError):
        at({(2, 10): "second"}, (2, 9))


def test_an_operation_may_take_a_body_only_from_some_version_on() -> None:
    operation = Operation("Things", "POST", "/things", "do", None, body={(2, 10): Body(dict)})
    assert operation.body_at((2, 9)) is None and operation.body_at((2, 10)) is not None
