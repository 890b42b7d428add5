"""Policies of buckets: who may do what with which objects, or may not, in the language of S3, of which this is a part.

What is not understood here makes a policy malformed: none is kept that would say more than is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import orjson
import re2
from attrs import frozen

from cloudctl.object_store.metadata import PRIVATE
from cloudctl.object_store.tables import Container

KEPT = f"{PRIVATE}Policy"
MOST = 20_480  # bytes
VERSIONS = ("2008-10-17", "2012-10-17")
MEMBERS = frozenset({"Sid", "Effect", "Principal", "Action", "Resource", "Condition"})
ON_BUCKETS = frozenset({"s3:ListBucket", "s3:ListBucketVersions"})
ON_OBJECTS = frozenset({
    "s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectTagging", "s3:DeleteObjectVersion", "s3:GetObject",
    "s3:GetObjectAcl", "s3:GetObjectTagging", "s3:GetObjectVersion", "s3:ListMultipartUploadParts", "s3:PutObject",
    "s3:PutObjectTagging",
})  # fmt: skip
ACTIONS = ON_BUCKETS | ON_OBJECTS
ARN = "arn:aws:s3:::"
PROJECT = re.compile(r"[0-9A-Za-z_-]{1,64}")
PRINCIPAL = re.compile(r"arn:aws:iam::([0-9A-Za-z_-]{1,64}):(?:root|user/([0-9A-Za-z_-]{1,64}))")
TEXTS = ("aws:Referer", "s3:prefix", "s3:delimiter")
ADDRESS = "aws:SourceIp"
# Before the key of a tag: one that the object has, and one that the request gives it.
EXISTING_TAG, GIVEN_TAG = "s3:ExistingObjectTag/", "s3:RequestObjectTag/"
# What an object is there for.
OF_EXISTING = frozenset({
    "s3:DeleteObjectTagging", "s3:GetObject", "s3:GetObjectAcl", "s3:GetObjectTagging", "s3:GetObjectVersion",
    "s3:PutObjectTagging",
})  # fmt: skip


OPTIONS = re2.Options()
OPTIONS.dot_nl = True
OPTIONS.never_capture = True
OPTIONS.log_errors = False
WILDCARDS = {"*": ".*", "?": "."}
LONGEST = 1024  # characters of a text


class Malformed(Exception):
    """Why a policy is none."""


class Effect(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


@frozen
class Asked:
    """What somebody wants to do. `facts`: what a condition may ask for, by its key; what is not known is left out."""

    user_id: str  # empty: nobody knows who
    project_id: str
    action: str
    name: str  # of the object; empty for the bucket
    facts: Mapping[str, str]


@frozen
class Principal:
    """Everybody, all of a project, or a user of it."""

    project_id: str = ""
    user_id: str = ""

    def is_meant(self, asked: Asked) -> bool:
        return not self.project_id or (
            bool(asked.user_id) and asked.project_id == self.project_id and self.user_id in ("", asked.user_id)
        )


@frozen
class Condition:
    test: Callable[[str, str], bool]
    negated: bool
    key: str
    values: tuple[str, ...]

    def holds(self, asked: Asked) -> bool:
        """A fact that is not known is none of the values."""
        fact = asked.facts.get(self.key)
        return self.negated is not (fact is not None and any(self.test(each, fact) for each in self.values))


@frozen
class Statement:
    effect: Effect
    principals: tuple[Principal, ...]
    actions: tuple[str, ...]
    names: tuple[str, ...]  # of objects, with wildcards
    on_bucket: bool
    conditions: tuple[Condition, ...]

    def is_about(self, asked: Asked) -> bool:
        return (
            any(each.is_meant(asked) for each in self.principals)
            and any(is_like(each, asked.action) for each in self.actions)
            and (any(is_like(each, asked.name) for each in self.names) if asked.name else self.on_bucket)
            and all(each.holds(asked) for each in self.conditions)
        )


@frozen
class Policy:
    statements: tuple[Statement, ...]

    def asks_for_tags(self, action: str) -> bool:
        """Whether it is to be told those of the object."""
        return action in OF_EXISTING and any(
            condition.key.startswith(EXISTING_TAG)
            for statement in self.statements
            for condition in statement.conditions
        )

    def decide(self, asked: Asked) -> Effect | None:
        """None: it says nothing of this. Who denies is right."""
        said = {each.effect for each in self.statements if each.is_about(asked)}
        return Effect.DENY if Effect.DENY in said else Effect.ALLOW if said else None


def is_like(pattern: str, text: str) -> bool:
    """With * for any number of characters and ? for one, in time that grows with the lengths only, whoever wrote it."""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:  # re2 has no types
    return re2.compile("".join(WILDCARDS.get(each) or re2.escape(each) for each in pattern), OPTIONS)


def _is_in(network: str, address: str) -> bool:
    try:
        found: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return False
    return found in ip_network(network)


# Operator → its test, whether it is turned around, and the keys that it may ask for.
OPERATORS: Mapping[str, tuple[Callable[[str, str], bool], bool, tuple[str, ...]]] = {
    "StringEquals": (str.__eq__, False, TEXTS),
    "StringNotEquals": (str.__eq__, True, TEXTS),
    "StringLike": (is_like, False, TEXTS),
    "StringNotLike": (is_like, True, TEXTS),
    "IpAddress": (_is_in, False, (ADDRESS,)),
    "NotIpAddress": (_is_in, True, (ADDRESS,)),
}


def of(container: Container) -> Policy | None:
    raw = container.headers.get(KEPT)
    return None if raw is None else parse(raw, container.name)


@lru_cache(maxsize=64)
def parse(raw: str, bucket: str) -> Policy:
    """Raises Malformed."""
    if len(raw.encode()) > MOST:
        raise Malformed(f"A policy has at most {MOST} bytes.")
    try:
        given = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise Malformed("Policies must be valid JSON.") from None
    document = _members(given, {"Version", "Id", "Statement"}, "a policy")
    if document.get("Version", VERSIONS[0]) not in VERSIONS:
        raise Malformed(f"The Version of a policy is one of {', '.join(VERSIONS)}.")
    if not isinstance(document.get("Id", ""), str):
        raise Malformed("The Id of a policy is a text.")
    statements = document.get("Statement")
    found = statements if isinstance(statements, list) else [statements]
    if not found:
        raise Malformed("A policy has a Statement.")
    return Policy(tuple(_statement(each, bucket) for each in found))


def _members(given: Any, known: frozenset[str] | set[str], what: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Malformed(f"There must be an object: {what}.")
    if unknown := sorted(given.keys() - known):
        raise Malformed(f"{unknown[0][:64]} is not understood in {what}; {', '.join(sorted(known))} are.")
    return given


def _texts(given: Any, what: str) -> tuple[str, ...]:
    found = given if isinstance(given, list) else [given]
    if not found or not all(isinstance(each, str) and each for each in found):
        raise Malformed(f"{what} is a text, or a list of them.")
    if any(len(each) > LONGEST for each in found):
        raise Malformed(f"{what} has at most {LONGEST} characters.")
    if any("${" in each for each in found):
        raise Malformed("Variables are not understood.")
    return tuple(found)


def _statement(given: Any, bucket: str) -> Statement:
    members = _members(given, MEMBERS, "a statement")
    if not isinstance(members.get("Sid", ""), str):
        raise Malformed("The Sid of a statement is a text.")
    if members.get("Effect") not in ("Allow", "Deny"):
        raise Malformed("The Effect of a statement is Allow or Deny.")
    actions = _texts(members.get("Action"), "Action")
    for action in actions:
        if not any(is_like(action, each) for each in ACTIONS):
            raise Malformed(f"The action {action[:64]} is not understood; {', '.join(sorted(ACTIONS))} are.")
    names, on_bucket = _resources(_texts(members.get("Resource"), "Resource"), bucket)
    for action in actions:
        meant = {each for each in ACTIONS if is_like(action, each)}
        if not (on_bucket and meant & ON_BUCKETS) and not (names and meant & ON_OBJECTS):
            raise Malformed(f"The action {action[:64]} does not apply to any resource in the statement.")
    return Statement(
        Effect(members["Effect"]),
        _principals(members.get("Principal")),
        actions,
        names,
        on_bucket,
        _conditions(members.get("Condition", {})),
    )


def _resources(given: tuple[str, ...], bucket: str) -> tuple[tuple[str, ...], bool]:
    """The names of objects, and whether the bucket is meant, too."""
    names = []
    for each in given:
        where, slash, name = each.removeprefix(ARN).partition("/")
        if not each.startswith(ARN) or where != bucket or (slash and not name):
            raise Malformed(f"The resource {each[:128]} is none of this bucket: {ARN}{bucket}, {ARN}{bucket}/NAME.")
        if slash:
            names.append(name)
    return tuple(names), len(names) < len(given)


def _principals(given: Any) -> tuple[Principal, ...]:
    if given == "*":
        return (Principal(),)
    return tuple(_principal(each) for each in _texts(_members(given, {"AWS"}, "a principal").get("AWS"), "AWS"))


def _principal(text: str) -> Principal:
    if text == "*":
        return Principal()
    if PROJECT.fullmatch(text):
        return Principal(text)
    if (found := PRINCIPAL.fullmatch(text)) is None:
        raise Malformed(
            f"The principal {text[:128]} is not understood; *, arn:aws:iam::PROJECT_ID:root and "
            "arn:aws:iam::PROJECT_ID:user/USER_ID are."
        )
    return Principal(found[1], found[2] or "")


def _conditions(given: Any) -> tuple[Condition, ...]:
    found = []
    for operator, keys in _members(given, OPERATORS.keys() | set(), "a condition").items():
        test, negated, known = OPERATORS[operator]
        for key, values in _members(keys, {*known, *_tags(keys, known)}, operator).items():
            wanted = _texts(values, key)
            if key == ADDRESS:
                _check_networks(wanted)
            found.append(Condition(test, negated, key, wanted))
    return tuple(found)


def _tags(keys: Any, known: tuple[str, ...]) -> set[str]:
    """Those of the keys that are tags, where texts are asked for."""
    if known is not TEXTS or not isinstance(keys, dict):
        return set()
    return {key for key in keys for kind in (EXISTING_TAG, GIVEN_TAG) if key.startswith(kind) and key != kind}


def _check_networks(given: tuple[str, ...]) -> None:
    for each in given:
        try:
            ip_network(each)
        except ValueError:
            raise Malformed(f"{each[:64]} is no network.") from None
