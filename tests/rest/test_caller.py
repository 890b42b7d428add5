"""Who asks, and what they may."""

from __future__ import annotations

from datetime import datetime

import pytest
from attrs import evolve

from cloudctl.errors import Forbidden
from cloudctl.rest.caller import Caller
from cloudctl.rest.identity import Identity
from cloudctl.rest.policy import Policy

POLICY = Policy({"compute:own": "match:project_id", "identity:own": "match:project_id", "compute:all": "role:admin"})
CALLER = Caller(Identity(user_id="u", project_id="p"), POLICY, datetime(2027, 1, 15), "req-1")


def test_a_rule_is_decided_for_the_target_of_the_path_and_what_is_known_beside_it() -> None:
    there = evolve(CALLER, target={"project_id": "p"})
    assert there.may("compute:own")
    assert not there.may("compute:own", project_id="other")
    assert not CALLER.may("compute:own")
    assert CALLER.may("compute:own", project_id="p")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("compute:own", "Policy doesn't allow compute:own to be performed."),
        ("identity:own", "You are not authorized to perform the requested action: identity:own."),
    ],
)
def test_who_does_not_pass_a_required_rule_is_told_which(rule: str, message: str) -> None:
    with pytest.raises(Forbidden) as refused:
        CALLER.require(rule, project_id="other")
    assert str(refused.value) == message


def test_what_was_required_is_known_and_what_was_asked_is_not() -> None:
    caller = evolve(CALLER)
    caller.may("compute:all")
    caller.require("compute:own", project_id="p")
    assert caller.decided == {"compute:own"}


def test_another_identity_has_decided_nothing() -> None:
    caller = evolve(CALLER)
    caller.require("compute:own", project_id="p")
    assert evolve(caller, identity=Identity(user_id="v")).decided == set()
