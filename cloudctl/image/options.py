"""`[image]` of the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import PurePath
from typing import Any

from attrs import field, frozen

from cloudctl.image.store import DEFAULT
from cloudctl.options import not_negative, positive

MAX_SIZE = 2**40
UPLOAD_BUDGET = 2**37


def _networks(_instance: object, _attribute: Any, value: tuple[str, ...]) -> None:
    for text in value:
        ip_network(text)


def _ports(_instance: object, _attribute: Any, value: tuple[int, ...]) -> None:
    for port in value:
        if not 1 <= port <= 65535:
            raise ValueError(f"{port} is not a port: 1 to 65535")


STORE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _store_ids(_instance: object, _attribute: Any, value: Mapping[str, Any]) -> None:
    for store_id, each in value.items():
        if STORE_ID.fullmatch(store_id) is None:
            raise ValueError(f"{store_id!r} is not a store name: only letters, digits and _.- are allowed")
        if store_id == "web":
            raise ValueError("the store 'web' is there by web_store")
        if bool(each.directory) == bool(each.driver):
            raise ValueError(f"{store_id}: names either a directory or a driver")
        if each.driver and store_id != DEFAULT:
            raise ValueError(f"{store_id}: only the store {DEFAULT} can be that of a driver")


def _named(_instance: object, _attribute: Any, value: str) -> None:
    if not PurePath(value).name:
        raise ValueError("must name a directory")


@frozen
class StoreOptions:
    """`[image.stores.NAME]`: a directory, for example where another disk or a network file system is mounted.

    The store "default" may name a driver of objects instead, by its table [driver.objects.DRIVER]: "rados" for a Ceph.
    """

    directory: str = ""  # relative to the state directory
    driver: str = ""
    description: str = ""
    # Of several stores that have an image's data, the heaviest is named, and read, first.
    weight: int = 0


@frozen
class ImageOptions:
    """What an operator may choose about images."""

    # Bytes that the data of one image may have.
    max_size: int = field(default=MAX_SIZE, validator=positive)
    # Bytes of all uploads that are under way at once, and so of a single one, too; 0: no limit.
    upload_budget: int = field(default=UPLOAD_BUDGET, validator=not_negative)
    # Of those, the bytes of one project; 0: no limit.
    upload_share: int = field(default=UPLOAD_BUDGET // 2, validator=not_negative)
    # Where an upload is stored while it arrives. Empty: where images are, so that keeping it takes a link, not a copy.
    spool_directory: str = ""
    # Where data is kept besides the store "default", which is in the state directory unless it is one of these. Uploads
    # and staged data arrive in "default".
    stores: dict[str, StoreOptions] = field(factory=dict, validator=_store_ids)
    # Whether there is a store "web", of images whose data is at an address that imports may fetch from.
    # Its data is in the data directory.
    web_store: bool = False
    # Where the copies of images that administrators ask for (`PUT /v2/cache/{image}`) are kept: a disk that is faster
    # than the stores', relative to the data directory. And how many bytes of them; 0: there is no cache.
    cache_directory: str = field(default="image-cache", validator=_named)
    cache_size: int = field(default=10 * 2**30, validator=not_negative)
    # Whether images show where their data is: anybody who sees an image learns paths of the host. Patches may then also
    # name addresses of the data, if there is a store "web": it is fetched and checked once somebody needs it.
    show_multiple_locations: bool = False
    # Refuse data that is not in the image's disk format.
    require_format_match: bool = True
    # Per image.
    max_properties: int = field(default=128, validator=not_negative)
    max_tags: int = field(default=128, validator=not_negative)
    max_members: int = field(default=128, validator=not_negative)
    # Threads that hash and copy data.
    threads: int = field(default=2, validator=positive)
    # Where imports may fetch from: ports, and networks besides the public addresses, such as 10.0.0.0/8.
    import_ports: tuple[int, ...] = field(default=(80, 443), validator=_ports)
    import_networks: tuple[str, ...] = field(default=(), validator=_networks)
    # Seconds after which an import is given up, and seconds without a byte after which a download is.
    import_deadline: float = field(default=6 * 3600.0, validator=positive)
    import_silence: float = field(default=60.0, validator=positive)
    # Seconds for which the record of an import that ended is kept.
    import_kept: float = field(default=48 * 3600.0, validator=positive)
