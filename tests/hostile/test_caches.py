"""No cache grows with what clients send."""

from __future__ import annotations

import ast
import gc
import resource
from pathlib import Path
from urllib.parse import quote

import cloudctl
from cloudctl.testing.cloud import MemoryCloud

# Functions with unbounded caches: their arguments are classes, tables and numbers of this program.
OF_THE_PROGRAM = {
    "identity/records.py", "rest/body.py", "rest/resource.py", "compute/servers.py", "network/standard.py",
    "db/driver.py", "rest/write_back.py",
}  # fmt: skip
QUESTIONS = 1500
LONG = 6000  # characters per request


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_what_remembers_without_an_end_is_known() -> None:
    """A new one either has a bound or is reviewed, and listed above."""
    root = Path(cloudctl.__file__).parent
    found = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                if any(mark in ("cache", "functools.cache") or "maxsize=None" in mark for mark in marks):
                    found.add(str(file.relative_to(root)))
    assert found <= OF_THE_PROGRAM


def test_no_number_of_different_questions_makes_the_process_grow() -> None:
    cloud = MemoryCloud()
    demo = cloud.client("demo", **{"OpenStack-API-Version": "compute 2.90, volume 3.70"})
    paths = [
        "/compute/v2.1/servers?name=%28a%7C{word}%29", "/compute/v2.1/flavors?x={long}", "/image/v2/images?name={long}",
        "/networking/v2.0/networks?name={long}&fields={word}", "/volume/v3/volumes?name={long}",
        "/identity/v3/regions?x={long}", "/identity/v3/auth/catalog?x={long}", "/compute/v2.1/{word}",
        "/networking/v2.0/ports?fields=id&sort_key=id&fields={word}&name={long}",
    ]  # fmt: skip

    def ask(first: int) -> None:
        for number in range(first, first + QUESTIONS):
            word = f"w{number}"
            path = paths[number % len(paths)].format(word=word, long=word + "x" * LONG)
            headers = {"Host": f"{word}.example.com", "User-Agent": quote(word) * 50}
            assert demo.get(path, headers=headers).status < 500

    ask(0)
    ask(QUESTIONS)
    before = resident()
    ask(2 * QUESTIONS)
    ask(3 * QUESTIONS)
    grown = resident() - before
    # If they were all cached, it would be a multiple of this.
    assert grown < 2 * QUESTIONS * LONG / 4, grown
    cloud.close()
