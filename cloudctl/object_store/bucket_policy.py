"""Policies of buckets: who may or may not do what with which objects, in a subset of S3's policy language.

Anything not understood here makes a policy malformed: no stored policy says more than is enforced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

import orjson
from attrs import frozen

from cloudctl.object_store.likes import Likes, wildcards
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
# Prefixes of the key of a tag: one that the object has, and one that the request gives it.
EXISTING_TAG, GIVEN_TAG = "s3:ExistingObjectTag/", "s3:RequestObjectTag/"
# The actions on an existing object.
OF_EXISTING = frozenset({
    "s3:DeleteObjectTagging", "s3:GetObject", "s3:GetObjectAcl", "s3:GetObjectTagging", "s3:GetObjectVersion",
    "s3:PutObjectTagging",
})  # fmt: skip
LONGEST = 1024  # characters of a text
MOST_WILDCARDS = 100  # besides those at the end of a text


class Malformed(Exception):
    """Why a policy is malformed."""


class Effect(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


@frozen
class Asked:
    """What somebody wants to do. `facts`: what conditions may test, by key; unknown facts are left out."""

    user_id: str  # empty: anonymous
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
    test: Callable[[str], bool]  # of the values
    negated: bool
    key: str
    values: tuple[str, ...]

    def holds(self, asked: Asked) -> bool:
        """An unknown fact matches none of the values."""
        fact = asked.facts.get(self.key)
        return self.negated is not (fact is not None and self.test(fact))


@frozen
class Statement:
    effect: Effect
    principals: tuple[Principal, ...]
    actions: frozenset[str]
    names: Likes  # of objects
    on_bucket: bool
    conditions: tuple[Condition, ...]

    def is_about(self, asked: Asked) -> bool:
        """Whether it applies, apart from the name of the object."""
        return (
            asked.action in self.actions
            and any(each.is_meant(asked) for each in self.principals)
            and all(each.holds(asked) for each in self.conditions)
        )


@frozen
class Said:
    """What a policy says of objects by name, for otherwise fixed questions. A denial wins."""

    denied: Likes
    allowed: Likes

    def of(self, name: str) -> Effect | None:
        """None: it says nothing."""
        if self.denied.holds(name):
            return Effect.DENY
        return Effect.ALLOW if self.allowed.holds(name) else None


@frozen
class Policy:
    statements: tuple[Statement, ...]

    def asks_for_tags(self, action: str) -> bool:
        """Whether it needs the tags of the object."""
        return action in OF_EXISTING and any(
            condition.key.startswith(EXISTING_TAG)
            for statement in self.statements
            for condition in statement.conditions
        )

    def decide(self, asked: Asked) -> Effect | None:
        """None: it says nothing about this. A denial wins."""
        if asked.name:
            return self.of_objects(asked).of(asked.name)
        said = {each.effect for each in self.statements if each.on_bucket and each.is_about(asked)}
        return Effect.DENY if Effect.DENY in said else Effect.ALLOW if said else None

    def of_objects(self, asked: Asked) -> Said:
        """Evaluated once for any number of names."""
        found = [each for each in self.statements if each.is_about(asked)]
        denied, allowed = (Likes.all_of(each.names for each in found if each.effect is effect) for effect in REVERSED)
        return Said(denied, allowed)


REVERSED = (Effect.DENY, Effect.ALLOW)


def _in_networks(values: Sequence[str]) -> Callable[[str], bool]:
    try:
        networks = [ip_network(each) for each in values]
    except ValueError as wrong:
        raise Malformed(f"{str(wrong)[:128]}.") from None

    def test(address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in each for each in networks)

    return test


def _equal(values: Sequence[str]) -> Callable[[str], bool]:
    return frozenset(values).__contains__


def _like(values: Sequence[str]) -> Callable[[str], bool]:
    return Likes.of(values).holds


# Operator → what makes a test from the values, whether it is negated, and the keys that it may test.
OPERATORS: Mapping[str, tuple[Callable[[Sequence[str]], Callable[[str], bool]], bool, tuple[str, ...]]] = {
    "StringEquals": (_equal, False, TEXTS),
    "StringNotEquals": (_equal, True, TEXTS),
    "StringLike": (_like, False, TEXTS),
    "StringNotLike": (_like, True, TEXTS),
    "IpAddress": (_in_networks, False, (ADDRESS,)),
    "NotIpAddress": (_in_networks, True, (ADDRESS,)),
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
        raise Malformed("The Id of a policy must be a string.")
    statements = document.get("Statement")
    found = statements if isinstance(statements, list) else [statements]
    if not found:
        raise Malformed("A policy must have a Statement.")
    # Check this before any is compiled.
    if sum(wildcards(_every_text(each)) for each in found) > MOST_WILDCARDS:
        raise Malformed(f"A policy has at most {MOST_WILDCARDS} wildcards that are not at the end of a text.")
    return Policy(tuple(_statement(each, bucket) for each in found))


def _every_text(given: Any) -> list[str]:
    """All texts in a statement: any of them may have wildcards."""
    found, left = list[str](), [given]
    while left:
        each = left.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, (list, dict)):
            left += each if isinstance(each, list) else each.values()
    return found


def _members(given: Any, known: frozenset[str] | set[str], what: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Malformed(f"There must be an object: {what}.")
    if unknown := sorted(given.keys() - known):
        raise Malformed(f"{unknown[0][:64]} is not understood in {what}; {', '.join(sorted(known))} are.")
    return given


def _texts(given: Any, what: str) -> tuple[str, ...]:
    found = given if isinstance(given, list) else [given]
    if not found or not all(isinstance(each, str) and each for each in found):
        raise Malformed(f"{what} must be a string or a list of strings.")
    if any(len(each) > LONGEST for each in found):
        raise Malformed(f"{what} has at most {LONGEST} characters.")
    if any("${" in each for each in found):
        raise Malformed("Variables are not understood.")
    return tuple(found)


def _statement(given: Any, bucket: str) -> Statement:
    members = _members(given, MEMBERS, "a statement")
    if not isinstance(members.get("Sid", ""), str):
        raise Malformed("The Sid of a statement must be a string.")
    if members.get("Effect") not in ("Allow", "Deny"):
        raise Malformed("The Effect of a statement must be Allow or Deny.")
    actions = _texts(members.get("Action"), "Action")
    names, on_bucket = _resources(_texts(members.get("Resource"), "Resource"), bucket)
    every: set[str] = set()
    for action in dict.fromkeys(actions):
        like = Likes.of([action])
        meant = {each for each in ACTIONS if like.holds(each)}
        if not meant:
            raise Malformed(f"The action {action[:64]} is not understood; {', '.join(sorted(ACTIONS))} are.")
        if not (on_bucket and meant & ON_BUCKETS) and not (names and meant & ON_OBJECTS):
            raise Malformed(f"The action {action[:64]} does not apply to any resource in the statement.")
        every |= meant
    return Statement(
        Effect(members["Effect"]),
        _principals(members.get("Principal")),
        frozenset(every),
        Likes.of(names),
        on_bucket,
        _conditions(members.get("Condition", {})),
    )


def _resources(given: tuple[str, ...], bucket: str) -> tuple[tuple[str, ...], bool]:
    """The names of objects, and whether the bucket itself is included."""
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
            found.append(Condition(test(wanted), negated, key, wanted))
    return tuple(found)


def _tags(keys: Any, known: tuple[str, ...]) -> set[str]:
    """The keys that are tags, if the operator compares texts."""
    if known is not TEXTS or not isinstance(keys, dict):
        return set()
    return {key for key in keys for kind in (EXISTING_TAG, GIVEN_TAG) if key.startswith(kind) and key != kind}
