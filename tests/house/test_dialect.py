"""What `docs/architecture.md` calls the dialect, as far as a program can check it: the same words in every service."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from tests.house.source import Module, modules
from tests.house.test_import_order import SERVICES

# Module → why its time is another one, or nobody's: neither a request nor a task is at work.
EXCEPTIONS = {
    "cloudctl.compute.audit": "a round of the audit",
    "cloudctl.compute.host_watch": "a round of the watch",
    "cloudctl.compute.overdue": "a round of the watch",
    "cloudctl.events.delivery": "a round of it",
    "cloudctl.instance_ha.intake": "what comes by a bus",
    "cloudctl.instance_ha.watch": "a round of the watch",
    "cloudctl.identity.oauth_signatures": "the timestamps of OAuth are seconds",
    "cloudctl.network.audit": "a round of the audit",
    "cloudctl.volume.audit": "a round of the audit",
}
LOCKS = frozenset({"held", "_held", "locked", "_locked", "keep", "claim"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_of_a_service(module: Module) -> bool:
    parts = module.name.split(".")
    return len(parts) > 1 and parts[0] == "cloudctl" and parts[1] in SERVICES


def is_domain(module: Module) -> bool:
    """Not the wire, not a workflow: `cloudctl.SERVICE.NAME`."""
    return is_of_a_service(module) and module.name.count(".") == 2 and not module.is_package


def parameters(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def functions(module: Module) -> Iterator[Function]:
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def said(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


# -- each yields violations


def times(module: Module, but: Collection[str] = EXCEPTIONS) -> Iterator[str]:
    """The time of a change is `now: datetime`, and is handed down."""
    if module.name in but:
        return
    for function in functions(module):
        for each in parameters(function):
            if each.arg == "now" and said(each.annotation) != "datetime":
                yield f"{function.name}:{each.lineno} now: {said(each.annotation)}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and said(node.func) in ("db.now", "self.db.now", "conn.now"):
            yield f"{node.lineno} {said(node)}"


def locks(module: Module) -> Iterator[str]:
    """The keyword is `lock`, a flag."""
    for function in functions(module):
        for each in parameters(function):
            if each.arg in LOCKS and said(each.annotation) == "bool":
                yield f"{function.name}:{each.lineno} {each.arg}"


def _starts_with(*names: str) -> Callable[[Function], bool]:
    return lambda function: [each.arg for each in parameters(function)][: len(names)] == list(names)


def _changes(function: Function) -> bool:
    """`changes`, columns → values, and no keywords of any name."""
    given = {each.arg: said(each.annotation) for each in parameters(function)}
    return given.get("changes", "").startswith(("Mapping[", "dict[")) and function.args.kwarg is None


def _is_given_new(function: Function) -> bool:
    """What is requested is called `new`."""
    return all(each.arg == "new" for each in parameters(function) if re.match("New[A-Z]", said(each.annotation)))


# Verb → what a function of that name must look like.
VERBS: dict[str, tuple[Callable[[Function], bool], ...]] = {
    "find": (_starts_with("conn"), lambda it: said(it.returns).endswith(" | None")),
    "get": (_starts_with("conn"), lambda it: "None" not in said(it.returns)),
    "visible": (_starts_with("conn", "caller"), lambda it: "None" not in said(it.returns)),
    "create": (_starts_with("conn"), lambda it: said(it.returns) != "None", _is_given_new),
    "change": (_starts_with("conn"), _changes),
    "remove": (_starts_with("conn"),),
    "not_found": (lambda it: said(it.returns) == "NotFound",),
    # The words of SQL and of HTTP for `remove` and `change`.
    "delete": (lambda it: False,),
    "update": (lambda it: False,),
}
# Functions named like a verb that are not about a record of their own.
OTHER_VERBS = frozenset(
    {
        "cloudctl.identity.assignment_list.find",  # a search
        "cloudctl.identity.domain_config.change",  # a document, replaced in parts
        "cloudctl.image.properties.change",  # the properties of an image, some given and some removed
        "cloudctl.network.standard.change",  # of any table, below the verbs
    }
)


def verbs(module: Module, but: Collection[str] = OTHER_VERBS) -> Iterator[str]:
    for node in module.tree.body:
        if not isinstance(node, Function) or f"{module.name}.{node.name}" in but:
            continue
        if not all(holds(node) for holds in VERBS.get(node.name, ())):
            yield f"{node.name}:{node.lineno} ({ast.unparse(node.args)}) -> {said(node.returns)}"


def wishes(module: Module) -> Iterator[str]:
    """A create is given `NewX`: neither a Wish, nor columns by name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and node.name == "Wish" and module.name != "cloudctl.placement.wishes":
            yield f"{node.name}:{node.lineno}"
    for node in module.tree.body:
        if isinstance(node, Function) and node.name == "create" and not module.name.startswith("cloudctl.identity."):
            loose = [each.arg for each in parameters(node) if said(each.annotation).startswith(("dict", "Mapping"))]
            if loose or node.args.kwarg is not None:
                yield f"create:{node.lineno} {', '.join(loose)}"


