"""`pytest tests/instance_ha/simulation --seeds=1000 --first-seed=7` plays more, or another one; `--hosts=1000
--servers=20000` a larger one, `--days=30` a longer one. Many are
played on all cores by `python -m tests.instance_ha.simulation`."""

from __future__ import annotations

import pytest

SEEDS = 3
DAYS = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=SEEDS, help="How many simulations are played.")
    parser.addoption("--first-seed", type=int, default=0, help="The first of them.")
    parser.addoption("--days", type=float, default=DAYS, help="How long each of them is.")
    parser.addoption("--hosts", type=int, default=0, help="How many hosts it has; 0: some, by chance.")
    parser.addoption("--servers", type=int, default=0, help="How many servers it has, if --hosts says how many hosts.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        # Where this folder is not what pytest was asked for, the options are not there.
        first, count = metafunc.config.getoption("first_seed", 0), metafunc.config.getoption("seeds", SEEDS)
        metafunc.parametrize("seed", range(first, first + count))
