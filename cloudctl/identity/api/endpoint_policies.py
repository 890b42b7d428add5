"""/OS-ENDPOINT-POLICY: the stored policies of endpoints, of services, and of services in a region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.identity import endpoint_policies as domain
from cloudctl.identity.api.policies import POLICIES
from cloudctl.identity.api.resource import Declared
from cloudctl.identity.endpoint_policies import Target
from cloudctl.identity.tables import Endpoint
from cloudctl.rest.call import Call
from cloudctl.rest.resource import Json
from cloudctl.rest.route import Routes

F = TypeVar("F", bound=Callable[..., Any])

ROUTES = Routes("Policies of endpoints")
POLICY = "/policies/<policy_id>/OS-ENDPOINT-POLICY"
# As rules name what a policy is associated with.
TARGETS = {
    "endpoint": f"{POLICY}/endpoints/<endpoint_id>",
    "service": f"{POLICY}/services/<service_id>",
    "region_and_service": f"{POLICY}/services/<service_id>/regions/<region_id>",
}


def each_target(method: str, verb: str) -> Callable[[F], F]:
    """The same handler for endpoints, for services, and for services in a region."""

    def record(handler: F) -> F:
        for target, path in TARGETS.items():
            rule = f"identity:{verb}_policy_association_for_{target}"
            ROUTES.route(method, path, policy=rule, status=204)(handler)
        return handler

    return record


@frozen
class EndpointPolicies:
    db: Database
    endpoints: Declared[Endpoint]

    routes = ROUTES

    @routes.get(f"{POLICY}/endpoints", policy="identity:list_endpoints_for_policy")
    async def list(self, call: Call, policy_id: str) -> Json:
        """List the endpoints with which a policy is associated, by themselves or through their services"""
        return await self.db.scan(self._list, call, policy_id)

    def _list(self, conn: Connection, call: Call, policy_id: str) -> Json:
        return self.endpoints.page(conn, call, domain.of_policy(conn, policy_id))

    @each_target("PUT", "create")
    async def associate(self, call: Call, policy_id: str, **target: str) -> None:
        """Associate a policy, in place of the one that is there"""
        await self.db.run(domain.associate, policy_id, Target(**target))

    @each_target("GET", "check")
    async def check(self, call: Call, policy_id: str, **target: str) -> None:
        """Check whether a policy is associated"""
        await self.db.read(domain.check_associated, policy_id, Target(**target))

    @each_target("DELETE", "delete")
    async def dissociate(self, call: Call, policy_id: str, **target: str) -> None:
        """End the association of a policy, if there is one"""
        await self.db.run(domain.dissociate, policy_id, Target(**target))

    @routes.get("/endpoints/<endpoint_id>/OS-ENDPOINT-POLICY/policy", policy="identity:get_policy_for_endpoint")
    async def show(self, call: Call, endpoint_id: str) -> Json:
        """Show the policy that counts for an endpoint: its own, or its service's in its region, or its service's"""
        return await self.db.read(self._show, call, endpoint_id)

    def _show(self, conn: Connection, call: Call, endpoint_id: str) -> Json:
        return {"policy": POLICIES.views(conn, call, [domain.of_endpoint(conn, endpoint_id)])[0]}
