"""The compute API, v2.1 with its microversions."""

from __future__ import annotations

from typing import Any

from cloudctl.compute.api import gates
from cloudctl.compute.api.address_actions import AddressActions
from cloudctl.compute.api.aggregates import Aggregates
from cloudctl.compute.api.audit_log import AuditLog
from cloudctl.compute.api.consoles import Consoles
from cloudctl.compute.api.diagnostics import Diagnostics
from cloudctl.compute.api.extensions import Extensions
from cloudctl.compute.api.external_events import ExternalEvents
from cloudctl.compute.api.flavors import Flavors
from cloudctl.compute.api.hosts import Hosts
from cloudctl.compute.api.hypervisors import Hypervisors
from cloudctl.compute.api.image_metadata import ImageMetadata
from cloudctl.compute.api.images import ImagesProxy
from cloudctl.compute.api.instance_actions import InstanceActions
from cloudctl.compute.api.interfaces import ServerInterfaces
from cloudctl.compute.api.keypairs import Keypairs
from cloudctl.compute.api.metadata import ServerMetadata
from cloudctl.compute.api.migrations import Migrations
from cloudctl.compute.api.proxied_networks import Networks
from cloudctl.compute.api.proxied_volumes import Volumes
from cloudctl.compute.api.quotas import Quotas
from cloudctl.compute.api.removed import Removed
from cloudctl.compute.api.security_groups import SecurityGroups
from cloudctl.compute.api.server_actions import ServerActions
from cloudctl.compute.api.server_changes import ServerChanges
from cloudctl.compute.api.server_groups import ServerGroups
from cloudctl.compute.api.server_moves import ServerMoves
from cloudctl.compute.api.server_parts import ServerAddresses, ServerPassword, ServerTags, ServerTopology
from cloudctl.compute.api.server_security_groups import ServerSecurityGroups
from cloudctl.compute.api.server_shares import ServerShares
from cloudctl.compute.api.server_shelving import ServerShelving
from cloudctl.compute.api.servers import Servers
from cloudctl.compute.api.services import Services
from cloudctl.compute.api.usage import Usages
from cloudctl.compute.api.versions import OLD, Versions
from cloudctl.compute.api.volume_attachments import VolumeAttachments
from cloudctl.compute.api.zones import AvailabilityZones
from cloudctl.compute.consoles import Rights
from cloudctl.compute.options import ComputeOptions
from cloudctl.db import Database
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.app import ApiApp
from cloudctl.rest.faults import NAMES, Faults, named, schema_problems
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.versions import Microversions
from cloudctl.volume.options import VolumeOptions

MINIMUM = (2, 1)
FAULTS = Faults(named(NAMES, "computeFault"), schema_problems, tells_when=True)


def microversions(options: ComputeOptions) -> Microversions:
    return Microversions(
        "compute",
        MINIMUM,
        options.maximum,
        first=("X-Platform-Compute-Microversion",),
        after=("X-OpenStack-Nova-API-Version",),
    )


def build(
    http: Http,
    db: Database,
    hypervisor: IHypervisor,
    options: ComputeOptions | None = None,
    volume_options: VolumeOptions | None = None,
    network_options: NetworkOptions | None = None,
) -> ApiApp:
    """`hypervisor` is asked for console logs; everything else goes through the database.

    `volume_options`, `network_options`: for volumes and networks that are created with a server.
    """
    chosen, of_volumes = options or ComputeOptions(), volume_options or VolumeOptions()
    versions = microversions(chosen)
    resources: tuple[Any, ...] = (
        Servers(db, chosen, of_volumes, network_options or NetworkOptions()),
        ServerActions(db, hypervisor),
        ServerChanges(db, hypervisor, of_volumes),
        ServerShelving(db, hypervisor, chosen),
        ServerMoves(db, hypervisor),
        Diagnostics(db, hypervisor),
        Consoles(db, hypervisor, chosen, Rights(db, http.authenticator, http.policy)),
        AddressActions(db),
        ServerMetadata(db),
        ServerAddresses(db),
        ServerTags(db),
        ServerPassword(db),
        ServerTopology(db),
        ServerSecurityGroups(db),
        ServerShares(db),
        InstanceActions(db, chosen),
        ServerInterfaces(db),
        VolumeAttachments(db, chosen),
        Migrations(db, chosen),
        Flavors(db, chosen),
        Keypairs(db, chosen),
        ServerGroups(db, chosen),
        AvailabilityZones(db),
        Hypervisors(db, chosen),
        Services(db),
        Aggregates(db),
        Hosts(db),
        ExternalEvents(db),
        AuditLog(db),
        Quotas(db),
        Usages(db, chosen),
        ImagesProxy(db, chosen),
        ImageMetadata(db),
        SecurityGroups(db, chosen),
        Networks(db, chosen),
        Volumes(db, chosen, of_volumes),
        Extensions(),
        Removed(),
    )
    pipeline = Pipeline(http, "compute", FAULTS, versions, legacy_request_id=True, strict_query=gates.NO_OTHER_QUERY)
    mounts = [("", Versions(versions)), *(("/v2.1", resource) for resource in resources)]
    return ApiApp(pipeline, mounts, project_in_path=True, exact=True, plain=(OLD.encode(), b"v2.1"))
