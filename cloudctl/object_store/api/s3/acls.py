"""Canned access lists of S3, expressed as access lists of containers. Reference: object-store.md, B2.

An object is as open as its bucket. Anything that a container's list cannot express is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from cloudctl.object_store import acl, exposure
from cloudctl.object_store.api.s3 import listings, xml
from cloudctl.object_store.api.s3.faults import error
from cloudctl.object_store.api.s3.xml import element
from cloudctl.object_store.tables import Container

EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"
AUTHENTICATED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
# Canned list → who may read, in the form of a container's list.
READERS = {"private": "", "public-read": ".r:*,.rlistings", "authenticated-read": "*:*"}
# S3 has these, too, but they are not supported here.
ELSEWHERE = (
    "public-read-write",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
    "log-delivery-write",
)
GROUPS = {"public-read": EVERYBODY, "authenticated-read": AUTHENTICATED}


def of_canned(name: str) -> dict[str, str | None]:
    """The headers of a container. Raises NotImplemented, InvalidArgument."""
    if name not in (*READERS, *ELSEWHERE):
        raise error("InvalidArgument", more={"ArgumentName": "x-amz-acl", "ArgumentValue": name})
    if name not in READERS:
        raise error("NotImplemented", f"The canned ACL {name[:64]} is not implemented; {', '.join(READERS)} are.")
    return {acl.READ: READERS[name] or None, acl.WRITE: None}


def canned(container: Container) -> str:
    """The canned list that is closest to the container's list."""
    return _canned(container.headers)


def _canned(headers: Mapping[str, str | None]) -> str:
    readers = (headers.get(acl.READ) or "").split(",")
    if ".r:*" in readers:
        return "public-read"
    return "authenticated-read" if "*:*" in readers else "private"


def ownership(name: str, headers: Mapping[str, str | None]) -> str:
    """Check one for such a bucket. Raises NotImplemented, MalformedXML, InvalidBucketAclWithObjectOwnership."""
    if name == "ObjectWriter":
        raise error("NotImplemented", "What a bucket holds is its owner's: ObjectWriter is not implemented.")
    if name not in exposure.OWNERSHIPS:
        raise error("MalformedXML", f"ObjectOwnership is one of {', '.join(exposure.OWNERSHIPS)}.")
    if name == exposure.ENFORCED and _canned(headers) != "private":
        raise error(
            "InvalidBucketAclWithObjectOwnership",
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
        )
    return name


def check(container: Container, name: str) -> None:
    """Check that this canned list may be set, on the bucket or an object. Raises AccessControlListNotSupported,
    AccessDenied.
    """
    if exposure.has_no_lists(container) and name != "bucket-owner-full-control":
        raise error("AccessControlListNotSupported")
    block = exposure.of(container)
    if block is not None and block.set_lists and name.startswith(("public-", "authenticated-")):
        raise error("AccessDenied", "Public ACLs are blocked by the BlockPublicAcls setting of the bucket.")


def shown(project_id: str, container: Container) -> Element:
    grants = [_grant(element("Grantee", ID=project_id, DisplayName=project_id), "CanonicalUser", "FULL_CONTROL")]
    if group := GROUPS.get(canned(container)):
        grants.append(_grant(element("Grantee", URI=group), "Group", "READ"))
    return element("AccessControlPolicy", listings.owner(project_id), xml.listed("AccessControlList", grants))


def _grant(grantee: Element, kind: str, permission: str) -> Element:
    # Here, as in S3: s3cmd cannot parse a document whose root has another attribute before its namespace.
    grantee.set("xmlns:xsi", xml.SCHEMA)
    grantee.set("xsi:type", kind)
    return element("Grant", grantee, Permission=permission)


def canned_of(root: Element) -> str:
    """The canned list that is equivalent to a document. Raises NotImplemented."""
    found = {
        (grant.findtext("Grantee/URI") or "", grant.findtext("Permission") or "")
        for grant in root.findall("AccessControlList/Grant")
    } - {("", "FULL_CONTROL")}
    for name, group in GROUPS.items():
        if found == {(group, "READ")}:
            return name
    if found:
        raise error("NotImplemented", "These grants are not implemented; a group may be given READ.")
    return "private"
