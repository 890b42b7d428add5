"""What is installed is what is in the tree: every module, every data file, the plugins, and no leftovers of a run."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.house.source import ROOT

SHIPPED = ("cloudctl", "twisted/plugins")
LEFT_BY_A_RUN = frozenset({"__pycache__", "dropin.cache"})

LIST_PLUGINS = """
from twisted.plugin import getPlugins, IPlugin
for plugin in getPlugins(IPlugin):
    print(getattr(plugin, "module", ""))
"""


def files(root: Path) -> set[str]:
    """Relative names of the files that belong into a wheel of the tree at `root`."""
    found = [path.relative_to(root) for folder in SHIPPED for path in (root / folder).rglob("*") if path.is_file()]
    return {path.as_posix() for path in found if LEFT_BY_A_RUN.isdisjoint(path.parts)}


def differences(tree: Iterable[str], wheel: Iterable[str]) -> list[str]:
    shipped = {name for name in wheel if ".dist-info/" not in name}
    missing, extra = sorted(set(tree) - shipped), sorted(shipped - set(tree))
    return [f"not in the wheel: {name}" for name in missing] + [f"only in the wheel: {name}" for name in extra]


def named_by_plugins() -> set[str]:
    """The modules that the plugin files name in strings: `"cloudctl.drivers.fake.volume"`."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "twisted/plugins").glob("*.py")]
    strings = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {value for value in strings if isinstance(value, str) and value.startswith("cloudctl.")}


def found_by_twisted(*options: str, path: Iterable[str], cwd: Path) -> set[str]:
    """The modules that plugins name, as found by a fresh interpreter with this PYTHONPATH."""
    run = subprocess.run(
        [sys.executable, *options, "-c", LIST_PLUGINS],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        cwd=cwd,
        check=True,
        capture_output=True,
        text=True,
    )
    return {line for line in run.stdout.splitlines() if line.startswith("cloudctl.")}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as it would be published, with leftovers of a run planted in it."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    for folder in SHIPPED:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "dropin.cache*"))
    (copy / "twisted/plugins/dropin.cache").write_bytes(b"")
    (copy / "cloudctl/__pycache__").mkdir()
    (copy / "cloudctl/__pycache__/errors.cpython-311.pyc").write_bytes(b"")
    return copy


@pytest.fixture(scope="module")
def wheel(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--wheel-dir", out, copy],
        check=True,
    )  # fmt: skip
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.mark.slow
def test_the_wheel_holds_the_tree_and_nothing_else(copy: Path, wheel: zipfile.ZipFile) -> None:
    assert differences(files(copy), wheel.namelist()) == []


@pytest.mark.slow
def test_the_wheel_carries_the_licence(wheel: zipfile.ZipFile) -> None:
    assert [name for name in wheel.namelist() if name.endswith("/LICENSE")]


@pytest.mark.slow
def test_the_plugins_of_an_installed_wheel_are_found(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    # -S skips .pth files, which would put this tree on the path for an editable install.
    path = [str(tmp_path), sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    assert found_by_twisted("-S", path=path, cwd=tmp_path) == named_by_plugins() != set()


@pytest.mark.slow
def test_the_plugins_of_an_editable_install_are_found(tmp_path: Path) -> None:
    try:
        distribution("cloudctl")
    except PackageNotFoundError:
        pytest.skip("cloudctl runs from the tree here and is not installed")
    assert found_by_twisted(path=[], cwd=tmp_path) == named_by_plugins() != set()


def test_a_difference_between_tree_and_wheel_is_found() -> None:
    tree = ["cloudctl/a.py", "cloudctl/rest/policy.toml"]
    wheel = ["cloudctl/a.py", "twisted/plugins/dropin.cache", "cloudctl-1.dist-info/RECORD"]
    assert differences(tree, wheel) == [
        "not in the wheel: cloudctl/rest/policy.toml",
        "only in the wheel: twisted/plugins/dropin.cache",
    ]
