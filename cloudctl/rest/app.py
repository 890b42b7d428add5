"""ApiApp: one Klein tree an API, built from resource classes, and the twisted.web resource that serves it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from klein import Klein
from twisted.web.resource import Resource
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from cloudctl import errors
from cloudctl.rest.pipeline import Bound, Pipeline, Where
from cloudctl.rest.route import Operation

PROJECT_SEGMENT = re.compile(rb"[0-9a-f-]{32,36}")


class ApiApp:
    """The routes of one API.

    `mounts`: (prefix, resource object) pairs; each resource's class has `routes`.
    `project_in_path`: whether `/v3/{project_id}/volumes` is taken for `/v3/volumes`.
    """

    def __init__(self, pipeline: Pipeline, mounts: Sequence[tuple[str, Any]], *, project_in_path: bool = False) -> None:
        self.pipeline = pipeline
        self.project_in_path = project_in_path
        self.operations: list[tuple[str, Operation]] = []
        self._klein = Klein()
        self._mount(mounts)
        self._klein.handle_errors(HTTPException)(self._routing_failed)

    def _mount(self, mounts: Sequence[tuple[str, Any]]) -> None:
        paths: dict[str, list[Bound]] = defaultdict(list)
        for prefix, resource in mounts:
            for operation in resource.routes.operations:
                path = (prefix + operation.path).rstrip("/") or "/"
                self.operations.append((path, operation))
                paths[path].append(Bound(operation, getattr(resource, operation.handler)))
        for path, bound in paths.items():
            public = {b.operation.policy is None for b in bound}
            if len(public) > 1:
                # Whether a token is needed is decided before the method is looked at.
                for one in (True, False):
                    self._route(path, [b for b in bound if (b.operation.policy is None) is one])
            else:
                self._route(path, bound)

    def _route(self, path: str, bound: list[Bound]) -> None:
        methods = {b.operation.method for b in bound}
        if "GET" in methods:
            methods.add("HEAD")

        async def respond(request: Any, **variables: str) -> bytes | None:
            return await self.pipeline.answer(request, bound, variables)

        endpoint = f"{path} {' '.join(sorted(methods))}"
        respond.__name__ = endpoint
        self._klein.route(path, methods=sorted(methods), strict_slashes=False, endpoint=endpoint)(respond)

    async def _routing_failed(self, request: Any, failure: Any) -> bytes | None:
        error: errors.CloudError
        if isinstance(failure.value, MethodNotAllowed):
            allowed = ", ".join(sorted(failure.value.valid_methods or ()))
            error = errors.MethodNotAllowed("The method is not allowed for this path.", headers={"Allow": allowed})
        else:
            error = errors.NotFound(self.pipeline.faults.unknown_path)
        return await self.pipeline.answer(request, (self._raising(error),), {})

    def _raising(self, error: errors.CloudError) -> Bound:
        async def refuse(call: Any) -> None:
            raise error

        return Bound(NOWHERE, refuse)

    def resource(self, named: bool = True) -> Resource:
        """A leaf for a twisted.web tree. `named`: the last segment above it is the API's own, such as `compute`."""
        return ApiResource(self._klein.resource(), self.project_in_path, named)


class Tree(Resource):
    """The APIs of a cloud below one resource; what is not one of them goes to `root`."""

    def __init__(self, apis: Mapping[str, ApiApp], root: ApiApp) -> None:
        super().__init__()
        self._apis = {name.encode(): api.resource() for name, api in apis.items()}
        self._root = root.resource(named=False)

    def getChild(self, path: bytes, request: Any) -> Resource:
        if path == b"" and any(request.postpath):
            # Repeated slashes collapse.
            request.prepath.pop()
            return self
        if path in self._apis:
            return self._apis[path]
        request.postpath.insert(0, request.prepath.pop())
        return self._root


# Stands for a path or a method that is not there: it takes every method and needs no token.
NOWHERE = Operation("", "*", "", "", None)


class ApiResource(Resource):
    """Evens out the path, then lets Klein route it: slashes collapse, a trailing one and a project id are dropped."""

    isLeaf = True

    def __init__(self, routed: Any, project_in_path: bool, named: bool) -> None:
        super().__init__()
        self._routed = routed
        self._project_in_path = project_in_path
        self._named = named

    def render(self, request: Any) -> Any:
        segments = [segment for segment in request.postpath if segment]
        try:
            text = b"/".join(segments).decode("utf-8")
            mounted = [segment.decode("utf-8") for segment in request.prepath if segment]
        except UnicodeDecodeError:
            segments, text, mounted = [b"not-utf-8"], "not-utf-8", []
        project_id = None
        if self._project_in_path and len(segments) > 1 and PROJECT_SEGMENT.fullmatch(segments[1]):
            project_id = segments.pop(1).decode("ascii")
            text = b"/".join(segments).decode("utf-8")
        name = mounted.pop() if self._named and mounted else ""
        prefix = "".join(f"/{segment}" for segment in mounted)
        request.where = Where(prefix, name, f"/{text}" if text else "", project_id)
        request.postpath = segments or [b""]
        return self._routed.render(request)
