"""Subresources, requested by a name in the query: `?acl`. Here are those that no bucket and no object has.

Any that these tables or the Operations name is refused with NotImplemented unless an Operation handles it.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloudctl.rest.route import Routes

# What a bucket may have elsewhere → the code for its absence.
UNSET = {
    "website": "NoSuchWebsiteConfiguration",
    "encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "object-lock": "ObjectLockConfigurationNotFoundError",
    "replication": "ReplicationConfigurationNotFoundError",
}
# The messages for it.
ABSENT = {
    "website": "The specified bucket does not have a website configuration",
    "encryption": "The server side encryption configuration was not found",
    "object-lock": "Object Lock configuration does not exist for this bucket",
    "replication": "The replication configuration was not found",
}
# The same, if an empty document reports the absence.
EMPTY = {
    "accelerate": "AccelerateConfiguration",
    "logging": "BucketLoggingStatus",
    "notification": "NotificationConfiguration",
    "requestPayment": "RequestPaymentConfiguration",
}
OF_BUCKETS = (
    "abac",
    "analytics",
    "intelligent-tiering",
    "inventory",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "session",
)
OF_OBJECTS = ("legal-hold", "renameObject", "restore", "retention", "select", "torrent")


def of(offered: Iterable[Routes]) -> frozenset[str]:
    """All subresources, offered or not."""
    named = (operation.subresource for routes in offered for operation in routes.operations)
    return frozenset((*OF_BUCKETS, *OF_OBJECTS, *UNSET, *EMPTY, *filter(None, named)))
