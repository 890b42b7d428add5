"""Bodies of requests: data for an object, and documents."""

from __future__ import annotations

from typing import IO, Literal, cast, overload
from xml.etree.ElementTree import Element

from attrs import evolve, frozen

from cloudctl.object_store.api.s3 import body, xml
from cloudctl.object_store.api.s3.body import Expected, Incoming
from cloudctl.object_store.api.s3.door import Signed
from cloudctl.object_store.api.s3.faults import USUAL, error
from cloudctl.object_store.intake import Intake
from cloudctl.object_store.names import Place
from cloudctl.rest.call import Call
from cloudctl.rest.uploads import Admitted

MOST = 4 * 2**20  # bytes of a document


@frozen
class Documents:
    signed: Signed
    intake: Intake

    async def admitted(
        self, call: Call, place: Place, wanted: str = "", *, summed: bool = True, is_document: bool = False
    ) -> Admitted:
        """Data may come for this place. `wanted`: a sum to compute. Raises what is wrong with its headers."""
        expected = evolve(Expected.of(call, wanted, summed=summed), is_document=is_document)
        signing = await self.signed.signing(call, expected)
        hashing = self.intake.store.hashing
        return Admitted(
            place.project_id, through=lambda file: cast(IO[bytes], body.incoming(file, expected, signing, hashing))
        )

    async def data(self, call: Call, wanted: str = "", *, summed: bool = True, is_document: bool = False) -> Incoming:
        """The body of the request. Raises what is wrong with it."""
        content: object = call.content
        if isinstance(content, Incoming):
            return content
        expected = evolve(Expected.of(call, wanted, summed=summed), is_document=is_document)
        return body.received(call.content, expected, await self.signed.signing(call, expected))

    @overload
    async def read(
        self, call: Call, root: str, *, optional: Literal[False] = False, summed: bool = True
    ) -> Element: ...

    @overload
    async def read(self, call: Call, root: str, *, optional: bool, summed: bool = True) -> Element | None: ...

    async def read(self, call: Call, root: str, *, optional: bool = False, summed: bool = True) -> Element | None:
        """The document in the body; None for no body if it is `optional`. Raises MalformedXML."""
        data = (await self.data(call, summed=summed, is_document=True)).finish()
        data.seek(0)
        raw = data.read(MOST + 1)
        if not raw and optional:
            return None
        try:
            if len(raw) > MOST:
                raise xml.Malformed("too long")
            return await self.intake.run(xml.parse, raw, root)
        except xml.Malformed as why:
            raise error("MalformedXML", f"{USUAL['MalformedXML']}: {why}") from None
