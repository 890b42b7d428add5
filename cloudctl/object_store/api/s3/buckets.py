"""Buckets, which are the containers of the caller's project. Reference: object-store.md, B2."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from xml.etree.ElementTree import Element

from attrs import frozen

from cloudctl.db import Connection
from cloudctl.errors import CloudError
from cloudctl.object_store import containers, exposure, listing, numbered, removal, version_listing
from cloudctl.object_store.api.s3 import acls, headers, listings, xml
from cloudctl.object_store.api.s3.documents import Documents
from cloudctl.object_store.api.s3.door import S3Door, no_bucket
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.listings import Asked
from cloudctl.object_store.api.s3.subresources import ABSENT, EMPTY, UNSET
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.listing import Wanted
from cloudctl.object_store.names import Place
from cloudctl.object_store.tables import Container
from cloudctl.object_store.tagging import tags
from cloudctl.object_store.version_listing import Numbered, WantedVersions
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

BUCKET = "/<bucket>"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
ADDRESS = re.compile(r"\d+(\.\d+){3}")
XML_TYPE = ("Content-Type", "application/xml")

SHOW, UPDATE = "object_store:containers:show", "object_store:containers:update"


def answered(root: Element) -> Reply:
    return Reply(xml.answer(root), headers=(XML_TYPE,))


def is_name(name: str) -> bool:
    """Whether a bucket may have this name."""
    return NAME.fullmatch(name) is not None and ".." not in name and ADDRESS.fullmatch(name) is None


def _create(conn: Connection, place: Place, said: dict[str, str | None], now: datetime) -> None:
    # Another request may create it at once: what that has set must stay.
    if containers.find(conn, place) is not None or not containers.put(conn, place, said, now):
        told = "Your previous request to create the named bucket succeeded and you already own it."
        raise error("BucketAlreadyOwnedByYou", told)


def change(
    conn: Connection,
    place: Place,
    changes: dict[str, str | None],
    now: datetime,
    check: Callable[[Container], object] | None = None,
) -> None:
    """`check(bucket)` raises why it may not be changed like this. Raises NoSuchBucket."""
    found = containers.find(conn, place, lock=True)
    if found is None:
        raise no_bucket(place.container)
    if check is not None:
        check(found)
    containers.change(conn, found, changes, now)


@frozen
class Buckets:
    routes = Routes("S3: buckets")

    door: S3Door
    documents: Documents
    intake: Intake
    region: str

    @routes.head("", policy="object_store:accounts:show", anonymous=True)
    async def show_buckets(self, call: Call) -> Reply:
        """Refuse the method: buckets can only be listed."""
        await self.door.door.enter(call, self.door.place(call, ""))
        raise error("MethodNotAllowed")

    @routes.get(
        "", policy="object_store:accounts:show", anonymous=True, query=("prefix", "max-buckets", "continuation-token")
    )
    async def list_buckets(self, call: Call) -> Reply:
        """List the buckets of the caller's project."""
        place = self.door.place(call, "")
        await self.door.door.enter(call, place)
        most = listings.number(call, "max-buckets", listing.MOST, listing.MOST)
        token = call.query.get("continuation-token")
        wanted = Wanted(most + 1, listings.Token.read(token) if token else "", prefix=call.query.get("prefix") or "")
        found = await self.intake.db.scan(listing.of_containers, place.project_id, wanted)
        named = [each[0] for each in found if not isinstance(each, str)]
        shown = (
            element("Bucket", Name=each.name, CreationDate=listings.moment(each.created_at)) for each in named[:most]
        )
        root = element("ListAllMyBucketsResult", listings.owner(place.project_id), xml.listed("Buckets", shown))
        if len(named) > most > 0:
            root.append(element("ContinuationToken"))
            root[-1].text = listings.Token.of(named[most - 1].name)
        return answered(root)

    @routes.put(BUCKET, policy="object_store:containers:create", anonymous=True, raw=True)
    async def create(self, call: Call, bucket: str) -> Reply:
        """Create a bucket."""
        place = self.door.place(call, bucket)
        await self.door.door.enter(call, place)
        headers.refuse(call.header)
        if not is_name(place.container):
            raise error("InvalidBucketName", "The specified bucket is not valid.")
        root = await self.documents.read(call, "CreateBucketConfiguration", optional=True)
        where = "" if root is None else xml.text_of(root, "LocationConstraint")
        if where not in ("", self.region):
            raise error("InvalidLocationConstraint", "The specified location-constraint is not valid")
        said = acls.of_canned(call.header("x-amz-acl") or "private")
        if (owned := call.header("x-amz-object-ownership")) is not None:
            said |= {exposure.KEPT_OWNERSHIP: acls.ownership(owned, said)}
        await self.intake.db.run(_create, place, said, call.now)
        return Reply(None, 200, (("Location", f"/{place.container}"),))

    @routes.head(BUCKET, policy=SHOW, anonymous=True)
    async def show(self, call: Call, bucket: str) -> Reply:
        """Show whether a bucket exists."""
        await self.door.read(call, bucket)
        return Reply(None, 200, (("x-amz-bucket-region", self.region), XML_TYPE))

    @routes.delete(BUCKET, policy="object_store:containers:delete", anonymous=True)
    async def delete(self, call: Call, bucket: str) -> Reply:
        """Delete an empty bucket, and abort uploads to it."""
        place, _ = await self.door.own(call, bucket)
        try:
            await self.intake.change(removal.remove, place, call.now)
        except CloudError as refused:
            if refused.status == 409:
                raise error("BucketNotEmpty", "The bucket you tried to delete is not empty") from None
            raise
        return Reply(None, 204)

    # -- listings

    @routes.get(BUCKET, policy=SHOW, anonymous=True, query=listings.V1)
    async def list(self, call: Call, bucket: str) -> Reply:
        """List the objects of a bucket."""
        asked, marker = Asked.of(call), call.query.get("marker") or ""
        container, found = await self._page(call, bucket, asked, marker)
        return answered(listings.first_version(call, asked, container, found, marker))

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="list-type", query=listings.V2)
    async def list_v2(self, call: Call, bucket: str) -> Reply:
        """List the objects of a bucket, page by page with tokens."""
        asked, token = Asked.of(call), call.query.get("continuation-token")
        after = call.query.get("start-after") or "" if token is None else listings.Token.read(token)
        container, found = await self._page(call, bucket, asked, after)
        if (kind := call.query.get("list-type") or "") != "2":
            told = {"ArgumentName": "list-type", "ArgumentValue": kind}
            raise error("InvalidArgument", "Invalid List Type specified in Request", told)
        return answered(listings.second_version(call, asked, container, found))

    async def _page(
        self, call: Call, bucket: str, asked: Asked, marker: str
    ) -> tuple[Container, Sequence[listing.Entry]]:
        _, container = await self.door.read(call, bucket)
        return container, await self.intake.db.scan(listing.of_objects, container, asked.wanted(marker), call.now)

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="versions", query=listings.VERSIONS)
    async def list_versions(self, call: Call, bucket: str) -> Reply:
        """List the versions of the objects of a bucket."""
        asked, query = Asked.of(call), call.query
        _, container = await self.door.read(call, bucket, action="s3:ListBucketVersions")
        key, version = query.get("key-marker") or "", query.get("version-id-marker")
        if version and "key-marker" not in query:
            raise error("InvalidArgument", "A version-id marker cannot be specified without a key marker.")
        if version and not (key and numbered.is_id(version)):
            raise error("InvalidArgument", "Invalid version id specified")
        wanted = WantedVersions(asked.most + 1, key, version, asked.prefix, asked.delimiter)
        found = await self.intake.db.scan(version_listing.of_versions, container, wanted, call.now)
        return answered(self._versions(asked, container, found, key, version))

    def _versions(
        self, asked: Asked, container: Container, found: Sequence[Numbered | str], key: str, version: str | None
    ) -> Element:
        root = asked.said(container)
        root.tag = "ListVersionsResult"
        more, shown = len(found) > asked.most > 0, found[: asked.most]
        said: dict[str, xml.Value] = {"KeyMarker": asked.text(key), "VersionIdMarker": version or ""}
        if more and isinstance(last := shown[-1], str):
            said["NextKeyMarker"] = asked.text(last)
        elif more and not isinstance(last, str):
            said |= {"NextKeyMarker": asked.text(last.row.name), "NextVersionIdMarker": numbered.shown(last.row)}
        root.extend(element("x", IsTruncated=more, **said))
        root.extend(_version(asked, each) for each in shown if not isinstance(each, str))
        root.extend(asked.folders(shown))
        return root

    # -- the properties of a bucket

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="location")
    async def location(self, call: Call, bucket: str) -> Reply:
        """Show the region of a bucket."""
        await self.door.own(call, bucket)
        root = Element("LocationConstraint")
        root.text = self.region
        return answered(root)

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="versioning")
    async def versioning(self, call: Call, bucket: str) -> Reply:
        """Show whether versions are kept."""
        _, container = await self.door.own(call, bucket)
        status = None
        if numbered.is_known(container):
            status = "Enabled" if numbered.is_on(container) else "Suspended"
        return answered(element("VersioningConfiguration", Status=status))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="versioning", raw=True)
    async def set_versioning(self, call: Call, bucket: str) -> Reply:
        """Enable or suspend versioning."""
        place, _ = await self.door.own(call, bucket)
        root = await self.documents.read(call, "VersioningConfiguration")
        status = xml.text_of(root, "Status")
        if status not in ("Enabled", "Suspended"):
            raise error("MalformedXML")
        if xml.text_of(root, "MfaDelete") == "Enabled":
            raise error("NotImplemented", "MFA Delete is not implemented.")
        said: dict[str, str | None] = {numbered.HEADER: numbered.ON if status == "Enabled" else numbered.OFF}
        await self.intake.db.run(change, place, said, call.now)
        return Reply(None, 200)

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="acl")
    async def acl(self, call: Call, bucket: str) -> Reply:
        """Show who may do what with a bucket."""
        place, container = await self.door.own(call, bucket)
        return answered(acls.shown(place.project_id, container))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="acl", raw=True)
    async def set_acl(self, call: Call, bucket: str) -> Reply:
        """Set who may do what with a bucket."""
        place, _ = await self.door.own(call, bucket)
        headers.refuse(call.header)
        canned = call.header("x-amz-acl")
        if canned is None:
            canned = acls.canned_of(await self.documents.read(call, "AccessControlPolicy"))
        check = partial(acls.check, name=canned)
        await self.intake.db.run(change, place, acls.of_canned(canned), call.now, check)
        return Reply(None, 200)

    @routes.get(BUCKET, policy=SHOW, anonymous=True, subresource="tagging")
    async def tagging(self, call: Call, bucket: str) -> Reply:
        """Show the tags of a bucket."""
        _, container = await self.door.own(call, bucket)
        if not tags(container.headers):
            raise error("NoSuchTagSet", "The TagSet does not exist")
        return answered(tag_set(tags(container.headers)))

    @routes.put(BUCKET, policy=UPDATE, anonymous=True, subresource="tagging", raw=True, status=204)
    async def set_tagging(self, call: Call, bucket: str) -> Reply:
        """Set the tags of a bucket."""
        place, _ = await self.door.own(call, bucket)
        kept = headers.kept_tags(tags_of(await self.documents.read(call, "Tagging")), 50)
        await self.intake.db.run(change, place, {headers.TAGGING: kept}, call.now)
        return Reply(None, 204)

    @routes.delete(BUCKET, policy=UPDATE, anonymous=True, subresource="tagging")
    async def remove_tagging(self, call: Call, bucket: str) -> Reply:
        """Remove the tags of a bucket."""
        place, _ = await self.door.own(call, bucket)
        await self.intake.db.run(change, place, {headers.TAGGING: None}, call.now)
        return Reply(None, 204)

    # -- properties that no bucket has here

    async def unset(self, call: Call, bucket: str) -> Reply:
        """Report that a bucket has none of these."""
        await self.door.own(call, bucket)
        name = next(each for each in UNSET if each in call.query)
        raise error(UNSET[name], ABSENT[name])

    async def empty(self, call: Call, bucket: str) -> Reply:
        """Report that a bucket has none of these, in an empty document."""
        await self.door.own(call, bucket)
        name = next(each for each in EMPTY if each in call.query)
        return answered(element(EMPTY[name], Payer="BucketOwner" if name == "requestPayment" else None))

    for _name in (*UNSET, *EMPTY):
        routes.get(BUCKET, policy=SHOW, anonymous=True, subresource=_name)(unset if _name in UNSET else empty)


def _version(asked: Asked, found: Numbered) -> Element:
    row = found.row
    is_marker = found.is_marker
    return element(
        "DeleteMarker" if is_marker else "Version",
        listings.owner(row.project_id),
        Key=asked.text(row.name),
        VersionId=numbered.shown(row),
        IsLatest=found.is_latest,
        LastModified=listings.moment(row.updated_at),
        ETag=None if is_marker else listings.tag_of(row),
        Size=None if is_marker else listings.size_of(row),
        StorageClass=None if is_marker else "STANDARD",
    )


def tag_set(pairs: Sequence[tuple[str, str]]) -> Element:
    tags = (element("Tag", Key=name, Value=value) for name, value in pairs)
    return element("Tagging", xml.listed("TagSet", tags))


def tags_of(root: Element) -> list[tuple[str, str]]:
    return [(each.findtext("Key") or "", each.findtext("Value") or "") for each in root.findall("TagSet/Tag")]
