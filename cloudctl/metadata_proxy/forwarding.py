"""What a guest asks of its metadata, forwarded to a process of the cloud, and the answer passed back."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen
from treq.client import HTTPClient
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web import http
from twisted.web.http_headers import Headers
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from cloudctl.drivers import answers, forwarded
from cloudctl.trouble import Trouble

log = Logger()

METHODS = (b"GET", b"HEAD", b"POST")
ANSWER_SECONDS = 20.0  # to the end of its body
TYPE = "content-type"
TEXT = "text/plain; charset=utf-8"


@frozen
class Answer:
    code: int
    body: bytes = b""
    type: str = TEXT


@define
class Upstream:
    """The processes of the cloud, or what is before them."""

    client: HTTPClient
    clock: IReactorTime
    urls: list[str]  # without paths; the one that answered last comes first
    secret: str
    _troubles: dict[str, Trouble] = field(factory=dict)  # by URL

    async def ask(self, network_id: str, address: str, method: bytes, path: bytes, body: bytes) -> Answer:
        told = Headers({name: [value] for name, value in forwarded.headers(self.secret, network_id, address).items()})
        for url in tuple(self.urls):
            asking: Deferred[Answer] = ensureDeferred(self._ask(url, told, method, path, body))
            try:
                answer = await asking.addTimeout(ANSWER_SECONDS, self.clock)
            except Exception as error:  # the many ways in which a server does not answer
                self._trouble(url).is_met(repr(error))
            else:
                if answer.code != http.FORBIDDEN:
                    self._trouble(url).is_over()
                    self._prefer(url)
                    return answer
                # Nothing of a guest's own is forbidden: what is not believed is our signature.
                self._trouble(url).is_met("it refuses us: its [compute] metadata_secret is not our metadata_secret")
        return Answer(http.SERVICE_UNAVAILABLE, b"The metadata service does not answer.")

    async def _ask(self, url: str, told: Headers, method: bytes, path: bytes, body: bytes) -> Answer:
        answer = await self.client.request(
            method.decode(),
            f"{url.rstrip('/')}{path.decode('ascii')}",
            headers=told,
            data=body or None,
            allow_redirects=False,
            unbuffered=True,
        )
        type = answer.headers.getRawHeaders(TYPE, [TEXT])[0]
        return Answer(answer.code, await answers.body(answer), type)

    def _trouble(self, url: str) -> Trouble:
        return self._troubles.setdefault(
            url, Trouble(log, f"no guest is answered by {url}", f"guests are answered by {url} again")
        )

    def _prefer(self, url: str) -> None:
        if self.urls[0] != url:
            self.urls.remove(url)
            self.urls.insert(0, url)


class Forwarding(Resource):
    """All paths, for the guests of one network: the client's address tells which guest it is."""

    isLeaf = True

    def __init__(self, upstream: Upstream, network_id: str) -> None:
        super().__init__()
        self.upstream = upstream
        self.network_id = network_id

    def render(self, request: Request) -> Any:
        gone: list[Any] = []
        request.notifyFinish().addErrback(gone.append)
        done = ensureDeferred(self._answer(request))
        done.addCallback(lambda answer: None if gone else _send(request, answer))
        done.addErrback(lambda failure: log.failure("could not answer a guest", failure))
        return NOT_DONE_YET

    async def _answer(self, request: Request) -> Answer:
        method, path = request.method or b"", request.path or b""
        if method not in METHODS:
            return Answer(http.NOT_ALLOWED)
        # Nothing of what a guest writes may lead elsewhere.
        if not path.startswith(b"/") or not path.isascii():
            return Answer(http.BAD_REQUEST)
        body = request.content.read() if request.content is not None else b""
        return await self.upstream.ask(self.network_id, request.getClientAddress().host, method, path, body)


def _send(request: Request, answer: Answer) -> None:
    request.setResponseCode(answer.code)
    request.setHeader(TYPE, answer.type)
    if request.method != b"HEAD":
        request.setHeader("content-length", str(len(answer.body)))
        request.write(answer.body)
    request.finish()
