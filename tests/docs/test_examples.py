"""What the README and docs/ show is run: Python, TOML, and the session in a terminal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from cloudctl import app, config, reference
from cloudctl.rest import policy
from tests.docs.pages import PAGES, ROOT, Block, blocks, unpack
from tests.live.process import LiveCloud, command, free_port

README = ROOT / "README.md"
ALL = [block for page in PAGES for block in blocks(page)]
CODE = [block for block in ALL if block.language in ("python", "toml")]
WITH_TESTS = [page for page in PAGES if any((block.name or "").rpartition("/")[2][:5] == "test_" for block in CODE
              if block.page == page.relative_to(ROOT).as_posix())]  # fmt: skip
# The folder of the pages' examples that PYTHONPATH names.
DRIVERS = "drivers"


def label(value: Any) -> str:
    return f"{value.page}:{value.line}" if isinstance(value, Block) else value.name


def environment(*directories: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (*(each / DRIVERS for each in directories), *directories, ROOT)))
    return {**os.environ, "PYTHONPATH": path}


def python(directory: Path, *arguments: str, pages: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    """`pages`: where examples are, if not in `directory` itself."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment(*(pages or (directory,))),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_there_are_examples() -> None:
    assert {block.name for block in blocks(README)} >= {
        "cloudctl.toml", "mysite.tac", "test_my_software.py", "drivers/flaky.py", "flaky.toml",
    }  # fmt: skip


@pytest.mark.parametrize("block", CODE, ids=label)
def test_every_example_says_which_file_it_is(block: Block) -> None:
    """Without a name no test here would run it."""
    assert block.name is not None
    assert block.language == "toml" if block.name.endswith(".toml") else block.name.endswith((".py", ".tac"))


@pytest.mark.parametrize("block", [each for each in CODE if each.language == "python"], ids=label)
def test_python_examples_compile(block: Block) -> None:
    compile(block.text, label(block), "exec")


@pytest.mark.slow
def test_the_tests_of_the_pages_pass(tmp_path: Path) -> None:
    """In one process, which costs as much as all of them; each page has a folder of its own."""
    folders = {page: tmp_path / page.stem for page in WITH_TESTS}
    files = {name for page, folder in folders.items() for name in map(str, unpack(page, folder).values())}
    words = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(tmp_path), ".")
    run = python(tmp_path, *words, pages=list(folders.values()))
    assert run.returncode == 0, run.stdout + run.stderr
    tests = {name for name in files if Path(name).name.startswith("test_")}
    passed = {str(tmp_path / line.partition("::")[0]) for line in run.stdout.splitlines() if " PASSED" in line}
    assert passed == tests


@pytest.mark.parametrize("block", [each for each in CODE if each.language == "toml"], ids=label)
def test_toml_examples_are_good_configurations(block: Block, tmp_path: Path) -> None:
    assert block.name is not None
    if block.name.endswith("policy.toml"):
        file = tmp_path / "policy.toml"
        file.write_text(block.text)
        policy.load([each.package for each in app.SERVICES], file)
        return
    tables = tomllib.loads(block.text)
    tables.pop("state_dir", None)
    config.build(tables, app.SECTIONS, Path("state"))


# The command's list comes first: one process imports everything once for both.
FAIL = """
import sys, tomllib
from cloudctl import cli
from cloudctl.testing.cloud import MemoryCloud

cli.main(["drivers"], standalone_mode=False)
cloud = MemoryCloud(tomllib.loads(open(sys.argv[1]).read()))
demo = cloud.client("demo")
image = demo.get("/image/v2/images").json()["images"][0]["id"]
network = demo.get("/networking/v2.0/networks?name=private").json()["networks"][0]["id"]
for number in range(3):
    wanted = {"name": str(number), "flavorRef": "1", "imageRef": image, "networks": [{"uuid": network}]}
    demo.post("/compute/v2.1/servers", {"server": wanted})
    cloud.settle()
print(*sorted(each["status"] for each in demo.get("/compute/v2.1/servers/detail").json()["servers"]))
"""
KEEP = """
import sys, tomllib
from cloudctl import cli
from cloudctl.testing.cloud import MemoryCloud

cli.main(["drivers"], standalone_mode=False)
tables = tomllib.loads(open(sys.argv[1]).read())
tables["driver"]["volume"]["sparse"]["directory"] = sys.argv[2]
cloud = MemoryCloud(tables)
demo = cloud.client("demo")
made = demo.post("/volume/v3/volumes", {"volume": {"size": 2}}).json()["volume"]
cloud.settle()
print(made["id"], demo.get(f"/volume/v3/volumes/{made['id']}").json()["volume"]["status"])
"""


