"""What is asked for by a name in the query: `?acl`. Here are those that no bucket and no object has.

All that these tables and the Operations name is refused with NotImplemented where an Operation does not say more.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloudctl.rest.route import Routes

# What a bucket may have elsewhere, and what its absence is called.
UNSET = {
    "website": "NoSuchWebsiteConfiguration",
    "encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "object-lock": "ObjectLockConfigurationNotFoundError",
    "replication": "ReplicationConfigurationNotFoundError",
}
# The words for it.
ABSENT = {
    "website": "The specified bucket does not have a website configuration",
    "encryption": "The server side encryption configuration was not found",
    "object-lock": "Object Lock configuration does not exist for this bucket",
    "replication": "The replication configuration was not found",
}
# The same, where a document says that there is none.
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
    """All that there are, offered or not."""
    named = (operation.subresource for routes in offered for operation in routes.operations)
    return frozenset((*OF_BUCKETS, *OF_OBJECTS, *UNSET, *EMPTY, *filter(None, named)))
