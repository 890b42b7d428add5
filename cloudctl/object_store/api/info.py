"""What this object store can do. Reference: object-store.md, A9."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.errors import PreconditionFailed
from cloudctl.object_store import large, listing, metadata, names, parts
from cloudctl.object_store.api import bulk, temp_url
from cloudctl.object_store.api.containers import POLICY
from cloudctl.object_store.options import ObjectStoreOptions
from cloudctl.object_store.rates import Rates
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

# The release of Swift whose behaviour this is.
VERSION = "2.36.0"


def capabilities(options: ObjectStoreOptions) -> dict[str, Any]:
    return {
        "swift": {
            "version": VERSION,
            "max_file_size": options.max_object_size,
            "max_meta_name_length": metadata.MOST_OF_NAME,
            "max_meta_value_length": metadata.MOST_OF_VALUE,
            "max_meta_count": metadata.MOST_COUNT,
            "max_meta_overall_size": metadata.MOST_OVERALL,
            "max_header_size": 8192,
            "max_object_name_length": names.MOST_OF_OBJECT,
            "max_container_name_length": names.MOST_OF_CONTAINER,
            "max_account_name_length": 256,
            "container_listing_limit": listing.MOST,
            "account_listing_limit": listing.MOST,
            "extra_header_count": 0,
            "allow_account_management": False,
            "account_autocreate": True,
            "strict_cors_mode": True,
            "policies": [{"name": POLICY, "default": True, "aliases": POLICY}],
        },
        "slo": {
            "max_manifest_segments": large.MOST_SEGMENTS,
            "max_manifest_size": large.MOST_BYTES,
            "min_segment_size": 1,
        },
        "dlo": {},
        "symlink": {"symloop_max": 2, "static_links": True},
        "tempurl": {
            "methods": list(temp_url.METHODS),
            "allowed_digests": list(temp_url.DIGESTS),
            "incoming_allow_headers": [],
            "incoming_remove_headers": ["x-timestamp"],
            "outgoing_allow_headers": ["x-object-meta-public-*"],
            "outgoing_remove_headers": ["x-object-meta-*"],
        },
        "bulk_delete": {"max_deletes_per_request": bulk.MOST_DELETES, "max_failed_deletes": bulk.MOST_FAILED},
        "bulk_upload": {
            "max_containers_per_extraction": bulk.MOST_CONTAINERS,
            "max_failed_extractions": bulk.MOST_FAILED,
        },
        "staticweb": {},
        "formpost": {"allowed_digests": list(temp_url.DIGESTS)},
        "versioned_writes": {"allowed_flags": ["x-versions-location", "x-history-location"]},
        "object_versioning": {},
        "s3api": {
            "max_bucket_listing": 1000,
            "max_parts_listing": 1000,
            "max_upload_part_num": parts.MOST_PARTS,
            "max_multi_delete_objects": 1000,
            "min_segment_size": parts.LEAST_SIZE,
            "s3_acl": False,
            "allow_multipart_uploads": True,
        },
        "container_quotas": {},
        "account_quotas": {},
        "account_acls": {},
    }


@frozen
class Info:
    routes = Routes("Object store: information")

    options: ObjectStoreOptions
    rates: Rates

    @routes.get("/info", policy=None)
    async def show(self, call: Call) -> dict[str, Any]:
        """Show what this object store can do."""
        return capabilities(self.options) | self.rates.capabilities()

    @routes.route("OPTIONS", "/info", policy=None)
    async def methods(self, call: Call) -> Reply:
        """Show which methods are supported."""
        return Reply(None, 200, (("Allow", "HEAD, GET, OPTIONS"),))

    @routes.get("/healthcheck", policy=None)
    async def health(self, call: Call) -> Reply:
        """Report that the service is up."""
        return Reply(b"OK", headers=(("Content-Type", "text/plain; charset=UTF-8"),))

    @routes.get("/v1", policy=None, status=412)
    async def bare(self, call: Call) -> Reply:
        """Refuse an address that names no account."""
        raise PreconditionFailed("Bad URL")
