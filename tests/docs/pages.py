"""The fenced code blocks of the README and of docs/, by the name of the file that each one shows."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# ([\w./-]+\.\w+)\n")


@frozen
class Block:
    page: str
    language: str
    text: str
    line: int

    @property
    def name(self) -> str | None:
        """The file that it shows: its first line is the comment `# drivers/sparse_files.py`."""
        found = NAME.match(self.text)
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page.relative_to(ROOT).as_posix(), found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def unpack(page: Path, directory: Path) -> dict[str, Path]:
    """The page's Python and TOML files, written where they say."""
    written = {}
    for block in blocks(page):
        if block.language in ("python", "toml") and block.name is not None:
            path = directory / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            written[block.name] = path
    return written
