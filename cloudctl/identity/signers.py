"""Who signed a request with an EC2 secret: for APIs that accept no tokens. Reference: identity.md, section 8."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import credentials, payload, records
from cloudctl.identity.auth_request import ProjectName, Proof
from cloudctl.identity.issue import issue
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import Keys
from cloudctl.identity.remembered import Memory
from cloudctl.identity.subject import Subject
from cloudctl.identity.tables import Credential
from cloudctl.rest.identity import Identity


def subject_of(
    conn: Connection, access: str, keys: Keys, check: Callable[[str], None], options: IdentityOptions, time: float
) -> Subject:
    """`check(secret)` raises what is wrong. `time`: seconds since 1970. Also raises NotFound, Unauthorized."""
    row = credentials.find_ec2(conn, access)
    if row is None:
        raise records.not_found("credential", access)
    check(credentials.pair(row, keys)[1])
    return _issued(conn, row, options, time)


def _issued(conn: Connection, row: Credential, options: IdentityOptions, time: float) -> Subject:
    """What a credential whose secret was proved stands for."""
    proof = Proof(
        payload.SIGNED,
        row.user_id,
        credential_id=row.application_credential_id or "",
        trust_id=row.trust_id or "",
    )
    return issue(conn, [proof], None if proof.trust_id else ProjectName(id=row.project_id), options, time)


@frozen
class Signers:
    db: Database
    keys: Keys  # that seal credentials
    options: IdentityOptions
    memory: Memory

    async def identity(self, access: str, check: Callable[[str], None]) -> Identity:
        """The user, in the project of the credential, as `subject_of`. The credential is read each time."""
        row = await self.db.read(credentials.find_ec2, access)
        if row is None:
            raise records.not_found("credential", access)
        check(credentials.pair(row, self.keys)[1])
        key = (row.id, row.user_id, row.project_id, row.application_credential_id, row.trust_id)
        found = await self.memory.find(key)
        if found is None:
            generation = self.memory.generation
            subject = await self.db.read(_issued, row, self.options, self.db.clock.seconds())
            found = self.memory.put(key, subject, generation)
        return found.identity

    async def project_of(self, access: str) -> str:
        """The id of a credential's project; empty if there is no such credential. It proves nothing."""
        found = await self.db.read(credentials.find_ec2, access)
        return "" if found is None else found.project_id or ""
