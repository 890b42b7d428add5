"""What outlives its use: of tokens and trusts, and of projects and users that are gone."""

from __future__ import annotations

from sqlalchemy import Column, ColumnElement, and_, select

from cloudctl.db.ended import Ended, before
from cloudctl.db.totals import Kept
from cloudctl.identity.revocation import KEPT
from cloudctl.identity.tables import (
    ApplicationCredential,
    ApplicationCredentialRole,
    ApplicationCredentialRule,
    Credential,
    OAuthAccessRole,
    OAuthAccessToken,
    OAuthNonce,
    OAuthRequestToken,
    Project,
    Revocation,
    Trust,
    TrustRole,
    User,
)
from cloudctl.rest.quota import EVERYBODY, QuotaLimit, QuotaLock


def no_project(column: Column[str]) -> ColumnElement[bool]:
    """This column names a project, but there is none. Ids are never used again; when it was deleted nobody knows."""
    return and_(column != EVERYBODY, ~select(Project.id).where(Project.id == column).exists())


def no_user(column: Column[str]) -> ColumnElement[bool]:
    return ~select(User.id).where(User.id == column).exists()


def limits_of(service: str, *where: ColumnElement[bool]) -> Ended:
    """The quotas that were set in a service for projects that are gone; for the declarations of other services."""
    mine = QuotaLimit.service == service, no_project(QuotaLimit.project_id), *where
    return Ended(f"limits of deleted projects ({service})", QuotaLimit, mine)


ENDED = (
    Ended("revocations", Revocation, (before(Revocation.revoked_at),), least=KEPT),
    # Those made from one expire no later than it does.
    Ended(
        "expired trusts",
        Trust,
        (before(Trust.expires_at),),
        along=((TrustRole.trust_id, Trust.id), (Credential.trust_id, Trust.id)),
    ),
    Ended(
        "expired application credentials",
        ApplicationCredential,
        (before(ApplicationCredential.expires_at),),
        along=(
            (ApplicationCredentialRole.credential_id, ApplicationCredential.id),
            (ApplicationCredentialRule.credential_id, ApplicationCredential.id),
            (Credential.application_credential_id, ApplicationCredential.id),
        ),
        least=KEPT,
    ),
    Ended(
        "expired OAuth access tokens",
        OAuthAccessToken,
        (before(OAuthAccessToken.expires_at),),
        along=((OAuthAccessRole.token_id, OAuthAccessToken.id),),
        least=KEPT,
    ),
    Ended("expired OAuth request tokens", OAuthRequestToken, (before(OAuthRequestToken.expires_at),)),
    Ended("nonces of OAuth", OAuthNonce, (before(OAuthNonce.said_at),)),
    # One that is missing is made.
    Ended("turns of deleted projects", QuotaLock, (no_project(QuotaLock.project_id), no_user(QuotaLock.project_id))),
    # One that is missing is zero. Those of containers are here, too.
    Ended("sums of deleted projects", Kept, (Kept.amount == 0, no_project(Kept.project_id))),
)
