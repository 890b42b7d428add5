"""The services of block storage, their hosts, clusters and workers. Reference: volume.md, section 10."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Database
from cloudctl.errors import Invalid, NotFound
from cloudctl.rest.body import Body, Length, LooseBool, Missing, Text, gated
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.rest.views import Fields
from cloudctl.volume import hosts, services
from cloudctl.volume.api.fields import HostName
from cloudctl.volume.options import VolumeOptions

CLUSTERED = since(3, 26)
Reason = Annotated[str, Length(1, 255, blank=False)]


@contextmanager
def told_as_invalid() -> Iterator[None]:
    """A backend that does not exist is an error in the body, not in the path. Raises Invalid."""
    try:
        yield
    except NotFound as missing:
        raise Invalid(f"Invalid input received: {missing}") from missing


@frozen
class Switch:
    host: HostName
    binary: HostName | None = None
    service: HostName | None = None

    @property
    def name(self) -> str:
        """Raises Invalid."""
        found = self.binary or self.service
        if found is None:
            raise Invalid("'binary' or 'service' is a required property")
        return found


@frozen
class Disable(Switch):
    disabled_reason: Reason | None = None


@frozen
class DisableWithReason(Switch):
    disabled_reason: Reason = ""


@frozen
class Backend:
    """The host of a volume service; there are no clusters."""

    host: HostName | None = None
    cluster: HostName | Missing | None = gated(CLUSTERED)

    @property
    def name(self) -> str:
        """Raises Invalid, and NotFound for a cluster."""
        if self.cluster:
            raise NotFound(f"Cluster {self.cluster} could not be found.")
        if self.host is None:
            raise Invalid("'host' is a required property")
        return self.host


@frozen
class Failover(Backend):
    backend_id: Text | None = None


# The services are this process, which answers, and in no cluster.
SERVICE = Fields[[]]("a service", {"cluster": (since(3, 7), lambda: None)})
BACKEND = Fields[[]]("a service of volumes", {"backend_state": (since(3, 49), lambda: "up")})


@frozen
class Services:
    routes = Routes("Services")

    db: Database
    options: VolumeOptions

    @routes.get("/os-services", policy="volume:services:list", query=("host", "binary"))
    async def list(self, call: Call) -> Any:
        """List the services of block storage."""
        found = await self.db.read(services.listing, self.options)
        host, binary = call.query.get("host"), call.query.get("binary") or call.query.get("service")
        return {
            "services": [
                self._view(call, each)
                for each in found
                if host in (None, each.host, each.host.partition("@")[0]) and binary in (None, each.binary)
            ]
        }

    @routes.put("/os-services/enable", policy="volume:services:write", body=Body(Switch))
    async def enable(self, call: Call, body: Switch) -> Any:
        """Let a service take new work."""
        return await self._switch(body, False)

    @routes.put("/os-services/disable", policy="volume:services:write", body=Body(Disable))
    async def disable(self, call: Call, body: Disable) -> Any:
        """Stop giving a service new work."""
        return await self._switch(body, True)

    @routes.put("/os-services/disable-log-reason", policy="volume:services:write", body=Body(DisableWithReason))
    async def disable_with_reason(self, call: Call, body: DisableWithReason) -> Any:
        """Stop giving a service new work, and record why."""
        if not body.disabled_reason:
            raise Invalid("'disabled_reason' is a required property")
        return await self._switch(body, True, body.disabled_reason)

    @routes.put("/os-services/freeze", policy="volume:services:write", body=Body(Backend))
    async def freeze(self, call: Call, body: Backend) -> None:
        """Stop giving a backend new work, and leave what it has as it is."""
        await self._freeze(body, True)

    @routes.put("/os-services/thaw", policy="volume:services:write", body=Body(Backend))
    async def thaw(self, call: Call, body: Backend) -> None:
        """Let a frozen backend take work again."""
        await self._freeze(body, False)

    @routes.put("/os-services/failover_host", policy="volume:services:write", status=202, body=Body(Failover))
    async def fail_over(self, call: Call, body: Failover) -> None:
        """Refuse: no backend is replicated, so there is nowhere to fail over to."""
        await self._refuse_failover(body)

    @routes.put(
        "/os-services/failover",
        policy="volume:services:write",
        status=202,
        since=CLUSTERED.since,
        body=Body(Failover),
    )
    async def fail_over_newer(self, call: Call, body: Failover) -> None:
        """Refuse: no backend is replicated, so there is nowhere to fail over to."""
        await self._refuse_failover(body)

    async def _refuse_failover(self, body: Failover) -> None:
        with told_as_invalid():
            await self.db.read(services.get, self.options, body.name, services.VOLUME)
        raise Invalid(f"Unable to fail over {body.name}: it has no replication target.")

    async def _freeze(self, body: Backend, frozen: bool) -> None:
        reason = "frozen" if frozen else None
        with told_as_invalid():
            await self.db.run(services.switch, self.options, body.name, services.VOLUME, frozen, reason, frozen=frozen)

    async def _switch(self, body: Switch, disabled: bool, reason: str | None = None) -> Any:
        found = await self.db.run(services.switch, self.options, body.host, body.name, disabled, reason)
        told = {
            "host": found.host,
            "service": found.binary,
            "binary": found.binary,
            "status": "disabled" if disabled else "enabled",
            "disabled": disabled,
        }
        # Disabling without a reason shows no reason.
        return told if disabled and reason is None else {**told, "disabled_reason": reason}

    def _view(self, call: Call, service: services.Service) -> dict[str, Any]:
        body: dict[str, Any] = {
            "binary": service.binary,
            "host": service.host,
            "zone": self.options.default_zone,
            "status": "disabled" if service.disabled else "enabled",
            # The services are this process, which answers.
            "state": "up",
            "updated_at": micros(call.now),
            "disabled_reason": service.disabled_reason,
        }
        if service.binary == services.VOLUME:
            body |= {"replication_status": "disabled", "active_backend_id": None, "frozen": service.frozen}
            body |= BACKEND.of(call.version)
        return body | SERVICE.of(call.version)


@frozen
class Hosts:
    """The services as the older extension shows them, and what their hosts hold."""

    routes = Routes("Services")

    db: Database
    options: VolumeOptions

    @routes.get("/os-hosts", policy="volume:services:list", query=("service",))
    async def list(self, call: Call) -> Any:
        """List the hosts of the services."""
        found = await self.db.read(services.listing, self.options)
        wanted = call.query.get("service")
        return {
            "hosts": [
                {
                    "service-status": "available",
                    "service": each.binary,
                    "zone": self.options.default_zone,
                    "service-state": "disabled" if each.disabled else "enabled",
                    "host_name": each.host,
                    "last-update": micros(call.now),
                }
                for each in found
                if wanted in (None, each.binary)
            ]
        }

    @routes.get("/os-hosts/<host>", policy="volume:services:list")
    async def show(self, call: Call, host: str) -> Any:
        """Show how many volumes and snapshots a host has, in total and per project."""
        found = await self.db.scan(hosts.usage, self.options, host)
        return {"host": [{"resource": _usage(each)} for each in found]}


def _usage(used: hosts.Usage) -> dict[str, str]:
    return {
        "host": used.host,
        "project": used.project_id or "(total)",
        "volume_count": str(used.volumes),
        "total_volume_gb": str(used.volume_gib),
        "snapshot_count": str(used.snapshots),
        "total_snapshot_gb": str(used.snapshot_gib),
    }


@frozen
class Clean:
    """What to clean up; no work is ever lost here, so all of it is ignored."""

    cluster_name: Text | None = None
    service_id: int | None = None
    host: Text | None = None
    binary: Text | None = None
    is_up: LooseBool | None = None
    disabled: LooseBool | None = None
    resource_id: Text | None = None
    resource_type: Annotated[str, Length(0, 255)] | None = None
    until: Text | None = None


@frozen
class Clusters:
    """There are none: another process continues the work of a dead one by itself."""

    routes = Routes("Services")

    @routes.get("/clusters", policy="volume:services:list", since=(3, 7))
    async def list(self, call: Call) -> Any:
        """List clusters: there are none."""
        return {"clusters": []}

    @routes.get("/clusters/detail", policy="volume:services:list", since=(3, 7))
    async def details(self, call: Call) -> Any:
        """List clusters with all their fields: there are none."""
        return {"clusters": []}

    @routes.get("/clusters/<cluster>", policy="volume:services:list", since=(3, 7))
    async def show(self, call: Call, cluster: str) -> Any:
        """Show a cluster: there are none."""
        raise NotFound(f"Cluster {cluster[:255]} could not be found.")

    @routes.post("/workers/cleanup", policy="volume:services:write", status=202, since=(3, 24), body=Body(Clean))
    async def clean_up(self, call: Call, body: Clean) -> Any:
        """Let other services take over the work of dead ones; they do so by themselves, so none is left."""
        return {"cleaning": [], "unavailable": []}
