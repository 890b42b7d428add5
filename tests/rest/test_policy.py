"""Rules before and after the record is read: what is sure, and what is possible."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cloudctl.rest.identity import Identity
from cloudctl.rest.policy import Policy

ME = Identity(user_id="me", project_id="mine", roles=frozenset({"member"}))


@pytest.mark.parametrize(
    ("rule", "target", "sure", "possible"),
    [
        ("match:user_id", {}, False, True),
        ("match:user_id", {"user_id": "me"}, True, True),
        ("match:user_id", {"user_id": "other"}, False, False),
        ("not match:user_id", {}, False, True),
        ("not match:user_id", {"user_id": "me"}, False, False),
        ("not match:user_id", {"user_id": "other"}, True, True),
        ("not match:user_id", {"user_id": ""}, True, True),
        ("not not match:user_id", {}, False, True),
        ("not (match:user_id or role:admin)", {}, False, True),
        ("not (match:user_id or role:member)", {}, False, False),
        ("not (match:user_id and role:admin)", {}, True, True),
        ("match:project_id and not match:user_id", {"project_id": "mine"}, False, True),
        ("match:project_id and not match:user_id", {"project_id": "other"}, False, False),
        ("match:project_id and not match:user_id", {"project_id": "mine", "user_id": "other"}, True, True),
        ("role:member or not match:user_id", {}, True, True),
    ],
)
def test_what_the_target_lacks_is_neither_so_nor_otherwise(
    rule: str, target: Mapping[str, str], sure: bool, possible: bool
) -> None:
    policy = Policy({"compute:do": rule})
    assert policy.may("compute:do", ME, target) is sure
    assert policy.might("compute:do", ME, target) is possible


def test_a_named_rule_means_the_same_under_a_not() -> None:
    policy = Policy({"compute:own": "match:user_id", "compute:do": "not compute:own"})
    assert policy.might("compute:do", ME, {}) and not policy.may("compute:do", ME, {})
