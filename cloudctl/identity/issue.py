"""From proofs to a token: its scope, its lifetime, its chain. Reference: identity.md, «Scope resolution».

Whatever is wrong with the requested scope is answered in the wording of bad credentials, so that nobody learns which
projects and domains exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import define
from sqlalchemy import bindparam, select

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.errors import Forbidden, Unauthorized
from cloudctl.identity import epoch, lockout, multi_factor, payload, records, subject, trusts
from cloudctl.identity.auth_request import (
    DomainName,
    ProjectName,
    Proof,
    SystemWide,
    TrustName,
    Unscoped,
    UserName,
    Wish,
)
from cloudctl.identity.multi_factor import NotEnough
from cloudctl.identity.options import IdentityOptions, PasswordOptions
from cloudctl.identity.payload import SYSTEM, UNSCOPED, Delegation, Scope, ScopeKind, Token
from cloudctl.identity.subject import Subject, invalid
from cloudctl.identity.tables import ApplicationCredential, OAuthAccessToken, Project, Trust, User


@define
class Draft:
    """A token in the making. Times are seconds since the epoch."""

    user_id: str
    methods: tuple[str, ...]
    expires_at: int
    audit_ids: tuple[str, ...]
    delegation: Delegation = Delegation.NONE
    delegation_id: str = ""
    scope: Scope = UNSCOPED

    def delegated(self, delegation: Delegation, id: str) -> None:
        """Bind it, for good. Raises Unauthorized if another proof has bound it to something else."""
        if self.delegation is not Delegation.NONE and (self.delegation, self.delegation_id) != (delegation, id):
            raise invalid()
        self.delegation, self.delegation_id = delegation, id

    def ends_by(self, when: datetime | None) -> None:
        if when is not None:
            self.expires_at = min(self.expires_at, int((when - utc(0)).total_seconds()))


def issue(
    conn: Connection,
    proofs: Sequence[Proof],
    wish: Wish,
    options: IdentityOptions,
    time: float,
    receipt: Token | None = None,
) -> Subject:
    """A token for proofs of one user, together with what a receipt says was proved before. `time`: seconds since 1970.

    Raises Unauthorized, NotEnough (methods are missing), Forbidden (a delegation that goes too far), NotFound (a
    trust).

    A wish for a trust takes one of its uses, so it needs a transaction that writes.
    """
    seconds = int(time)
    now = utc(seconds)
    # The epoch is read with the user, before anything else: a revocation that commits later is newer than the token.
    user, value = _user(conn, proofs[0].user_id)
    for proof in proofs:
        _check_unchanged(conn, user, proof, now)
    draft = Draft(
        user_id=proofs[0].user_id,
        methods=tuple(dict.fromkeys(proof.method for proof in proofs)),
        expires_at=seconds + options.token_lifetime,
        audit_ids=(payload.new_audit_id(),),
    )
    for proof in proofs:
        if proof.token is not None:
            _continue(draft, subject.read(conn, proof.token, now), wish)
        if proof.credential_id:
            draft.delegated(Delegation.APPLICATION_CREDENTIAL, proof.credential_id)
        if proof.trust_id:
            draft.delegated(Delegation.TRUST, proof.trust_id)
        if proof.access_token_id:
            draft.delegated(Delegation.OAUTH, proof.access_token_id)
    if receipt is not None:
        _take_receipt(conn, draft, receipt, now)
    _check_user(conn, user, draft, proofs, value, time, options)
    if draft.delegation is Delegation.APPLICATION_CREDENTIAL:
        _scope_of_delegation(conn, draft, wish, records.find(conn, ApplicationCredential, draft.delegation_id))
    elif draft.delegation is Delegation.OAUTH:
        _scope_of_delegation(conn, draft, wish, records.find(conn, OAuthAccessToken, draft.delegation_id))
    elif draft.delegation is Delegation.TRUST:
        _scope_of_trust(conn, draft, draft.delegation_id, options, now)
    elif isinstance(wish, TrustName):
        _take_trust(conn, draft, wish, options, now)
    elif draft.scope == UNSCOPED:
        draft.scope = _scope(conn, user, wish, options)
    token = Token(
        draft.user_id,
        draft.methods,
        draft.scope,
        seconds,
        draft.expires_at,
        value,
        draft.audit_ids,
        draft.delegation,
        draft.delegation_id,
    )
    return subject.read(conn, token, now)


_user_by_id = select(User, epoch.CURRENT).where(User.id == bindparam("id"))


def _user(conn: Connection, user_id: str) -> tuple[User, int]:
    """The user, and the epoch. Raises Unauthorized."""
    found = conn.execute(_user_by_id, {"id": user_id}).first()
    if found is None:
        raise invalid()
    user, value = found
    return user, value or 0


def _check_unchanged(conn: Connection, user: User, proof: Proof, now: datetime) -> None:
    """The secret was checked in another thread, and may have been changed since. Raises Unauthorized."""
    if proof.method == "application_credential":
        credential = records.find(conn, ApplicationCredential, proof.credential_id)
        if credential is None or credential.secret_hash != proof.stored_hash:
            raise invalid()
    if proof.method == "password":
        if user.password_hash != proof.stored_hash:
            raise invalid()
        expired = user.password_expires_at is not None and user.password_expires_at <= now
        if expired and not user.options.get("ignore_password_expiry"):
            raise Unauthorized(f"The password is expired and needs to be changed for user: {proof.user_id}.")


def _continue(draft: Draft, origin: Subject, wish: Wish) -> None:
    """Exchange a token: same expiry, same chain, same delegation. Raises Forbidden."""
    delegation = origin.token.delegation
    if delegation is Delegation.TRUST:
        raise Forbidden("A token of a trust cannot be exchanged.")
    if delegation is Delegation.OAUTH:
        raise Forbidden("A token of an OAuth access token cannot be exchanged.")
    if delegation is Delegation.APPLICATION_CREDENTIAL and wish is not None:
        raise Forbidden("A token of an application credential cannot be given another scope.")
    if payload.SIGNED in origin.token.methods:
        # It stands for a request in one project, and a service may have been given its secret.
        if wish is not None:
            raise Forbidden("A token of an EC2 credential cannot be given another scope.")
        draft.scope = origin.token.scope
    if origin.token.scope.kind is ScopeKind.SYSTEM and isinstance(wish, ProjectName | DomainName | TrustName):
        raise Forbidden("A token with system scope cannot be exchanged for one with another scope.")
    draft.methods = tuple(dict.fromkeys((*origin.token.methods, *draft.methods)))
    draft.audit_ids += (origin.token.audit_ids[-1],)
    draft.expires_at = origin.token.expires_at
    if delegation is not Delegation.NONE:
        draft.delegated(delegation, origin.token.delegation_id)


# -- several methods


def _take_receipt(conn: Connection, draft: Draft, receipt: Token, now: datetime) -> None:
    """Raises Unauthorized unless it is the same user's and still good: a changed password ends it."""
    if subject.read(conn, receipt, now).user.id != draft.user_id:
        raise invalid()
    draft.methods = tuple(dict.fromkeys((*receipt.methods, *draft.methods)))


