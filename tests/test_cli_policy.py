"""`cloudctl policy`: which rules are in force, and what each one guards."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cloudctl import reference
from cloudctl.cli import main


def run(tmp_path: Path, *arguments: str, rules: str | None = None) -> Result:
    config = tmp_path / "cloudctl.toml"
    config.write_text("")
    if rules is not None:
        (tmp_path / "policy.toml").write_text(rules)
        config.write_text(f'[policy]\nfile = "{tmp_path / "policy.toml"}"\n')
    return CliRunner().invoke(main, [f"--config={config}", f"--state-dir={tmp_path}", "policy", *arguments])


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("policy")).output


def test_every_guarded_call_is_listed_under_its_rule(shipped: str) -> None:
    cloud = reference.sample()
    rules = {name for name in cloud.policy.rules if f"\n{name} = " in f"\n{shipped}"}
    assert rules == set(cloud.policy.rules)
    guarded = [operation for each in cloud.served for _, operation in each.api.operations if operation.policy]
    assert sum(line.startswith("    ") for line in shipped.splitlines()) == len(guarded)
    assert (
        "identity:list_users = system_reader or role:reader and scope:domain\n    GET /identity/v3/users\n" in shipped
    )
    assert "overridden" not in shipped


def test_one_service_alone(tmp_path: Path) -> None:
    names = [line for line in run(tmp_path, "--service", "identity").output.splitlines() if line[0] != " "]
    assert len(names) > 100
    assert all(name.startswith("identity:") for name in names)


def test_an_override_is_shown_with_what_it_replaces(tmp_path: Path) -> None:
    output = run(tmp_path, rules='"identity:list_users" = "nobody"\n').output
    shipped = "system_reader or role:reader and scope:domain"
    assert f"identity:list_users = nobody\n    overridden; as shipped: {shipped}\n    GET /identity/v3/users" in output


def test_a_rule_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, rules='"identity:nonsense" = "any"\n')
    assert result.exit_code == 64
    assert "policy.identity:nonsense: unknown rule" in result.output
