"""A driver's TOML table, strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, frozen
from attrs.validators import ge, in_

from cloudctl.errors import ConfigError
from cloudctl.options import structure


@frozen
class Config:
    address: str
    count: int = field(default=3, validator=ge(1))
    boot_delay: float = 0.0
    enabled: bool = False
    root: Path | None = None
    names: tuple[str, ...] = ()
    delays: dict[str, float] = field(factory=dict)
    kept: str = field(default="objects", validator=in_(("objects", "directory")))


def problems(table: Any) -> Any:
    with pytest.raises(ConfigError) as caught:
        structure(Config, table, "driver.volume.x")
    return caught.value.problems


def test_a_good_table_is_structured() -> None:
    table = {"address": "::1", "count": 1, "boot_delay": 2, "root": "/srv", "names": ["a"], "delays": {"connect": 1}}
    assert structure(Config, table, "driver.volume.x") == Config(
        "::1", 1, 2.0, False, Path("/srv"), ("a",), {"connect": 1.0}
    )


def test_all_problems_are_told_at_once_with_their_paths() -> None:
    assert problems({"cuont": 1, "count": 0, "enabled": 1, "delays": {"a": "x", "b": True}, "names": ["a", 5]}) == [
        "driver.volume.x.cuont: unknown option; "
        "valid options: address, count, boot_delay, enabled, root, names, delays, kept",
        "driver.volume.x.address: is required",
        "driver.volume.x.count: 'count' must be >= 1: 0",
        "driver.volume.x.enabled: 1 is not a boolean (true or false)",
        "driver.volume.x.names[1]: 5 is not a string",
        "driver.volume.x.delays.a: 'x' is not a number",
        "driver.volume.x.delays.b: True is not a number",
    ]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("address", 5, "5 is not a string"),
        ("address", None, "None is not a string"),
        ("count", "3", "'3' is not an integer"),
        ("count", True, "True is not an integer"),
        ("count", 3.0, "3.0 is not an integer"),
        ("count", 2**63, "9223372036854775808 does not fit into 64 bits"),
        ("boot_delay", "1", "'1' is not a number"),
        ("boot_delay", float("nan"), "nan is not a finite number"),
        ("boot_delay", float("-inf"), "-inf is not a finite number"),
        ("boot_delay", -1e12, "-1000000000000.0 is too large: 1000000000 is the most"),
        ("address", "a\0b", r"'a\x00b' holds a NUL character"),
        ("root", "/srv\0", r"'/srv\x00' holds a NUL character"),
        ("root", 5, "5 is not a string"),
    ],
)
def test_nothing_is_converted(option: Any, value: Any, message: str) -> None:
    assert problems({"address": "::1", option: value}) == [f"driver.volume.x.{option}: {message}"]


def test_a_choice_that_there_is_not_is_told_without_more() -> None:
    (problem,) = problems({"address": "::1", "kept": "tape"})
    assert problem == "driver.volume.x.kept: 'kept' must be in ('objects', 'directory') (got 'tape')"


@pytest.mark.parametrize("value", ["abc", 5, {"a": 1}])
def test_a_list_is_a_list(value: Any) -> None:
    assert problems({"address": "::1", "names": value}) == [f"driver.volume.x.names: {value!r} is not a list"]


def test_a_table_is_a_table() -> None:
    assert problems({"address": "::1", "delays": ["a"]}) == ["driver.volume.x.delays: ['a'] is not a table"]


@frozen
class Guarded:
    password: str = field(default="", repr=False)
    keys: list[str] = field(factory=list, repr=False)
    keys_of: dict[str, str] = field(factory=dict, repr=False)
    others: dict[str, Config] = field(factory=dict)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("password", 8371, "password: what is there is not a string"),
        ("keys", "8371", "keys: what is there is not a list"),
        ("keys", [8371], "keys[0]: what is there is not a string"),
        ("keys_of", {"a": 8371}, "keys_of.a: what is there is not a string"),
        ("others", [{"password": "8371"}], "others: a list of tables is not a table"),
    ],
)
def test_a_secret_is_not_shown_when_it_is_wrong(option: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        structure(Guarded, {option: value}, "x")
    assert caught.value.problems == [f"x.{message}"]


@frozen
class Inner:
    protocol: Literal["nbd", "iscsi"]
    ports: list[int] = field(factory=list)


@frozen
class Outer:
    pools: tuple[Inner, ...] = ()


def test_tables_in_tables_are_as_strict() -> None:
    table = {"pools": [{"protocol": "nbd", "ports": [1]}, {"protocol": "ftp", "ports": ["1"], "x": 1}, {}]}
    with pytest.raises(ConfigError) as caught:
        structure(Outer, table, "driver.volume.x")
    assert caught.value.problems == [
        "driver.volume.x.pools[1].x: unknown option; valid options: protocol, ports",
        "driver.volume.x.pools[1].protocol: 'ftp' is not one of 'nbd', 'iscsi'",
        "driver.volume.x.pools[1].ports[0]: '1' is not an integer",
        "driver.volume.x.pools[2].protocol: is required",
    ]
    assert structure(Outer, {"pools": table["pools"][:1]}, "x") == Outer((Inner("nbd", [1]),))


def test_a_type_that_no_option_can_have_is_a_bug_of_the_driver() -> None:
    @frozen
    class Odd:
        when: complex

    with pytest.raises(TypeError, match="complex"):
        structure(Odd, {"when": {}}, "x")


def test_options_that_do_not_go_together_are_told_once_each_is_right() -> None:
    @frozen
    class Pair:
        low: int = field(default=1, validator=ge(0))
        high: int = 2

        def __attrs_post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError(f"low {self.low} is above high {self.high}")

    with pytest.raises(ConfigError) as caught:
        structure(Pair, {"low": 3}, "pair")
    assert caught.value.problems == ["pair: low 3 is above high 2"]
    with pytest.raises(ConfigError) as caught:
        structure(Pair, {"low": -1, "high": "x"}, "pair")
    assert len(caught.value.problems) == 2
