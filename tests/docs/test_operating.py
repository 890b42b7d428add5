"""docs/operating.md names every metric; and every command of `cloudctl` for operators is on some page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from cloudctl.cli import main
from cloudctl.testing.cloud import MemoryCloud
from tests.docs.pages import PAGES, ROOT


def test_the_table_of_metrics_has_all_of_them_and_no_other() -> None:
    cloud = MemoryCloud()
    text = cloud.anonymous().get("/metrics").body.decode()
    cloud.close()
    served = {name for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE) if not name.endswith("_created")}
    assert len(served) > 10
    table = (ROOT / "docs/operating.md").read_text().partition("| metric | labels |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(cloudctl_\w+)`", table)) == served


def commands(group: click.Group, above: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{above} {name}")
        elif not (group.help or command.help or "").startswith("For developers"):
            yield f"{above} {name}"


def test_every_command_is_on_a_page() -> None:
    text = " ".join(page.read_text() for page in PAGES)
    said = re.sub(r"cloudctl( --[\w-]+[ =]\S+)+", "cloudctl", text)
    assert [each for each in commands(main, "cloudctl") if each not in said] == []