@pytest.mark.slow
def test_the_driver_of_the_readme_is_found_and_works(tmp_path: Path) -> None:
    unpack(README, tmp_path)
    run = python(tmp_path, "-c", FAIL, "flaky.toml")
    assert run.returncode == 0, run.stderr
    *listed, states = run.stdout.splitlines()
    assert "hypervisor  flaky           Guests of which every tenth does not start" in "\n".join(listed)
    assert states.split() == ["ACTIVE", "ACTIVE", "ERROR"], run.stderr


@pytest.mark.slow
def test_the_whole_driver_of_the_drivers_page_is_found_and_works(tmp_path: Path) -> None:
    unpack(ROOT / "docs" / "drivers.md", tmp_path)
    volumes = tmp_path / "volumes"
    volumes.mkdir()
    run = python(tmp_path, "-c", KEEP, "sparse.toml", str(volumes))
    assert run.returncode == 0, run.stderr
    *listed, last = run.stdout.splitlines()
    assert "volume      sparse          Volumes as sparse files" in "\n".join(listed)
    id, status = last.split()
    assert status == "available"
    assert (volumes / id).stat().st_size == 2 * 2**30


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[int]:
    """The port on which the README's application runs in `twistd`."""
    port = free_port()
    file = unpack(README, tmp_path)["mysite.tac"]
    text = file.read_text()
    assert text.count("8080") == 2
    file.write_text(text.replace("8080", str(port)))
    arguments = [command("twistd"), "--nodaemon", "--no_save", "--python", str(file), "--pidfile="]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            arguments, cwd=tmp_path, env=environment(tmp_path), stdout=log, stderr=log, start_new_session=True
        )
    try:
        until_it_answers(port, process, tmp_path / "log")
        yield port
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
        text = (tmp_path / "log").read_text()
        assert "Server Shut Down" in text
        assert "Traceback" not in text
    finally:
        process.kill()
        process.wait()


def until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            urlopen(f"http://127.0.0.1:{port}/", timeout=60).read()
            return
        except (URLError, ConnectionError, TimeoutError):
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)


@pytest.mark.slow
def test_the_application_of_the_readme_serves_its_own_pages_and_a_cloud(embedded: int) -> None:
    def get(path: str) -> bytes:
        return bytes(urlopen(f"http://127.0.0.1:{embedded}{path}", timeout=60).read())

    assert get("/") == b"my own application\n"
    assert get("/cloud/healthcheck") == b"OK"
    assert f"http://127.0.0.1:{embedded}/cloud/identity/v3/".encode() in get("/cloud/identity/v3")
    assert f"http://127.0.0.1:{embedded}/ha/v1/".encode() in get("/ha/")


def session(text: str) -> Iterator[tuple[str, str]]:
    """(command, output) of each `$ command` in a terminal session. Empty lines do not count."""
    for part in ("\n" + text).split("\n$ ")[1:]:
        line, _, output = part.partition("\n")
        yield line, "\n".join(line for line in output.splitlines() if line)


@pytest.mark.slow
def test_the_first_session_prints_what_the_readme_shows(tmp_path: Path) -> None:
    (shown,) = [block for block in blocks(README) if "server create" in block.text and block.language == "console"]
    commands = [(shlex.split(line), output) for line, output in session(shown.text) if line.startswith("openstack ")]
    assert len(commands) >= 5
    cloud = LiveCloud(tmp_path)
    cloud.start()
    try:
        for (_, *arguments), output in commands:
            printed = cloud.openstack(*arguments)
            assert [line for line in printed.splitlines() if line] == output.splitlines(), arguments
    finally:
        cloud.kill()


def test_what_the_readme_calls_missing_is_missing() -> None:
    """Whoever adds one of these calls takes it off the list."""
    cloud = reference.sample()
    served = {each.prefix: each.api for each in cloud.served}
    calls = {f"{each.method} {prefix}{path}" for prefix, api in served.items() for path, each in api.operations}
    actions = {each.action for api in served.values() for _, each in api.operations}
    rows = README.read_text().partition("| not offered yet |")[2].partition("\n\n")[0].splitlines()[2:]
    named = [part for row in rows for part in row.split("|")[2].split("`")[1::2]]
    assert len(named) > 3
    assert [name for name in named if name in calls | actions] == []


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for part in text.split("](")[1:]:
        target, _, anchor = part.partition(")")[0].partition("#")
        if target.startswith("http"):
            continue
        found = page.parent / target if target else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text()), f"{target}#{anchor}"


def anchors(text: str) -> set[str]:
    headings = (line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#"))
    return {"".join(c for c in each.lower().replace(" ", "-") if c.isalnum() or c in "-_") for each in headings}
