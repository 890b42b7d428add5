"""CORS of buckets in S3. Reference: object-store.md, B2."""

from __future__ import annotations

from urllib.parse import unquote
from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.identity.signers import Signers
from cloudctl.object_store import containers, cors
from cloudctl.object_store.api.s3 import xml
from cloudctl.object_store.api.s3.buckets import BUCKET, SHOW, UPDATE, answered, change
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.objects import OBJECT
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.cors import Rule
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.likes import wildcards
from cloudctl.object_store.names import Place, is_text
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

MOST = 100
MOST_KEPT = 65_536  # bytes of all rules, which are read whenever the bucket is
MOST_WILDCARDS = 100


@frozen
class CrossOrigin:
    routes = Routes("S3: pages of other sites")

    door: S3Door
    documents: Documents
    intake: Intake
    signers: Signers

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="cors")
    async def show(self, call: Call, bucket: str) -> Reply:
        """Show which pages of other sites may access a bucket."""
        _, container = await self.door.own(call, bucket)
        found = cors.kept(container)
        if not found:
            raise error("NoSuchCORSConfiguration", "The CORS configuration does not exist")
        return answered(xml.listed("CORSConfiguration", map(_shown, found)))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="cors", raw=True)
    async def set(self, call: Call, bucket: str) -> Reply:
        """Set which pages of other sites may access a bucket."""
        place, _ = await self.door.own(call, bucket)
        root = await self.documents.read(call, "CORSConfiguration")
        found = [_rule(each) for each in root.findall("CORSRule")]
        if not 0 < len(found) <= MOST:
            raise error("MalformedXML", f"Between 1 and {MOST} rules are expected.")
        kept = cors.keep(found)
        if len(kept) > MOST_KEPT:
            raise error("InvalidRequest", f"The rules of a bucket come to at most {MOST_KEPT} bytes here.")
        if sum(wildcards((*rule.origins, *rule.headers)) for rule in found) > MOST_WILDCARDS:
            told = f"The rules of a bucket have at most {MOST_WILDCARDS} wildcards that are not at the end of a text."
            raise error("InvalidRequest", told)
        await self.intake.db.run(change, place, {cors.KEPT: kept}, call.now)
        return Reply(None, 200)

    @routes.delete(BUCKET, policy=UPDATE, anonymous=True, subresource="cors")
    async def remove(self, call: Call, bucket: str) -> Reply:
        """Stop pages of other sites from accessing a bucket."""
        place, _ = await self.door.own(call, bucket)
        await self.intake.db.run(change, place, {cors.KEPT: None}, call.now)
        return Reply(None, 204)

    @routes.route("OPTIONS", BUCKET, policy=None)
    async def ask_bucket(self, call: Call, bucket: str) -> Reply:
        """Tell a browser what a page may do with a bucket."""
        return await self._ask(call, bucket)

    @routes.route("OPTIONS", OBJECT, policy=None)
    async def ask_object(self, call: Call, bucket: str, key: str) -> Reply:
        """Tell a browser what a page may do with an object."""
        return await self._ask(call, bucket)

    async def _ask(self, call: Call, bucket: str) -> Reply:
        """Browsers do not sign preflight requests: the project is in the bucket's name, or in the signed URL."""
        origin, method = call.header("origin"), call.header("access-control-request-method")
        if not origin or not method:
            raise error("InvalidRequest", "Insufficient information. Origin request header needed.")
        sent = [each.strip().lower() for each in (call.header("access-control-request-headers") or "").split(",")]
        names = [each for each in sent if each]
        project, _, name = bucket.rpartition(":")
        project = project or await self._project(call)
        place = Place(project, name)
        is_named = bool(project) and is_text(bucket)
        container = await self.intake.db.read(containers.find, place) if is_named else None
        rule = None if container is None else cors.rule_for(container, origin, method, names)
        if rule is None:
            raise error("AccessDenied", "CORSResponse: This CORS request is not allowed.")
        return Reply(None, 200, rule.told_before(origin, names))

    async def _project(self, call: Call) -> str:
        """The project of the key that the URL names; empty if it names none."""
        access = unquote(call.query.get("X-Amz-Credential") or "").partition("/")[0]
        return await self.signers.project_of(access) if access else ""


def _shown(rule: Rule) -> Element:
    made = element("CORSRule", ID=rule.id or None)
    many = (
        ("AllowedOrigin", rule.origins),
        ("AllowedMethod", rule.methods),
        ("AllowedHeader", rule.headers),
        ("ExposeHeader", rule.exposed),
    )
    made.extend(element("x", **{name: value})[0] for name, values in many for value in values)
    made.extend(element("x", MaxAgeSeconds=rule.max_age))
    return made


def _rule(given: Element) -> Rule:
    """Raises MalformedXML, InvalidRequest."""
    origins, methods, sent, exposed = (
        tuple((each.text or "").strip() for each in given.findall(name))
        for name in ("AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader")
    )
    age = xml.text_of(given, "MaxAgeSeconds")
    if not origins or not methods or (age and not (age.isascii() and age.isdecimal() and len(age) < 10)):
        raise error("MalformedXML", "A rule has an origin and a method.")
    if unknown := [each for each in methods if each not in cors.METHODS]:
        raise error(
            "InvalidRequest", f"Found unsupported HTTP method in CORS config. Unsupported method is {unknown[0][:64]}"
        )
    if any(each.count("*") > 1 for each in (*origins, *sent)):
        raise error("InvalidRequest", "AllowedOrigin and AllowedHeader can not have more than one wildcard.")
    lower = tuple(each.lower() for each in sent)
    return Rule(origins, methods, lower, exposed, int(age) if age else None, xml.text_of(given, "ID"))