def unread(some: Sequence[Module]) -> Iterator[str]:
    """Fields of a `NewX` that nothing reads: what a request says there would be silently dropped."""
    fields = {
        node.name: {said(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
        for module in some
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and re.match(r"New[A-Z]", node.name)
    }
    for module in some:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and node.name in fields:
                fields[node.name] -= _read(node, {"self"})
            elif isinstance(node, Function):
                for each in parameters(node):
                    for name in fields.keys() & set(re.findall(r"\w+", said(each.annotation))):
                        fields[name] -= _read(node, {each.arg}, fields[name])
    yield from (f"{name}.{each}" for name in sorted(fields) for each in sorted(fields[name]))


def _read(node: ast.AST, names: set[str], whole: Collection[str] = ()) -> set[str]:
    """The attributes read from these names, and from loop variables over them; and `whole` if `asdict` reads them."""
    each_of = {
        said(each.target)
        for each in ast.walk(node)
        if isinstance(each, ast.For | ast.comprehension) and said(each.iter) in names
    }
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and said(each.value) in names | each_of:
            found.add(each.attr)
        if isinstance(each, ast.Call) and said(each) in {f"asdict({name})" for name in names}:
            found |= set(whole)
    return found


def resources(module: Module) -> Iterator[str]:
    """A class with `routes` is a frozen value, and has no `__init__`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and _has_routes(node):
            frozen = any(said(each).partition("(")[0] in ("frozen", "attrs.frozen") for each in node.decorator_list)
            made_by_hand = any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body)
            if not frozen or made_by_hand:
                yield f"{node.name}:{node.lineno}"


def _has_routes(node: ast.ClassDef) -> bool:
    for each in node.body:
        if isinstance(each, ast.Assign) and said(each.value).startswith("Routes("):
            return True
        if isinstance(each, ast.FunctionDef) and each.name == "routes" and said(each.returns) == "Routes":
            return True
    return False


def transactions(module: Module) -> Iterator[str]:
    """A step that only commits is a `Transaction`, which costs no commit of its own."""
    for function in functions(module):
        awaited = [said(each.value) for each in ast.walk(function) if isinstance(each, ast.Await)]
        if said(function.returns).startswith("Memo") and awaited and all(_commits(each) for each in awaited):
            yield f"{function.name}:{function.lineno}"


def _commits(awaited: str) -> bool:
    return awaited.startswith("ctx.commit(")


def domain() -> list[Module]:
    return [each for each in modules("cloudctl").values() if is_domain(each)]


def services() -> list[Module]:
    return [each for each in modules("cloudctl").values() if is_of_a_service(each)]


def apis() -> list[Module]:
    found = modules("cloudctl").values()
    return [each for each in found if ".api" in each.name or each.name.startswith("cloudctl.rest.")]


def all_of(modules: list[Module], wrong: Callable[[Module], Iterator[str]]) -> list[str]:
    return [f"{module.name}.{each}" for module in modules for each in wrong(module)]


def test_the_time_of_a_change_is_a_datetime_that_is_handed_down() -> None:
    assert all_of(services(), times) == []


def test_a_record_is_locked_by_the_keyword_lock() -> None:
    assert all_of(services(), locks) == []


def test_verbs_take_and_give_the_same_in_every_service() -> None:
    assert all_of(domain(), verbs) == []


def test_a_create_is_given_a_value_of_its_own() -> None:
    assert all_of(domain(), wishes) == []


@pytest.mark.parametrize("service", SERVICES)
def test_all_that_a_create_is_given_is_read(service: str) -> None:
    assert list(unread([each for each in domain() if each.name.startswith(f"cloudctl.{service}.")])) == []


@pytest.mark.parametrize(
    ("reading", "left"),
    [
        ("def create(conn, new: NewServer): return new.name", ["NewServer.color"]),
        ("def create(conn, server, new: NewServer): return new.name, server.color", ["NewServer.color"]),
        ("def create(conn, new: NewServer): return asdict(new)", []),
        ("def create_all(conn, all: list[NewServer]): return [(new.name, new.color) for new in all]", []),
        ("def create(conn, new: NewServer): return columns(new)\ndef columns(new: NewServer): new.name, new.color", []),
    ],
)
def test_what_is_not_read_of_a_create_is_found(reading: str, left: list[str]) -> None:
    text = f"class NewServer:\n    name: str\n    color: str\n{reading}"
    assert list(unread([Module.parse("cloudctl.compute.x", text)])) == left


def test_resources_of_an_api_are_frozen() -> None:
    assert all_of(apis(), resources) == []


def test_a_step_that_only_commits_is_a_transaction() -> None:
    assert all_of(services(), transactions) == []


def test_every_exception_is_still_needed() -> None:
    known = modules("cloudctl")
    assert [name for name in EXCEPTIONS if not list(times(known[name], frozenset()))] == []
    said_otherwise = {f"{name}.{each.partition(':')[0]}" for name in known for each in verbs(known[name], frozenset())}
    assert OTHER_VERBS - said_otherwise == set()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (times, "def settle(conn: Connection, now: float): pass"),
        (times, "def settle(conn: Connection): return db.now(conn)"),
        (locks, "def get(conn: Connection, id: str, held: bool = False) -> Server: pass"),
        (verbs, "def find(conn: Connection, id: str) -> Server: pass"),
        (verbs, "def get(conn: Connection, id: str) -> Server | None: pass"),
        (verbs, "def visible(conn: Connection, id: str) -> Server: pass"),
        (verbs, "def create(conn: Connection, new: NewServer) -> None: pass"),
        (verbs, "def create(conn: Connection, wanted: NewServer) -> Server: pass"),
        (verbs, "def delete(conn: Connection, server: Server) -> None: pass"),
        (verbs, "def change(conn: Connection, server: Server, **values: str) -> Server: pass"),
        (verbs, "def remove(server: Server) -> None: pass"),
        (verbs, "def not_found(id: str) -> None: pass"),
        (wishes, "class Wish: pass"),
        (wishes, "def create(conn: Connection, values: dict[str, Any]) -> Server: pass"),
        (resources, "class Servers:\n    routes = Routes('Servers')"),
        (resources, "@frozen\nclass Servers:\n    routes = Routes('Servers')\n    def __init__(self): pass"),
        (transactions, "async def finish(ctx: Context) -> Memo:\n    await ctx.commit(finished, ctx.now)"),
    ],
)
def test_an_offender_is_found(wrong: Callable[[Module], Iterator[str]], text: str) -> None:
    assert len(list(wrong(Module.parse("cloudctl.compute.x", text)))) == 1