def _check_user(
    conn: Connection,
    user: User,
    draft: Draft,
    proofs: Sequence[Proof],
    epoch: int,
    time: float,
    options: IdentityOptions,
) -> None:
    """Raises NotEnough; Unauthorized if no receipt can be given, somebody was guessing meanwhile, or the user has been
    away for too long: then nothing that acts for the user does so any more.
    """
    if any(lockout.is_locked(user, proof.method, options.passwords, utc(time)) for proof in proofs):
        raise invalid()
    if lockout.is_inactive(user, options.passwords, utc(time)):
        raise invalid()
    if payload.SIGNED in draft.methods:
        # Not a login of the user: a service reports what the user has signed.
        return
    if multi_factor.is_enough(user.options, draft.methods):
        return
    found = multi_factor.receipt(draft.user_id, draft.methods, epoch, int(time), options.receipt_lifetime)
    if found is None:
        raise invalid()
    raise NotEnough(subject.read(conn, found, utc(time)), multi_factor.begun(user.options, found.methods))


# -- scope


def _scope_of_delegation(
    conn: Connection, draft: Draft, wish: Wish, origin: ApplicationCredential | OAuthAccessToken | None
) -> None:
    """An application credential and an access token have one scope; another wish is refused."""
    if origin is None:
        raise invalid()
    if wish is not None and not (isinstance(wish, ProjectName) and project_id(conn, wish) == origin.project_id):
        raise invalid()
    draft.scope = Scope(ScopeKind.PROJECT, origin.project_id)
    draft.ends_by(origin.expires_at)


