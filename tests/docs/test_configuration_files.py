"""etc/cloudctl.toml and etc/policy.toml say what the code says: every option, every rule, every default."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from cloudctl import app, config
from cloudctl.drivers import loader
from cloudctl.errors import ConfigError
from cloudctl.options import structure
from cloudctl.rest import policy
from cloudctl.testing.cloud import MemoryCloud
from tests.docs.pages import PAGES, ROOT

CLOUDCTL, HOST, POLICY = ROOT / "etc/cloudctl.toml", ROOT / "etc/cloudctl-host.toml", ROOT / "etc/policy.toml"
SECTIONS = {**config.KERNEL, **app.SECTIONS}


def uncommented(text: str) -> str:
    """With every option set: `# name = value` is one, `## …` is prose."""
    return re.sub(r"^# (?=[\w\"])", "", text, flags=re.MULTILINE)


def bundled() -> dict[str, Any]:
    """driver.KIND.NAME → the class of its options, of the drivers that come with cloudctl."""
    makers = [maker for maker in loader.available() if getattr(maker, "module", "").startswith("cloudctl.")]
    return {f"driver.{maker.kind}.{maker.name}": maker.load().Config for maker in makers}


def declared(cls: Any, path: str) -> Iterator[str]:
    for option in attrs.fields(attrs.resolve_types(cls)):
        if option.metadata.get("derived"):
            continue
        name = f"{path}.{option.alias or option.name}"
        if attrs.has(option.type):
            yield from declared(option.type, name)
        else:
            yield name


def given(table: Mapping[str, Any], path: str, options: set[str]) -> Iterator[str]:
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict) and name not in options:
            yield from given(value, name, options)
        else:
            yield name


def every_option() -> set[str]:
    classes = {**SECTIONS, **bundled()}
    return {"state_dir"} | {name for path, cls in classes.items() for name in declared(cls, path)}


def test_as_shipped_the_file_changes_nothing() -> None:
    tables = config.read(CLOUDCTL)
    made = config.build(tables, app.SECTIONS, Path("state"))
    assert attrs.evolve(made, driver={}) == config.build({}, app.SECTIONS, Path("state"))


def test_with_everything_uncommented_the_file_says_the_defaults() -> None:
    tables = tomllib.loads(uncommented(CLOUDCTL.read_text()))
    assert tables.pop("state_dir") == "state"
    made, plain = (config.build(each, app.SECTIONS, Path("state")) for each in (tables, {}))
    for name, section in made.services.items():
        assert section == plain.services[name]
    assert attrs.evolve(made, driver={}) == plain
    for path, cls in bundled().items():
        _, kind, name = path.split(".")
        assert structure(cls, tables["driver"][kind][name], path) == cls(), path


def test_every_option_is_in_the_file_and_nothing_else() -> None:
    tables = tomllib.loads(uncommented(CLOUDCTL.read_text()))
    options = every_option()
    assert len(options) > 80
    assert sorted(given(tables, "", options)) == sorted(options)


def test_every_option_is_commented_out_and_every_section_is_not() -> None:
    tables = config.read(CLOUDCTL)
    assert list(given(tables, "", set())) == []
    assert set(tables) == {*SECTIONS, "driver"}


def test_the_options_that_the_pages_name_are_there() -> None:
    """As `[section] option`."""
    named = [each for page in PAGES for each in re.findall(r"`\[([\w.]+)\]\s(\w+)\b[^`]*`", page.read_text())]
    assert len(named) > 10
    options = tuple(f"{each}." for each in every_option())  # an option may be a table
    assert [each for each in (f"{section}.{name}." for section, name in named) if not each.startswith(options)] == []


@pytest.mark.parametrize("section", ["server", "identity.argon2", "identity.passwords", "compute"])
def test_an_unknown_option_in_a_section_of_the_file_is_refused(section: str) -> None:
    text = CLOUDCTL.read_text().replace(f"[{section}]\n", f"[{section}]\nno_such_option = 1\n", 1)
    with pytest.raises(ConfigError, match=rf"{section}\.no_such_option: unknown option"):
        config.build(tomllib.loads(text), app.SECTIONS, Path("state"))


@pytest.mark.parametrize("path", sorted(bundled()))
def test_an_unknown_option_of_a_driver_is_refused(path: str) -> None:
    text = CLOUDCTL.read_text().replace(f"[{path}]\n", f"[{path}]\nno_such_option = 1\n", 1)
    _, kind, name = path.split(".")
    with pytest.raises(ConfigError, match=rf"{path}\.no_such_option: unknown option"):
        MemoryCloud({**tomllib.loads(text), "drivers": {kind: name}})


def test_the_file_for_a_real_host_chooses_real_drivers_and_their_options_are_right() -> None:
    made = config.build(config.read(HOST), app.SECTIONS, Path("state"))
    chosen = {"hypervisor": made.drivers.hypervisor, "volume": made.drivers.volume, "network": made.drivers.network}
    assert "fake" not in chosen.values()
    for kind, name in chosen.items():
        assert isinstance(name, str), "one driver a kind"
        path = f"driver.{kind}.{name}"
        structure(bundled()[path], made.driver.get(kind, {}).get(name, {}), path)


def examples_and_rules() -> tuple[dict[str, str], dict[str, str]]:
    examples, _, rules = POLICY.read_text().partition("## All rules as shipped")
    return tomllib.loads(uncommented(examples)), tomllib.loads(uncommented("## " + rules))


def test_the_policy_file_overrides_nothing_as_it_is() -> None:
    assert tomllib.loads(POLICY.read_text()) == {}


def test_the_policy_file_lists_every_rule_as_shipped() -> None:
    _, rules = examples_and_rules()
    assert rules == {**policy.PERSONAS, **policy.shipped(each.package for each in app.SERVICES)}


def client_with(cloud: MemoryCloud, role: str) -> Any:
    """A user of project demo with the roles `reader` and `member` and the given one, which is made."""
    admin = cloud.client("admin")
    (project,) = admin.get("/identity/v3/projects?name=demo").json()["projects"]
    user = {"name": "ann", "password": "ann", "domain_id": "default"}
    user_id = admin.post("/identity/v3/users", {"user": user}).json()["user"]["id"]
    made = admin.post("/identity/v3/roles", {"role": {"name": role}}).json()["role"]["id"]
    (member,) = admin.get("/identity/v3/roles?name=member").json()["roles"]
    for role_id in (member["id"], made):
        path = f"/identity/v3/projects/{project['id']}/users/{user_id}/roles/{role_id}"
        assert admin.put(path).status == 204
    return cloud.client("ann", "demo")


@pytest.fixture
def with_examples(tmp_path: Path) -> Iterator[MemoryCloud]:
    """A cloud whose operator has taken the file's examples as they are."""
    examples, _ = examples_and_rules()
    file = tmp_path / "policy.toml"
    file.write_text("".join(f'"{name}" = "{text}"\n' for name, text in examples.items()))
    cloud = MemoryCloud({"policy": {"file": str(file)}})
    yield cloud
    cloud.close()


def test_the_first_example_keeps_members_without_the_role_from_creating_servers(with_examples: MemoryCloud) -> None:
    empty: dict[str, Any] = {"server": {}}
    assert with_examples.client("demo").post("/compute/v2.1/servers", empty).status == 403
    assert client_with(with_examples, "builder").post("/compute/v2.1/servers", empty).status == 400


def test_the_second_example_lets_the_role_see_all_projects(with_examples: MemoryCloud) -> None:
    path = "/compute/v2.1/servers?all_tenants=1"
    assert with_examples.client("demo").get(path).status == 403
    assert client_with(with_examples, "support").get(path).status == 200
