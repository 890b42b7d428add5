"""Containers as web sites: an index for a folder, or a listing of it, and pages for errors.

For visitors, who have no token; with one, the header X-Web-Mode requests the same. A URL that is signed for a prefix
shows the listings of the folders below it, whose links are signed alike.
Reference: object-store.md, A4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from html import escape
from urllib.parse import quote, urlencode, urlsplit

from attrs import evolve, frozen

from cloudctl.errors import CloudError, NotFound
from cloudctl.object_store import acl, containers, listing
from cloudctl.object_store.api import listings
from cloudctl.object_store.api.door import SHOW, Door
from cloudctl.object_store.api.faults import HTML_TYPE
from cloudctl.object_store.api.headers import is_true, last_modified
from cloudctl.object_store.listing import Wanted
from cloudctl.object_store.metadata import CONTAINER
from cloudctl.object_store.names import Place
from cloudctl.object_store.tables import Container, Object
from cloudctl.rest.call import Call, Parts, Reply

Read = Callable[[Call, Place, str], Awaitable[Reply]]
"""Answers with an object: call, place, method. Raises CloudError."""

WEB = f"{CONTAINER}Web-"
SIGNATURE = ("temp_url_prefix", "temp_url_expires", "temp_url_sig", "temp_url_ip_range")
IN_ADDRESSES = "/:?#[]@!$&'()*+,;=%~"
STYLE = (
    '<style type="text/css">h1 {font-size: 1em; font-weight: bold;} th {text-align: left; padding: 0px 1em 0px 1em;} '
    "td {padding: 0px 1em 0px 1em;}</style>"
)


@frozen
class Site:
    """The settings of a container. `index`, `errors`: ends of names; empty: none."""

    container: Container
    index: str
    errors: str
    lists: bool
    css: str
    label: str
    folder_type: str  # of empty objects that stand for folders

    @classmethod
    def of(cls, container: Container) -> Site:
        said = container.headers
        return cls(
            container,
            said.get(f"{WEB}Index", "").strip(),
            said.get(f"{WEB}Error", "").strip(),
            is_true(said.get(f"{WEB}Listings")),
            said.get(f"{WEB}Listings-Css", "").strip(),
            said.get(f"{WEB}Listings-Label", "").strip(),
            said.get(f"{WEB}Directory-Type", "").strip() or "application/directory",
        )

    @property
    def has_folders(self) -> bool:
        return bool(self.index) or self.lists

    def marks_folder(self, reply: Reply) -> bool:
        """Whether this object is empty and stands for a folder."""
        kind = dict(reply.headers).get("Content-Type", "").partition(";")[0].strip()
        return isinstance(reply.body, Parts) and not reply.body.length and kind == self.folder_type


@frozen
class Websites:
    door: Door
    read: Read

    async def visited(self, call: Call, place: Place) -> Site | None:
        """The site that a visitor requests; None if it is not a visitor, or not a site."""
        mode = call.header("X-Web-Mode")
        if not is_true(mode) and "temp_url_sig" in call.query:
            is_folder = not place.name or place.name.endswith("/")
            return await self._listed_site(place) if _is_signed_for_prefix(call) and is_folder else None
        if not is_true(mode) and call.user_id:
            return None
        return await self._site(place)

    async def _listed_site(self, place: Place) -> Site | None:
        site = await self._site(place)
        return site if site is not None and site.lists else None

    async def _site(self, place: Place) -> Site | None:
        container = await self.door.db.read(containers.find, place)
        site = None if container is None else Site.of(container)
        return site if site is not None and (site.has_folders or site.errors) else None

    async def root(self, call: Call, place: Place, site: Site, method: str) -> Reply:
        """The root of a site that has folders."""
        try:
            # Anybody who may read an object may know that there is a site.
            await self.door.enter(call, place, acl_header=acl.READ, method=_signed_method(call, method))
            if not call.path.endswith("/"):
                return _moved(call, place)
            return await self._folder(call, place, site, method)
        except CloudError as error:
            return await self._failed(call, place, site, error, method)

    async def page(self, call: Call, place: Place, site: Site, method: str) -> Reply:
        """An object, or what to show if none has the name."""
        try:
            try:
                reply = await self.read(call, place, method)
                if not (site.has_folders and site.marks_folder(reply)):
                    return reply
                if not place.name.endswith("/"):
                    return _moved(call, place)
                return await self._folder(call, place, site, method)
            except NotFound:
                if not site.has_folders:
                    raise
                if place.name.endswith("/"):
                    return await self._folder(call, place, site, method)
                if not await self._is_folder(call, place, site):
                    raise
                return _moved(call, place)
        except CloudError as error:
            return await self._failed(call, place, site, error, method)

    async def _folder(self, call: Call, place: Place, site: Site, method: str) -> Reply:
        """`place`: the prefix of the names in it. Raises CloudError."""
        if site.index:
            try:
                return await self.read(call, evolve(place, name=place.name + site.index), method)
            except NotFound:
                if not site.lists:
                    raise
        rule, signed = "object_store:containers:show", _signed_method(call, method)
        await self.door.enter(call, place, acl_header=acl.READ, listing=True, method=signed, rule=rule)
        found = await self.door.db.scan(
            listing.of_objects, site.container, Wanted(prefix=place.name, delimiter="/"), call.now
        )
        if place.name and not found:
            raise NotFound("")
        return Reply(_listed(call, place, site, found), 200, (HTML_TYPE,))

    async def _is_folder(self, call: Call, place: Place, site: Site) -> bool:
        """Whether there is an index below, or any object, if visitors may list them. Raises CloudError."""
        below = evolve(place, name=f"{place.name}/")
        if not site.lists:
            below = evolve(below, name=below.name + site.index)
        await self.door.enter(call, below, acl_header=acl.READ, listing=site.lists, rule=SHOW)
        wanted = Wanted(limit=1, prefix=below.name)
        return bool(await self.door.db.scan(listing.of_objects, site.container, wanted, call.now))

    async def _failed(self, call: Call, place: Place, site: Site, error: CloudError, method: str) -> Reply:
        """The site's page for this error. Raises it if there is none."""
        if not site.errors:
            raise error
        try:
            reply = await self.read(_whole(call), evolve(place, name=f"{error.status}{site.errors}"), method)
        except CloudError:
            raise error from None
        return evolve(reply, status=error.status)


