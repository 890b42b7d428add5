"""`pytest tests/instance_ha/simulation --seeds=1000 --first-seed=7` plays more, or another one."""

from __future__ import annotations

import pytest

SEEDS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=SEEDS, help="How many simulations are played.")
    parser.addoption("--first-seed", type=int, default=0, help="The first of them.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        # Where this folder is not what pytest was asked for, the options are not there.
        first, count = metafunc.config.getoption("first_seed", 0), metafunc.config.getoption("seeds", SEEDS)
        metafunc.parametrize("seed", range(first, first + count))
