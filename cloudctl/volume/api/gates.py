"""Microversions at which this API behaves differently. Mere changes of appearance have their span where declared.

Reference: volume.md, section 1.2.
"""

from __future__ import annotations

from cloudctl.rest.versions import since

BOOTABLE_WORDS = since(3, 2, "the filter `bootable` takes nothing but truth values")
GROUPS = since(3, 13, "a volume may ask for a group")
TAGGED = since(3, 15, "metadata of volumes has an ETag, and a change heeds `If-Match`")
FORCE = since(3, 23, "`DELETE /volumes/{volume_id}` heeds `force`")
STRICT = since(3, 31, "an unknown filter is refused")
LIKE = since(3, 34, "`name~=part` filters by a part of the value")
EXTEND_IN_USE = since(3, 42, "a volume can grow while it is in use")
BACKUP_METADATA = since(3, 43, "a backup has metadata to be changed")
COUNTED = since(3, 45, "`with_count` tells how many records a list has in all")
FROM_BACKUP = since(3, 47, "a volume can be made from a backup")
SPECS_FILTER = since(3, 52, "types are listed by `extra_specs`")
NO_EMPTY_CHANGE = since(3, 53, "a change of a volume that changes nothing is refused")
TIMES = since(3, 60, "filters of times take comparisons")
FREEZE_IN_USE = since(3, 66, "a volume in use is frozen without `force`, and `force` is not false")