def _whole(call: Call) -> Call:
    """The same call, without the conditions and ranges that are about something else."""
    made = copy(call)
    made.headers = call.headers.copy()
    for name in ("Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"):
        made.headers.removeHeader(name)
    return made


def _path(place: Place) -> str:
    return f"/v1/{place.account}/{place.container}/{place.name}"


def _moved(call: Call, place: Place) -> Reply:
    """A redirect to the same path with a slash."""
    path = quote(_path(place).rstrip("/"), safe="/")
    return Reply(None, 301, (("Location", f"{call.root_url}{path}/{_signature(call)}"), HTML_TYPE))


def _is_signed_for_prefix(call: Call) -> bool:
    return call.query.get("temp_url_prefix") is not None


def _signed_method(call: Call, method: str) -> str:
    """The method that the URL may be signed for; empty: none. One object's signature does not show a listing."""
    return method if _is_signed_for_prefix(call) else ""


def _signature(call: Call) -> str:
    """The query that signs everything else below the same prefix; empty if the URL is not signed for one."""
    if not _is_signed_for_prefix(call):
        return ""
    given = {name: value for name in SIGNATURE if (value := call.query.get(name)) is not None}
    return f"?{urlencode(given, safe='/', quote_via=quote)}{'&inline' if 'inline' in call.query else ''}"


def _listed(call: Call, place: Place, site: Site, found: Sequence[listing.Entry]) -> bytes:
    title = f"Listing of {site.label + '/' + place.name if site.label else _path(place)}"
    signature = _signature(call)
    # No signature reaches above its prefix.
    has_parent = len(place.name) > len(call.query.get("temp_url_prefix") or "")
    rows = [_row(f"../{signature}", "../")] if has_parent else []
    for each in found:
        name = (each if isinstance(each, str) else each.name)[len(place.name) :]
        if name:
            rows.append(_row(f"./{quote(name)}{signature}", name, each))
    head = f"<title>{_text(title)}</title>{_style(place, site)}"
    table = f'<table id="listing"><tr id="heading"><th>Name</th><th>Size</th><th>Date</th></tr>{"".join(rows)}</table>'
    text = f'<!DOCTYPE html><html><head>{head}</head><body><h1 id="title">{_text(title)}</h1>{table}</body></html>'
    return text.encode()


def _style(place: Place, site: Site) -> str:
    if not site.css:
        return STYLE
    is_below = not site.css.startswith("/") and not urlsplit(site.css).scheme
    href = "../" * place.name.count("/") + site.css if is_below else site.css
    # Escaped as in an address, whether or not it was set like that.
    return f'<link rel="stylesheet" type="text/css" href="{escape(quote(href, safe=IN_ADDRESSES))}" />'


def _row(href: str, name: str, entry: listing.Entry = "") -> str:
    size = date = ""
    if isinstance(entry, Object):
        size = str(entry.size if entry.large_size is None else entry.large_size)
        date = last_modified(entry.updated_at)
    cells = (f'<a href="{escape(href)}">{_text(name)}</a>', size, date)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _text(text: str) -> str:
    return escape(listings.shown(text))
