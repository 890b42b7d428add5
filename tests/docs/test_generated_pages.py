"""docs/api.md and etc/policy.toml are what the code of this tree says. If not: `make docs`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from cloudctl import reference
from cloudctl.app import Cloud
from cloudctl.cli import main
from cloudctl.rest.versions import ALWAYS, Span, since, until
from tests.docs.pages import ROOT

STALE = "run `make docs`"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    yield reference.sample()


def test_the_list_of_calls_is_up_to_date(cloud: Cloud) -> None:
    assert (ROOT / "docs/api.md").read_text() == reference.api(cloud), STALE


def test_the_list_of_rules_is_up_to_date() -> None:
    assert (ROOT / "etc/policy.toml").read_text() == reference.rules(), STALE


def test_the_command_prints_what_the_files_hold(cloud: Cloud) -> None:
    run = CliRunner()
    assert run.invoke(main, ["docs", "api"]).output == reference.api(cloud)
    assert run.invoke(main, ["docs", "policy"]).output == reference.rules()


def test_every_operation_has_a_line_of_its_own(cloud: Cloud) -> None:
    served = [*(each.api for each in cloud.served), cloud.root_api]
    calls = [line for line in reference.api(cloud).splitlines() if re.match(r"\| `[A-Z]+ /", line)]
    assert len(calls) == sum(len(api.operations) for api in served) > 300


def test_every_operation_says_what_it_does(cloud: Cloud) -> None:
    served = [*(each.api for each in cloud.served), cloud.root_api]
    assert [each.key for api in served for _, each in api.operations if not each.summary] == []


def test_the_rule_of_every_operation_is_in_a_policy_file(cloud: Cloud) -> None:
    """Else its first caller has a 500."""
    served = [*(each.api for each in cloud.served), cloud.root_api]
    rules = {each.policy for api in served for _, each in api.operations} - {None}
    assert rules - cloud.policy.rules.keys() == set()


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (ALWAYS, "all"),
        (since(2, 26), "from 2.26"),
        (until(2, 35), "to 2.35"),
        (Span((2, 2), (2, 9)), "2.2 to 2.9"),
    ],
)
def test_a_call_says_its_microversions(span: Span, shown: str) -> None:
    assert str(span) == shown


def test_a_call_shows_its_rule_with_the_expression(cloud: Cloud) -> None:
    page = reference.api(cloud)
    rule = cloud.policy.rules["compute:servers:create"].text
    assert f"| `POST /compute/v2.1/servers` | all | `compute:servers:create` | `{rule}` | Create servers. |" in page
    assert "| `GET /healthcheck` | none | everyone |" in page
