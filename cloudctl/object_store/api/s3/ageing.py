"""Lifecycle rules of buckets: what is removed when it is old. Reference: object-store.md, B2.

Moves to other storage classes are refused: there is only one.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.db.columns import new_hex_id
from cloudctl.object_store import ageing
from cloudctl.object_store.ageing import Rule
from cloudctl.object_store.api.s3 import headers, xml
from cloudctl.object_store.api.s3.buckets import BUCKET, SHOW, UPDATE, answered, change
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.intake import Intake
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.formats import parse_time
from cloudctl.rest.route import Routes

MOST = 1000
MOST_KEPT = 65_536  # bytes of all rules, which are read whenever the bucket is
LONGEST_ID = 255
DATE = "%Y-%m-%d"
# What a rule may contain, and what is refused here.
ACTIONS = ("Expiration", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")
REFUSED = ("Transition", "NoncurrentVersionTransition")


@frozen
class Ageing:
    routes = Routes("S3: lifecycle")

    door: S3Door
    documents: Documents
    intake: Intake

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="lifecycle")
    async def show(self, call: Call, bucket: str) -> Reply:
        """Show the lifecycle rules of a bucket."""
        _, container = await self.door.own(call, bucket)
        found = ageing.kept(container.headers)
        if not found:
            raise error("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist")
        return answered(xml.listed("LifecycleConfiguration", map(_shown, found)))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="lifecycle", raw=True)
    async def set(self, call: Call, bucket: str) -> Reply:
        """Set the lifecycle rules of a bucket."""
        place, _ = await self.door.own(call, bucket)
        root = await self.documents.read(call, "LifecycleConfiguration")
        found = [_rule(each) for each in root.findall("Rule")]
        if not 0 < len(found) <= MOST:
            raise _malformed(f"Between 1 and {MOST} rules are expected.")
        if len({rule.id for rule in found}) < len(found):
            raise error("InvalidArgument", "Rule ID must be unique. Found same ID for more than one rule")
        kept = ageing.keep(found)
        if len(kept) > MOST_KEPT:
            raise error("InvalidRequest", f"The rules of a bucket come to at most {MOST_KEPT} bytes here.")
        await self.intake.db.run(change, place, {ageing.KEPT: kept}, call.now)
        return Reply(None, 200)

    @routes.delete(BUCKET, policy=UPDATE, anonymous=True, subresource="lifecycle")
    async def remove(self, call: Call, bucket: str) -> Reply:
        """Remove the lifecycle rules of a bucket."""
        place, _ = await self.door.own(call, bucket)
        await self.intake.db.run(change, place, {ageing.KEPT: None}, call.now)
        return Reply(None, 204)


def _malformed(why: str) -> Exception:
    return error("MalformedXML", f"The XML you provided did not validate against our published schema: {why}")


# -- reading


def _rule(given: Element) -> Rule:
    """Raises MalformedXML, InvalidArgument, NotImplemented."""
    for path in REFUSED:
        if given.find(path) is not None:
            raise error("NotImplemented", f"{path.rpartition('/')[2]} of a lifecycle rule is not implemented.")
    if all(given.find(name) is None for name in ACTIONS):
        raise error("InvalidRequest", "At least one action needs to be specified in a rule.")
    status = xml.text_of(given, "Status")
    if status not in ("Enabled", "Disabled"):
        raise _malformed("the status of a rule is Enabled or Disabled")
    id = xml.text_of(given, "ID") or new_hex_id()
    if len(id) > LONGEST_ID:
        raise error("InvalidArgument", f"ID length should not exceed allowed limit of {LONGEST_ID}")
    filtered, both = given.find("Filter"), given.find("Filter/And")
    if (filtered is None) == (given.find("Prefix") is None):
        raise _malformed("a rule has a Filter, or a Prefix of its own")
    chosen = given if filtered is None else filtered if both is None else both
    if both is None and filtered is not None and len(filtered) > 1:
        raise _malformed("several conditions of a Filter stand in And")
    days, date, lone_markers = _expiration(given.find("Expiration"))
    tags = [(each.findtext("Key") or "", each.findtext("Value") or "") for each in chosen.findall("Tag")]
    if filtered is not None:
        headers.kept_tags(tags)
    for name, is_said in (
        ("ExpiredObjectDeleteMarker", lone_markers),
        ("AbortIncompleteMultipartUpload", given.find("AbortIncompleteMultipartUpload") is not None),
    ):
        # Neither a marker nor an incomplete upload has tags.
        if tags and is_said:
            raise error("InvalidRequest", f"{name} cannot be specified with Tags.")
    return Rule(
        id,
        status == "Enabled",
        # A name may begin or end with a space.
        chosen.findtext("Prefix") or "",
        _number(chosen, "ObjectSizeGreaterThan", 0),
        _number(chosen, "ObjectSizeLessThan", 1),
        days,
        date,
        lone_markers,
        _needed(given, "NoncurrentVersionExpiration", "NoncurrentDays"),
        _number(given, "NoncurrentVersionExpiration/NewerNoncurrentVersions", 1) or 0,
        _needed(given, "AbortIncompleteMultipartUpload", "DaysAfterInitiation"),
        tags if filtered is not None else (),
    )


def _expiration(given: Element | None) -> tuple[int | None, str | None, bool]:
    """Days, date, and whether lone markers go: at most one is set."""
    if given is None:
        return None, None, False
    if len(given) != 1:
        raise _malformed("Expiration has one of Days, Date, ExpiredObjectDeleteMarker")
    marker = xml.text_of(given, "ExpiredObjectDeleteMarker")
    if marker not in ("", "true", "false"):
        raise _malformed("ExpiredObjectDeleteMarker is true or false")
    return _number(given, "Days", 1), _date(xml.text_of(given, "Date")), marker == "true"


def _date(text: str) -> str | None:
    """A date, from a midnight in UTC."""
    if not text:
        return None
    try:
        when = parse_time(text)
    except (ValueError, OverflowError):
        raise _malformed("Date is as ISO 8601 has it") from None
    if when != ageing.midnight(when):
        raise error("InvalidArgument", "'Date' must be at midnight GMT")
    return when.strftime(DATE)


def _needed(given: Element, action: str, name: str) -> int | None:
    found = given.find(action)
    if found is None:
        return None
    number = _number(found, name, 1)
    if number is None:
        raise _malformed(f"{action} has {name}")
    return number


def _number(given: Element, path: str, least: int) -> int | None:
    text = xml.text_of(given, path)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise _malformed(f"{path} is a number")
    if int(text) < least or (path.endswith(("Days", "Initiation")) and int(text) > 2**31 - 1):
        raise error("InvalidArgument", f"'{path.rpartition('/')[2]}' must be a positive integer")
    return int(text)


# -- showing


def _shown(rule: Rule) -> Element:
    conditions = element(
        "And",
        Prefix=rule.prefix,
        ObjectSizeGreaterThan=rule.larger_than,
        ObjectSizeLessThan=rule.smaller_than,
    )
    if rule.tags and not rule.prefix:
        conditions.remove(conditions[0])
    conditions.extend(element("Tag", Key=name, Value=value) for name, value in rule.tags)
    made = element("Rule", ID=rule.id, Status="Enabled" if rule.is_on else "Disabled")
    made.append(element("Filter", *(conditions if len(conditions) == 1 else (conditions,))))
    if rule.days is not None or rule.date is not None or rule.lone_markers:
        date = None if rule.date is None else f"{rule.date}T00:00:00Z"
        made.append(
            element("Expiration", Days=rule.days, Date=date, ExpiredObjectDeleteMarker=rule.lone_markers or None)
        )
    if rule.old_days is not None:
        kept = rule.old_kept or None
        made.append(element("NoncurrentVersionExpiration", NoncurrentDays=rule.old_days, NewerNoncurrentVersions=kept))
    if rule.upload_days is not None:
        made.append(element("AbortIncompleteMultipartUpload", DaysAfterInitiation=rule.upload_days))
    return made
