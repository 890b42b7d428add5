"""Lists of things to delete, sent to a container or an object: their paths are relative to the account, as always.
Reference: object-store.md, A8.
"""

from __future__ import annotations

from attrs import frozen

from cloudctl.object_store import acl
from cloudctl.object_store.api.bulk import Bulk
from cloudctl.object_store.api.door import Door
from cloudctl.object_store.names import Place, placed
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes
from cloudctl.rest.uploads import Admitted

CONTAINER = "/v1/<account>/<container>"
OBJECT = "/v1/<account>/<container>/<path:name>"
RULE = "object_store:accounts:bulk_delete"


@frozen
class BulkDeletes:
    """The path determines who may send a list; each of its lines is checked separately."""

    routes = Routes("Object store: accounts")

    door: Door
    bulk: Bulk

    async def may_come(self, call: Call, account: str, container: str, name: str = "") -> Admitted:
        """Whether a list may come."""
        return Admitted((await self._entered(call, account, container, name)).project_id)

    @routes.post(CONTAINER, policy=RULE, anonymous=True, raw=True, admits="may_come", subresource="bulk-delete")
    async def post_to_container(self, call: Call, account: str, container: str) -> Reply:
        """Delete many things in an account; the container itself only if the list names it."""
        return await self._delete(call, account, container)

    @routes.delete(CONTAINER, policy=RULE, anonymous=True, raw=True, admits="may_come", subresource="bulk-delete")
    async def delete_of_container(self, call: Call, account: str, container: str) -> Reply:
        """Delete many things in an account; the container itself only if the list names it."""
        return await self._delete(call, account, container)

    @routes.post(OBJECT, policy=RULE, anonymous=True, raw=True, admits="may_come", subresource="bulk-delete")
    async def post_to_object(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Delete many things in an account; the object itself only if the list names it."""
        return await self._delete(call, account, container, name)

    @routes.delete(OBJECT, policy=RULE, anonymous=True, raw=True, admits="may_come", subresource="bulk-delete")
    async def delete_of_object(self, call: Call, account: str, container: str, name: str) -> Reply:
        """Delete many things in an account; the object itself only if the list names it."""
        return await self._delete(call, account, container, name)

    async def _delete(self, call: Call, account: str, container: str, name: str = "") -> Reply:
        await self._entered(call, account, container, name)
        return await self.bulk.delete(call, placed(account))

    async def _entered(self, call: Call, account: str, container: str, name: str) -> Place:
        place = placed(account, container, name)
        await self.door.enter(call, place, acl_header=acl.WRITE)
        return place
