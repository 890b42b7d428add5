"""Swift's login from before the identity service: a user and a key in headers. Off unless `[object_store] v1_login`.

It is a login by password, in the default domain, and nothing else: users who need more than a password, or who are
locked out, are refused here, too.
"""

from __future__ import annotations

from attrs import frozen

from cloudctl.errors import Unauthorized
from cloudctl.identity.auth_request import ByPassword, DomainName, ProjectName, UserName
from cloudctl.identity.bearers import Bearers
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

DOMAIN = DomainName(id="default")


@frozen
class Login:
    routes = Routes("Object store: login of version 1")

    bearers: Bearers

    @routes.get("/auth/v1", policy=None)
    @routes.get("/auth/v1.0", policy=None)
    async def login(self, call: Call) -> Reply:
        """Issue a token for `project:user` and a password."""
        who = call.header("x-auth-user") or call.header("x-storage-user") or ""
        password = call.header("x-auth-key") or call.header("x-storage-pass") or ""
        project, colon, user = who.partition(":")
        if not (project and colon and user):
            raise Unauthorized("")
        proof = ByPassword(UserName(name=user, domain=DOMAIN), password)
        token, issued = await self.bearers.logins.login([proof], ProjectName(name=project, domain=DOMAIN))
        assert issued.project is not None
        left = max(0, issued.token.expires_at - int(self.bearers.db.clock.seconds()))
        return Reply(
            None,
            200,
            (
                ("X-Storage-Url", f"{call.root_url}/v1/AUTH_{issued.project.id}"),
                ("X-Auth-Token", token),
                ("X-Storage-Token", token),
                ("X-Auth-Token-Expires", str(left)),
            ),
        )
