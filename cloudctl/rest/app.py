"""ApiApp: the routes of one API, built from resource classes, and the twisted.web resource that serves them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import dropwhile
from typing import Any

from attrs import evolve
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET

from cloudctl import errors
from cloudctl.rest.answering import Answering
from cloudctl.rest.pipeline import Pipeline, Where
from cloudctl.rest.route import Bound, Operation, meant
from cloudctl.rest.router import Endpoint, Endpoints, Router
from cloudctl.rest.uploads import Admitted

PROJECT_SEGMENT = re.compile(rb"[0-9a-f-]{32,36}")
SUFFIX = ".json"


class ApiApp:
    """The routes of one API.

    `mounts`: (prefix, resource object) pairs; each resource's class has `routes`.
    `project_in_path`: whether `/v3/{project_id}/volumes` is taken for `/v3/volumes`.
    `exact`: whether `/v2/images/` is not found. Otherwise, and at roots such as `/v2/`, a trailing slash is dropped.
    `plain`: (old, present) first segments of paths: `/v2/servers` is `/v2.1/servers` without microversions.
    `suffixed`: whether `/v2.0/networks/ID.json` is taken for `/v2.0/networks/ID`. Names, such as tags, keep theirs.
    `heads`: whether HEAD is answered as GET where no Operation has it. At what everybody may read, it always is.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        mounts: Sequence[tuple[str, Any]],
        *,
        project_in_path: bool = False,
        exact: bool = False,
        plain: tuple[bytes, bytes] | None = None,
        suffixed: bool = False,
        heads: bool = True,
    ) -> None:
        """Raises LookupError for an Operation whose rule does not exist."""
        self.pipeline = pipeline
        self.plain = plain
        self.project_in_path = project_in_path
        self.exact = exact
        self.suffixed = suffixed
        self.heads = heads
        self.operations: list[tuple[str, Operation]] = []
        self._bound: dict[Endpoint, list[Bound]] = defaultdict(list)
        for prefix, resource in mounts:
            for operation in resource.routes.operations:
                path = (prefix + operation.path).rstrip("/") or "/"
                self.operations.append((path, operation))
                admits = getattr(resource, operation.admits) if operation.admits else None
                bound = Bound(operation, getattr(resource, operation.handler), admits)
                # Whether a token is needed is decided before the method is looked at.
                self._bound[path, operation.policy is None].append(bound)
        missing = {each.policy for _, each in self.operations} - {None, *pipeline.http.policy.rules}
        if missing:
            names = ", ".join(sorted(map(str, missing)))
            raise LookupError(f"no policy.toml has the rule {names}: there, a name begins without its service's")
        self.endpoints: Endpoints = tuple((key, methods(bound)) for key, bound in self._bound.items())
        self.router = router(self.endpoints)
        # Whether a body may be an upload.
        self.takes_uploads = any(bound.admits is not None for each in self._bound.values() for bound in each)

    @cached_property
    def klein(self) -> IResource:
        """Serves what the router does not find. Made when it is first needed: most processes never need it."""
        return tree(self.endpoints)

    def find(self, request: Any) -> tuple[Endpoint, dict[str, str]] | None:
        """The endpoint of a request that has its `where`, and the variables of its path."""
        method, path = request.method, request.where.path
        found = self.router.find(method, path)
        if found is None and self.pipeline.verbatim and path.endswith("/"):
            # The slash is not the end of a name here, so it does not count.
            found = self.router.find(method, path[:-1])
        if self.suffixed and path.endswith(SUFFIX) and (found is None or ends_an_id(found[1])):
            found = self.router.find(method, path.removesuffix(SUFFIX)) or found
        return found

    async def respond(self, request: Any, endpoint: Endpoint, variables: Mapping[str, str]) -> bytes | None:
        """Answer what was routed to `endpoint`."""
        bound = self._bound[endpoint]
        if request.method == b"HEAD" and not self._heads(endpoint):
            return await self._raise(request, not_allowed({each.operation.method for each in bound}))
        return await self.pipeline.answer(request, bound, variables)

    def _heads(self, endpoint: Endpoint) -> bool:
        """Whether HEAD is answered at an endpoint that has GET or HEAD: the router leads it to both."""
        _, public = endpoint
        return self.heads or public or any(each.operation.method == "HEAD" for each in self._bound[endpoint])

    def admit(self, request: Any) -> Coroutine[Any, Any, Admitted] | None:
        """Decide whether the upload that these headers begin may come: see `Pipeline.admit`. None: they begin none."""
        found = self.find(request)
        if found is None:
            return None
        endpoint, variables = found
        names = [each.partition(b"=")[0].decode("latin-1") for each in request.uri.partition(b"?")[2].split(b"&")]
        some = [bound for bound in self._bound[endpoint] if bound.operation.method.encode() == request.method]
        if (bound := next(iter(meant(some, names)), None)) is None or bound.admits is None:
            return None
        return self.pipeline.admit(request, bound, variables)

    async def refuse(self, request: Any, failure: Any) -> bytes | None:
        """Answer what could not be routed."""
        from werkzeug.exceptions import MethodNotAllowed

        error: errors.CloudError
        if isinstance(failure.value, MethodNotAllowed):
            offered, found = {*(failure.value.valid_methods or ())}, self.router.find(b"HEAD", request.where.path)
            if found is not None and not self._heads(found[0]):
                offered.discard("HEAD")
            error = not_allowed(offered)
        else:
            error = errors.NotFound(self.pipeline.faults.unknown_path)
        return await self._raise(request, error)

    async def unknown(self, request: Any) -> bytes | None:
        """Answer a path that does not exist, or not with this method."""
        if self.pipeline.verbatim and (allowed := self.router.methods(request.where.path)):
            told = {"Allow": ", ".join(allowed)}
            return await self._raise(request, errors.MethodNotAllowed("", headers=told))
        return await self._raise(request, errors.NotFound(self.pipeline.faults.unknown_path))

    async def _raise(self, request: Any, error: errors.CloudError) -> bytes | None:
        async def handler(call: Any) -> None:
            raise error

        return await self.pipeline.answer(request, (Bound(NOWHERE, handler),), {})

    def resource(self, named: bool = True) -> ApiResource:
        """A leaf for a twisted.web tree. `named`: the last segment above it is the API's own, such as `compute`."""
        return ApiResource(lambda: self, named)