def _take_trust(conn: Connection, draft: Draft, wish: TrustName, options: IdentityOptions, now: datetime) -> None:
    row = records.find(conn, Trust, wish.id)
    if row is None or trusts.has_expired(row, now):
        raise records.not_found("trust", wish.id)
    if row.trustee_user_id != draft.user_id:
        raise Forbidden("You are not the trustee of this trust.")
    if not trusts.use(conn, wish.id):
        raise Forbidden("The trust has been used up.")
    _scope_of_trust(conn, draft, wish.id, options, now)


def _scope_of_trust(conn: Connection, draft: Draft, trust_id: str, options: IdentityOptions, now: datetime) -> None:
    row = records.find(conn, Trust, trust_id)
    if row is None or trusts.has_expired(row, now):
        raise invalid()
    if options.passwords.disable_days_inactive:
        _check_parties(conn, row, options.passwords, now)
    draft.delegation, draft.delegation_id = Delegation.TRUST, trust_id
    draft.user_id = row.trustor_user_id if row.impersonation else row.trustee_user_id
    draft.scope = Scope(ScopeKind.PROJECT, row.project_id or "")
    draft.ends_by(row.expires_at)


def _check_parties(conn: Connection, row: Trust | None, rules: PasswordOptions, now: datetime) -> None:
    """Raises Unauthorized if one of them, or of those who have passed the trust on, has been away for too long."""
    while row is not None:
        for user_id in (row.trustor_user_id, row.trustee_user_id):
            user = records.find(conn, User, user_id)
            if user is None or lockout.is_inactive(user, rules, now):
                raise invalid()
        row = records.find(conn, Trust, row.redelegated_trust_id or "")


def _scope(conn: Connection, user: User, wish: Wish, options: IdentityOptions) -> Scope:
    if isinstance(wish, Unscoped):
        return UNSCOPED
    if isinstance(wish, SystemWide):
        return SYSTEM
    if isinstance(wish, ProjectName):
        return Scope(ScopeKind.PROJECT, project_id(conn, wish))
    if isinstance(wish, DomainName):
        return Scope(ScopeKind.DOMAIN, domain_id(conn, wish))
    if options.honour_default_project:
        scope = Scope(ScopeKind.PROJECT, user.default_project_id or "")
        if scope.id and subject.may_have(conn, user.id, scope):
            return scope
    return UNSCOPED


# -- names, which are looked up by their folded form

_domains = Project.table.alias("domains")
_is_domain = _domains.c.is_domain & (_domains.c.domain_id == "")
_in_domain = select(Project.id).join(_domains, _domains.c.id == Project.domain_id).where(_is_domain)
_project = Project.name_key == bindparam("name")
_by_domain_id, _by_domain_name = _domains.c.id == bindparam("domain"), _domains.c.name_key == bindparam("domain")
_project_by_domain_id = _in_domain.where(_project, _by_domain_id)
_project_by_domain_name = _in_domain.where(_project, _by_domain_name)


def project_id(conn: Connection, name: ProjectName) -> str:
    """Raises Unauthorized for an unknown name; an id is taken as it is."""
    if name.id is not None:
        return name.id
    query, domain = _project_by_domain_id, name.domain.id
    if domain is None:
        query, domain = _project_by_domain_name, records.folded(name.domain.name or "")
    found = conn.scalar(query, {"name": records.folded(name.name or ""), "domain": domain})
    if found is None:
        raise invalid()
    return found


_some_domain = select(Project.id).where(Project.is_domain, Project.domain_id == "")
_domain_by_id = _some_domain.where(Project.id == bindparam("id"))
_domain_by_name = _some_domain.where(Project.name_key == bindparam("name"))


def domain_id(conn: Connection, name: DomainName) -> str:
    """Raises Unauthorized."""
    if name.id is not None:
        found = conn.scalar(_domain_by_id, {"id": name.id})
    else:
        found = conn.scalar(_domain_by_name, {"name": records.folded(name.name or "")})
    if found is None:
        raise invalid()
    return found


_users = select(User).join(_domains, _domains.c.id == User.domain_id).where(_is_domain)
_user_named = User.name_key == bindparam("name")
_user_by_domain_id = _users.where(_user_named, _by_domain_id)
_user_by_domain_name = _users.where(_user_named, _by_domain_name)


def find_user(conn: Connection, name: UserName) -> User | None:
    if name.id is not None:
        return records.find(conn, User, name.id)
    query, domain = _user_by_domain_id, name.domain.id
    if domain is None:
        query, domain = _user_by_domain_name, records.folded(name.domain.name or "")
    return conn.execute(query, {"name": records.folded(name.name or ""), "domain": domain}).first()
