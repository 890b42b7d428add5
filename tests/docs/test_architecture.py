"""docs/architecture.md: a reason for each dependency, and the order of imports that tests/house enforces.

docs/internals.md: the services in the tree.
"""

from __future__ import annotations

import re
from configparser import ConfigParser

from tests.docs.pages import ROOT
from tests.house.test_import_order import LAYERS, SERVICES

PAGE = (ROOT / "docs/architecture.md").read_text()


def dependencies() -> set[str]:
    """Names of all that setup.cfg installs, with and without extras."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lists = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    lines = [line.strip() for text in lists for line in text.splitlines() if line.strip()]
    return {re.split(r"[\[ <>=]", line)[0] for line in lines}


def test_every_dependency_has_a_reason_and_no_other() -> None:
    table = PAGE.partition("| package | why |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", table, re.MULTILINE))
    assert rows.keys() == dependencies()
    assert len(rows) > 20


def test_the_order_of_imports_is_the_one_that_is_enforced() -> None:
    text = PAGE.partition("Lowest first:\n\n")[2].partition("\n\n")[0]
    shown = [re.sub(r"\(.*?\)", "", part) for part in text.replace("\n", " ").split("→")]
    names = [["DRIVERS"] if part.strip() == "driver implementations" else re.findall(r"\w+", part) for part in shown]
    assert names == [[name for name in layer if name != "__main__"] for layer in LAYERS]


def test_the_tree_names_the_services() -> None:
    found = re.search(r"^  (events/ .*)$", (ROOT / "docs/internals.md").read_text(), re.MULTILINE)
    assert found and found[1].split() == [f"{name}/" for name in SERVICES]
