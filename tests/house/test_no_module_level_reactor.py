"""The reactor, logging and signals belong to whoever runs the process; several clouds must live in one process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import Module, imports, modules

# Calls that affect the whole process, by their last two names.
PROCESS_WIDE = frozenset(
    {
        ("txaio", "use_asyncio"),
        ("txaio", "use_twisted"),
        ("logging", "basicConfig"),
        ("logging.config", "dictConfig"),
        ("signal", "signal"),
        ("asyncioreactor", "install"),
        ("reactor", "installReactor"),
        ("globalLogBeginner", "beginLoggingTo"),
        ("log", "startLogging"),
    }
)
# The command owns its process: one of its commands runs until it is stopped, and logs.
OWNERS = {("cloudctl.cli", ("globalLogBeginner", "beginLoggingTo"))}
EMPTY_CONTAINERS = ("dict", "list", "set", "defaultdict", "deque", "WeakKeyDictionary", "WeakValueDictionary")


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported: not those inside functions."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for name in ("body", "orelse", "finalbody"):
                yield from at_import(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from at_import(handler.body)


def reactor_imports(module: Module) -> Iterator[str]:
    for statement in at_import(module.tree.body):
        names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import | ast.ImportFrom) else []
        origin = statement.module if isinstance(statement, ast.ImportFrom) else None
        full = [f"{origin}.{name}" if origin else name for name in names]
        if any(f"{name}.".startswith("twisted.internet.reactor.") for name in full):
            yield f"{module.name}:{statement.lineno} imports the reactor when it is imported"


def process_wide_calls(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            called = (ast.unparse(node.value).removeprefix("twisted.internet."), node.attr)
            if called in PROCESS_WIDE and (module.name, called) not in OWNERS:
                yield f"{module.name}:{node.lineno} calls {'.'.join(called)}"
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if any(node.module.split(".")[-1] == a.split(".")[-1] and alias.name == b for a, b in PROCESS_WIDE):
                    yield f"{module.name}:{node.lineno} imports {node.module}.{alias.name}"


def global_state(module: Module) -> Iterator[str]:
    """`global`, and empty containers at module level, which can only be there to be filled."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Global):
            yield f"{module.name}:{node.lineno} says global {', '.join(node.names)}"
    for statement in module.tree.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        literal = (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.List) and not value.elts)
        call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in EMPTY_CONTAINERS
        if literal or (call and isinstance(value, ast.Call) and not value.args):
            yield f"{module.name}:{statement.lineno} keeps state in a module"


def offences(module: Module) -> list[str]:
    return [*reactor_imports(module), *process_wide_calls(module), *global_state(module)]


def test_modules_leave_the_process_to_its_owner() -> None:
    assert [each for module in modules("cloudctl", "twisted/plugins").values() for each in offences(module)] == []


@pytest.mark.parametrize(
    "source",
    [
        "from twisted.internet import reactor",
        "import twisted.internet.reactor",
        "from twisted.internet.reactor import callLater",
        "from twisted.internet import defer, reactor as r",
        "if True:\n    from twisted.internet import reactor",
        "try:\n    pass\nexcept ImportError:\n    from twisted.internet import reactor",
        "class A:\n    from twisted.internet import reactor",
        "import txaio\ntxaio.use_asyncio()",
        "from txaio import use_twisted",
        "def f():\n    logging.basicConfig()",
        "import signal\nsignal.signal(2, None)",
        "from signal import signal",
        "from twisted.internet import asyncioreactor\nasyncioreactor.install()",
        "from twisted.logger import globalLogBeginner\nglobalLogBeginner.beginLoggingTo([])",
        "x = 1\ndef f():\n    global x\n    x = 2",
        "cache = {}",
        "seen: set[str] = set()",
        "queue = []",
    ],
)
def test_an_offence_is_found(source: str) -> None:
    assert len(offences(Module.parse("bad", source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def run():\n    from twisted.internet import reactor\n    reactor.run()",
        "from twisted.internet.interfaces import IReactorTime",
        "import txaio\nd = txaio.as_future(print)",
        "from twisted.logger import Logger\nlog = Logger()",
        "LIMITS = {'a': 1}\nNAMES = frozenset()",
        "def f():\n    seen = set()",
    ],
)
def test_ordinary_code_is_not_reported(source: str) -> None:
    assert offences(Module.parse("good", source)) == []


def test_the_plugin_folder_is_read() -> None:
    module = modules("twisted/plugins")["twisted.plugins.cloudctl_drivers"]
    assert "cloudctl.drivers.maker" in {found.target for found in imports(module, {})}
