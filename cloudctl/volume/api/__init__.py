"""The block storage API's tree. Microversions 3.0 to 3.71; a project id may follow the version in every path."""

from __future__ import annotations

from collections.abc import Mapping

from cloudctl.db import Database
from cloudctl.drivers.interfaces import IConsistentSnapshots, IHypervisor, IVolumeBackend
from cloudctl.log_levels import LogLevels
from cloudctl.rest.app import ApiApp
from cloudctl.rest.declared import Resource
from cloudctl.rest.faults import NAMES, Faults, named, schema_problems
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.volume.api.actions import VolumeActions
from cloudctl.volume.api.attaching import Attaching
from cloudctl.volume.api.attachments import Attachments
from cloudctl.volume.api.backup_records import BackupRecords
from cloudctl.volume.api.backups import Backups
from cloudctl.volume.api.cloud import Extensions, ResourceFilters, Zones
from cloudctl.volume.api.consistency import ConsistencyGroupActions, cgsnapshots, consistency_groups
from cloudctl.volume.api.encryption import TypeEncryptions
from cloudctl.volume.api.group_types import GROUP_TYPES, GroupTypeSpecs
from cloudctl.volume.api.groups import GroupActions, GroupSnapshotActions, group_snapshots_of, volume_groups
from cloudctl.volume.api.links import VERSION
from cloudctl.volume.api.logs import Logs
from cloudctl.volume.api.managing import Managing
from cloudctl.volume.api.messages import MESSAGES
from cloudctl.volume.api.metadata import SNAPSHOT, VOLUME, Metadata
from cloudctl.volume.api.moving import Moving
from cloudctl.volume.api.pools import Pools
from cloudctl.volume.api.qos_specs import QOS_SPECS, QosSpecsOfTypes
from cloudctl.volume.api.quotas import Limits, QuotaSets
from cloudctl.volume.api.services import Clusters, Hosts, Services
from cloudctl.volume.api.snapshots import Snapshots
from cloudctl.volume.api.transfers import NEWER, TRANSFERS, Acceptance
from cloudctl.volume.api.types import DefaultTypes, TypeSpecs, volume_types
from cloudctl.volume.api.uploading import Reimaging, Uploading
from cloudctl.volume.api.versions import VERSIONS, VersionDocuments
from cloudctl.volume.api.volumes import Volumes
from cloudctl.volume.options import VolumeOptions

FAULTS = Faults(named({**NAMES, 413: "overLimit"}, "computeFault"), schema_problems, tells_when=True)
# What access rules may also call this service.
TYPES = ("block-storage", "volumev3")


def build(
    http: Http,
    db: Database,
    backend: IVolumeBackend,
    pools: Mapping[str, IVolumeBackend],
    options: VolumeOptions,
    log_levels: LogLevels | None,
    hypervisor: IHypervisor,
) -> ApiApp:
    """`pools`: where volumes are; `backend`: all of them as one; `hypervisor`: queried only for what it can do.

    A backend is called while a request waits only to connect hosts, and for its capacity and capabilities.
    """
    freezing = tuple(host for host, each in pools.items() if IConsistentSnapshots.providedBy(each))
    resources = (
        Volumes(db, options),
        Metadata(db, VOLUME),
        VolumeActions(db, options),
        Moving(db, pools, options, hypervisor),
        Managing(db, backend, pools, options),
        Attaching(db, backend),
        Attachments(db, backend),
        Snapshots(db, backend, options),
        Metadata(db, SNAPSHOT),
        Backups(db, backend, options),
        BackupRecords(db, options),
        Uploading(db, backend),
        Reimaging(db, backend),
        Resource(db, volume_types(options)),
        TypeSpecs(db),
        TypeEncryptions(db),
        Resource(db, QOS_SPECS),
        QosSpecsOfTypes(db),
        Resource(db, GROUP_TYPES),
        GroupTypeSpecs(db),
        Resource(db, volume_groups(options, freezing)),
        GroupActions(db, options, freezing),
        Resource(db, group_snapshots_of(options, freezing)),
        GroupSnapshotActions(db),
        Resource(db, consistency_groups(options, freezing)),
        ConsistencyGroupActions(db, options, freezing),
        Resource(db, cgsnapshots(options, freezing)),
        Resource(db, TRANSFERS),
        Resource(db, NEWER),
        Acceptance(db, backend, options),
        DefaultTypes(db),
        QuotaSets(db, options),
        Limits(db, options),
        Resource(db, MESSAGES),
        Services(db, options),
        Logs(db, options, log_levels),
        Hosts(db, options),
        Clusters(),
        Pools(db, pools),
        Zones(options),
        Extensions(),
        ResourceFilters(options),
    )
    pipeline = Pipeline(http, "volume", FAULTS, VERSIONS, legacy_request_id=True, types=TYPES)
    mounts = [("", VersionDocuments()), *((VERSION, resource) for resource in resources)]
    return ApiApp(pipeline, mounts, project_in_path=True, exact=True)
