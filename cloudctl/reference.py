"""The pages generated from the code: the list of API calls (docs/api.md) and the list of rules (etc/policy.toml).

`cloudctl docs` prints them, `make docs` writes them into the tree. They are read from the Operations and rules of a
composed cloud, so they list what is served and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from twisted.internet.task import Clock

from cloudctl import app, config, history
from cloudctl.app import Cloud, Served
from cloudctl.rest import policy
from cloudctl.rest.route import Operation
from cloudctl.rest.versions import text

API_HEAD = """\
# API calls

Written by `make docs` from the code: do not edit it.

Paths are below the address of the main APIs, `http://127.0.0.1:8780` unless configured otherwise. Every call needs a
token in `X-Auth-Token`, except those whose rule is `none`. The words of the rules are explained in
[operating.md](operating.md#who-may-do-what); these are shorthands:

| name | stands for |
| --- | --- |
"""

APART = "Also without it, on an address of its own: `http://127.0.0.1:15868` unless configured otherwise."

POLICY_HEAD = """\
## Who may call what. Name your copy of this file in the configuration: [policy] file = "/etc/cloudctl/policy.toml".
##
## A line here overrides the shipped rule of that name; what is not here stays as shipped. Read at the start. A rule
## that does not exist or cannot be understood keeps the cloud from starting. The words of a rule:
##
##   any                  every valid token             nobody              no one
##   role:NAME            the token holds the role      scope:KIND          project, domain or system
##   match:ATTRIBUTE      the target's user_id, project_id or domain_id is the caller's own
##   the name of another rule, and, or, not, parentheses
##
## docs/api.md says which call asks for which rule.

## Example: servers are created only by members who also hold a role of that purpose.
# "compute:servers:create" = "member and role:builder"

## Example: a support role sees the servers of all projects, and changes none.
# "compute:servers:list:all_tenants" = "system_reader or role:support"

## All rules as shipped. This list is written by `make docs`.
"""


def sample() -> Cloud:
    """A cloud in memory with the default configuration, for inspection; it is never started."""
    return Cloud.in_memory(config.build({}, app.SECTIONS, Path("state")), Clock())


def api(cloud: Cloud) -> str:
    """Every Operation in Markdown, by service and tag, in the order of declaration."""
    shorthands = (f"| `{name}` | `{cloud.policy.rules[name].text}` |" for name in policy.PERSONAS)
    parts = [API_HEAD + "\n".join(shorthands) + "\n"]
    parts += [_service(cloud, each) for each in cloud.served]
    parts.append(_service(cloud, Served("The root", "", lambda: cloud.root_api)))
    return "\n".join(parts)


def _service(cloud: Cloud, served: Served) -> str:
    where = f"Below `{served.prefix}`." if served.prefix else "What is below no service."
    if served.apart is not None:
        where += f" {APART}"
    versions = served.api.pipeline.versions
    if versions is not None:
        where += f" Microversions {text(versions.minimum)} to {text(versions.maximum)}."
    tags: dict[str, list[tuple[str, Operation]]] = {}
    for path, operation in served.api.operations:
        tags.setdefault(operation.tag, []).append((path, operation))
    columns = ("call", *(("microversions",) if versions is not None else ()), "rule", "who passes it", "what it does")
    lines = [f"## {served.title}", "", where]
    for tag, operations in tags.items():
        lines += ["", f"### {tag}", "", _row(columns), _row(["---"] * len(columns))]
        lines += [_row(_cells(cloud, served.prefix, path, each, versions is not None)) for path, each in operations]
    if versions is not None:
        lines += _microversions(served)
    return "\n".join(lines) + "\n"


def _microversions(served: Served) -> Iterator[str]:
    """What each microversion changes."""
    (package,) = (service.package for service in app.SERVICES if service.title == served.title)
    steps = history.steps(served.api, f"{package}.api", served.prefix)
    if not steps:
        return
    yield from ("", "### What a microversion changes", "", _row(("microversion", "from here on", "no longer")))
    yield _row(["---"] * 3)
    for version, step in steps.items():
        cells = ("; ".join(history.sentences(facts)) for facts in (step.new, step.gone))
        yield _row((text(version), *cells))


def _cells(cloud: Cloud, prefix: str, path: str, operation: Operation, versioned: bool) -> Iterator[str]:
    yield history.shown(operation, prefix + path)
    if versioned:
        yield str(operation.span)
    if operation.policy is None:
        yield from ("none", "everyone")
    else:
        yield from (f"`{operation.policy}`", f"`{cloud.policy.rules[operation.policy].text}`")
    yield operation.summary.rstrip(".") + "."


def _row(cells: Iterator[str] | Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def rules() -> str:
    """The shipped rules as a file of overrides that overrides nothing: each of them commented out."""
    groups: dict[str, dict[str, str]] = {"shorthands for the rules below": policy.PERSONAS}
    groups |= {service.name: policy.shipped([service.package]) for service in app.SERVICES}
    lines = []
    for name, group in groups.items():
        if group:
            lines += ["", f"## {name}", *(f'# "{rule}" = "{expression}"' for rule, expression in group.items())]
    return POLICY_HEAD + "\n".join(lines) + "\n"
