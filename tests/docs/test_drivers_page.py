"""docs/drivers.md names every interface that a driver may have, with its methods."""

from __future__ import annotations

import re

from zope.interface.interface import Method

from cloudctl.drivers.interfaces import CAPABILITIES
from tests.docs.pages import ROOT

TABLE = (ROOT / "docs/drivers.md").read_text().partition("| kind | interface | methods |")[2].partition("\n\n")[0]
ROWS = {name: set(re.findall(r"\w+", text)) for name, text in re.findall(r"`(I\w+)` \| (.+) \|$", TABLE, re.MULTILINE)}
INTERFACES = {each.__name__: each for kind in CAPABILITIES.values() for each in kind}


def test_every_interface_of_a_driver_has_a_row_and_nothing_else() -> None:
    assert ROWS.keys() == {"IDriver", *INTERFACES}


def test_a_row_names_all_methods_of_its_interface() -> None:
    for name, interface in INTERFACES.items():
        methods = {each for each in interface.names() if isinstance(interface[each], Method)}
        assert methods <= ROWS[name], name