def ends_an_id(variables: Mapping[str, str]) -> bool:
    return any(name.endswith("id") and value.endswith(SUFFIX) for name, value in variables.items())


def not_allowed(offered: Iterable[str]) -> errors.MethodNotAllowed:
    told = {"Allow": ", ".join(sorted(offered))}
    return errors.MethodNotAllowed("The method is not allowed for this path.", headers=told)


def methods(bound: Sequence[Bound]) -> tuple[str, ...]:
    found = {b.operation.method for b in bound}
    return tuple(sorted(found | {"HEAD"} if "GET" in found else found))


# Room for every API of a cloud; tests make hundreds of clouds with the same routes.
@lru_cache(maxsize=64)
def router(endpoints: Endpoints) -> Router:
    return Router(endpoints)


# Compiling these takes a second for all APIs.
@lru_cache(maxsize=64)
def tree(endpoints: Endpoints) -> IResource:
    """The Klein tree of these endpoints. It holds nothing of one cloud: the request has the ApiApp that answers."""
    # Not before a path is wrong: this is a tenth of what a start would import.
    from klein import Klein
    from werkzeug.exceptions import HTTPException

    klein = Klein()

    def mount(endpoint: Endpoint, methods: tuple[str, ...]) -> None:
        async def respond(request: Any, **variables: str) -> bytes | None:
            api: ApiApp = request.api
            return await api.respond(request, endpoint, variables)

        path, public = endpoint
        respond.__name__ = f"{path}{' (public)' if public else ''}"
        klein.route(path, methods=methods, strict_slashes=False, endpoint=respond.__name__)(respond)

    for endpoint, allowed in endpoints:
        mount(endpoint, allowed)

    @klein.handle_errors(HTTPException)
    async def refuse(request: Any, failure: Any) -> bytes | None:
        api: ApiApp = request.api
        return await api.refuse(request, failure)

    resource: IResource = klein.resource()
    return resource


