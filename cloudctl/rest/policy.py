"""Who may call what: rules are data, an operator's file overrides them.

A rule is an expression over these words, joined with `and`, `or`, `not` and parentheses:

* `any` (a valid token), `nobody`;
* `role:NAME`: the token holds the role (implied roles included);
* `scope:project`, `scope:domain`, `scope:system`: what the token is scoped to;
* `match:ATTRIBUTE`: the attribute of the target (`user_id`, `project_id`, `domain_id`) is the caller's own;
* the name of another rule.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from attrs import frozen

from cloudctl.errors import ConfigError
from cloudctl.rest.identity import Identity

Target = Mapping[str, str]
# The last argument is what a match counts as whose attribute the target lacks.
Check = Callable[[Identity, Target, bool], bool]

# Short names for callers in rules: the four default roles include those after them through implied roles.
PERSONAS = {
    "admin": "role:admin",
    "manager": "role:manager and scope:project",
    "member": "role:member and scope:project",
    "reader": "role:reader and scope:project",
    "service": "role:service",
    "system_reader": "role:admin or role:reader and scope:system",
}

WORD = re.compile(r"\s*(\(|\)|[A-Za-z0-9_:.\-]+)")
MATCHED = ("user_id", "project_id", "domain_id")


class RuleError(ValueError):
    """The text of a rule cannot be understood."""


def _any(identity: Identity, target: Target, unknown: bool) -> bool:
    return True


def _nobody(identity: Identity, target: Target, unknown: bool) -> bool:
    return False


def _role(name: str) -> Check:
    return lambda identity, target, unknown: name in identity.roles


def _scope(name: str) -> Check:
    return {
        "project": lambda identity, target, unknown: bool(identity.project_id),
        "domain": lambda identity, target, unknown: bool(identity.domain_id),
        "system": lambda identity, target, unknown: identity.system,
    }[name]


def _match(attribute: str) -> Check:
    def check(identity: Identity, target: Target, unknown: bool) -> bool:
        if attribute not in target:
            return unknown
        return bool(target[attribute]) and target[attribute] == getattr(identity, attribute)

    return check


def _either(one: Check, other: Check) -> Check:
    return lambda identity, target, unknown: one(identity, target, unknown) or other(identity, target, unknown)


def _both(one: Check, other: Check) -> Check:
    return lambda identity, target, unknown: one(identity, target, unknown) and other(identity, target, unknown)


class _Parser:
    """Recursive descent over one rule: `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str, named: Callable[[str], Check]) -> None:
        self.words = WORD.findall(text)
        if "".join(self.words) != re.sub(r"\s", "", text) or not self.words:
            raise RuleError(f"{text!r} has characters that no rule has")
        self.named = named
        self.attributes: set[str] = set()

    def parse(self) -> Check:
        check = self._or()
        if self.words:
            raise RuleError(f"unexpected {self.words[0]!r}")
        return check

    def _or(self) -> Check:
        check = self._and()
        while self._take("or"):
            check = _either(check, self._and())
        return check

    def _and(self) -> Check:
        check = self._not()
        while self._take("and"):
            check = _both(check, self._not())
        return check

    def _not(self) -> Check:
        if self._take("not"):
            inner = self._not()
            return lambda identity, target, unknown: not inner(identity, target, not unknown)
        if self._take("("):
            inner = self._or()
            if not self._take(")"):
                raise RuleError("a ')' is missing")
            return inner
        return self._word()

    def _word(self) -> Check:
        if not self.words:
            raise RuleError("unexpected end of pattern")
        word = self.words.pop(0)
        kind, _, rest = word.partition(":")
        if word == "any":
            return _any
        if word == "nobody":
            return _nobody
        if kind == "role" and rest:
            return _role(rest)
        if kind == "scope" and rest in ("project", "domain", "system"):
            return _scope(rest)
        if kind == "match" and rest in MATCHED:
            return _match(rest)
        return self.named(word)

    def _take(self, word: str) -> bool:
        if self.words and self.words[0] == word:
            self.words.pop(0)
            return True
        return False


@frozen
class Rule:
    text: str
    check: Check


class Policy:
    """The compiled rules of a cloud."""

    def __init__(self, rules: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError naming each override that is unknown or cannot be understood."""
        problems = [
            f"policy.{name}: unknown rule" for name in overrides or () if name not in rules and name not in PERSONAS
        ]
        self._texts = {**PERSONAS, **rules, **(overrides or {})}
        self.rules: dict[str, Rule] = {}
        for name in self._texts:
            try:
                self._compile(name, ())
            except RuleError as error:
                problems.append(f"policy.{name}: {error}")
        if problems:
            raise ConfigError(problems)

    def _compile(self, name: str, path: tuple[str, ...]) -> Check:
        if name in path:
            raise RuleError(f"{name} refers to itself")
        if name not in self._texts:
            raise RuleError(f"{name!r} is neither a known check nor a known rule")
        if name not in self.rules:
            text = self._texts[name]
            check = _Parser(text, lambda other: self._compile(other, (*path, name))).parse()
            self.rules[name] = Rule(text, check)
        return self.rules[name].check

    def may(self, rule: str, identity: Identity, target: Target) -> bool:
        """Whether `identity` passes `rule`, whatever the attributes are that `target` lacks."""
        return self.rules[rule].check(identity, target, False)

    def might(self, rule: str, identity: Identity, target: Target) -> bool:
        """Whether it could pass once the record is read, and attributes that `target` lacks are known."""
        return self.rules[rule].check(identity, target, True)


def shipped(services: Iterable[str]) -> dict[str, str]:
    """The rules in `policy.toml` of each of these service packages: "cloudctl.compute", or "compute" for short."""
    rules: dict[str, str] = {}
    for service in services:
        package = service if "." in service else f"cloudctl.{service}"
        table = tomllib.loads((files(package) / "policy.toml").read_text())
        rules |= {f"{package.rpartition('.')[2]}:{name}": text for name, text in table.items()}
    return rules


# It holds nothing of one cloud, and tests make hundreds of clouds with the same rules.
@lru_cache(maxsize=16)
def as_shipped(services: tuple[str, ...]) -> Policy:
    return Policy(shipped(services))


def load(services: Iterable[str], override: Path | None) -> Policy:
    """The shipped rules with those of an operator's file: `"compute:servers:list" = "any"`."""
    if override is None:
        return as_shipped(tuple(services))
    try:
        overrides = tomllib.loads(override.read_text())
    except OSError as error:
        raise ConfigError([f"policy.file: {override}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"policy.file: {override}: {error}"]) from None
    wrong = [f"policy.{name}: a rule is a string" for name, text in overrides.items() if not isinstance(text, str)]
    if wrong:
        raise ConfigError(wrong)
    return Policy(shipped(services), overrides)