class Tree(Resource):
    """The APIs of a cloud below one resource; anything else goes to `root`.

    `hosts`: for APIs with hosts of their own, where they begin at the root: name of the API → names of its hosts.
    """

    def __init__(
        self,
        apis: Mapping[str, Callable[[], ApiApp]],
        root: ApiApp,
        hosts: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__()
        self._apis = {name.encode(): ApiResource(api, named=True) for name, api in apis.items()}
        self._hosts = [ApiResource(apis[name], True, tuple(own)) for name, own in (hosts or {}).items() if own]
        self._root = root.resource(named=False)

    def admit(
        self, request: Any, above: Sequence[bytes], below: Sequence[bytes]
    ) -> Coroutine[Any, Any, Admitted] | None:
        """As `ApiApp.admit`, for a path in two parts: `request` has its method, and nothing of its body yet."""
        every = list(dropwhile(lambda each: each == b"", below)) or [b""]
        if (hosted := self._of_host(request)) is not None:
            return hosted.admit(request, [*above], every)
        api = self._apis.get(every[0])
        return api.admit(request, [*above, every[0]], every[1:]) if api is not None and api.takes_uploads else None

    def _of_host(self, request: Any) -> ApiResource | None:
        return next((each for each in self._hosts if each.is_host(request)), None)

    def getChild(self, path: bytes, request: Any) -> Resource:
        if self._hosts and (hosted := self._of_host(request)) is not None:
            request.postpath.insert(0, request.prepath.pop())
            return hosted
        if path == b"" and any(request.postpath):
            # Repeated slashes collapse.
            request.prepath.pop()
            return self
        if path in self._apis:
            return self._apis[path]
        request.postpath.insert(0, request.prepath.pop())
        return self._root


def first_of(request: Any, hosts: Sequence[str]) -> str | None:
    """What precedes one of the hosts in the host name of the request: `bucket` of `bucket.example.com`.

    Empty: it is one of them. None: it is not below any of them.
    """
    given = request.requestHeaders.getRawHeaders(b"host", [b""])[0].decode("utf-8", "replace")
    name = re.sub(r":\d*$", "", given).lower()
    for host in hosts:
        if name == host:
            return ""
        if name.endswith(f".{host}"):
            return name.removesuffix(f".{host}")
    return None


# Stands for a path or a method that does not exist: it takes every method and needs no token.
NOWHERE = Operation("", "*", "", "", None)


class ApiResource(Resource):
    """Normalizes the path and has it answered: slashes collapse, a trailing one and a project id are dropped.

    `api` is called by the first request: until then a process need not have imported what the ApiApp is made of.
    """

    isLeaf = True

    def __init__(self, api: Callable[[], ApiApp], named: bool, hosts: Sequence[str] = ()) -> None:
        super().__init__()
        self._make = api
        self._named = named
        self._hosts = hosts
        self._own_host = bool(hosts)

    @cached_property
    def _api(self) -> ApiApp:
        return self._make()

    @property
    def takes_uploads(self) -> bool:
        return self._api.takes_uploads

    def admit(self, request: Any, above: list[bytes], below: list[bytes]) -> Coroutine[Any, Any, Admitted] | None:
        """As `ApiApp.admit`, for a path in two parts: above this resource, and below it."""
        self._place(request, above, below)
        return self._api.admit(request)

    def is_host(self, request: Any) -> bool:
        """Whether the request is for one of the API's own hosts."""
        return first_of(request, self._hosts) is not None

    def _place(self, request: Any, above: list[bytes], below: list[bytes]) -> list[bytes]:
        """Set `request.where`. Returns the segments that are left."""
        if self._api.pipeline.verbatim:
            text = b"/".join(below).decode("utf-8", "surrogateescape")
            prefix, _, name = b"".join(b"/" + each for each in above if each).decode("utf-8").rpartition("/")
            if self._own_host:
                first = first_of(request, self._hosts)
                text, prefix, name = f"{first}/{text}" if first else text, "", self._api.pipeline.api
            request.where = Where(prefix, name, f"/{text}" if text else "", own_host=self._own_host)
            return below
        segments = [segment for segment in below if segment]
        try:
            text = b"/".join(segments).decode("utf-8")
            mounted = [segment.decode("utf-8") for segment in above if segment]
        except UnicodeDecodeError:
            segments, text, mounted = [b"not-utf-8"], "not-utf-8", []
        project_id = None
        if self._api.project_in_path and len(segments) > 1 and PROJECT_SEGMENT.fullmatch(segments[1]):
            project_id = segments.pop(1).decode("ascii")
            text = b"/".join(segments).decode("utf-8")
        plain = self._api.plain is not None and len(segments) > 1 and segments[0] == self._api.plain[0]
        if self._api.plain is not None and plain:
            segments[0] = self._api.plain[1]
            text = b"/".join(segments).decode("utf-8")
        if self._api.exact and len(segments) > 1 and below[-1] == b"":
            text += "/"
        name = mounted.pop() if self._named and mounted else ""
        prefix = "".join(f"/{segment}" for segment in mounted)
        request.where = Where(prefix, name, f"/{text}" if text else "", project_id, plain)
        return segments

    def render(self, request: Any) -> Any:
        segments = self._place(request, request.prepath, request.postpath)
        found = self._api.find(request)
        if found is not None:
            Answering(request, self._api.respond(request, *found)).start()
            return NOT_DONE_YET
        if self._api.pipeline.verbatim or not names_a_host(request) or request.where.path.endswith("/"):
            # Klein would fail on such a host, with a traceback in the log, and drop the slash.
            Answering(request, self._api.unknown(request)).start()
            return NOT_DONE_YET
        bare = request.where.path.removesuffix(SUFFIX)
        if self._api.suffixed and bare != request.where.path and self._api.router.methods(bare):
            # The path is known, though not with this method: Klein, which knows no suffix, says with which ones.
            request.where = evolve(request.where, path=bare)
            segments[-1] = segments[-1].removesuffix(SUFFIX.encode())
        request.postpath = segments or [b""]
        request.api = self._api
        return self._api.klein.render(request)


def names_a_host(request: Any) -> bool:
    """Whether the Host header can name a host."""
    try:
        request.getRequestHostname().decode("utf-8").encode("idna")
    except UnicodeError:
        return False
    return True
