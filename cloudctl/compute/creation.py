"""Creating servers: everything that is checked, and everything that is written, in one transaction.

Reference: compute.md, section 5. Scheduling comes later, in the boot workflow.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen
from sqlalchemy import insert

from cloudctl import tasks
from cloudctl.compute import flavors, groups, injected_files, keypairs, kinds, networking, quotas, volume_images
from cloudctl.compute.block_devices import Disks, NewDevice, arrange
from cloudctl.compute.hostnames import hostname
from cloudctl.compute.injected_files import NewFile
from cloudctl.compute.networking import Automatic, NewInterface
from cloudctl.compute.options import ComputeOptions
from cloudctl.compute.placing import Place, asked_place
from cloudctl.compute.remembered import remembered
from cloudctl.compute.root_volumes import add_volumes, check_bootable, check_unshared, volume_zone
from cloudctl.compute.states import BUILDING, SCHEDULING
from cloudctl.compute.tables import Flavor, Server
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, Forbidden, Invalid, NotFound
from cloudctl.image import images, properties
from cloudctl.network import security_groups
from cloudctl.network.options import NetworkOptions
from cloudctl.rest.caller import Caller
from cloudctl.volume.options import VolumeOptions

NAME_LENGTH = 255
# Of one request, whatever the quota is: they are written in one transaction.
MOST_AT_ONCE = 1000
PASSWORD_LENGTH = 12
# Neither 0 and O nor 1 and l.
PASSWORD_LETTERS = "".join(sorted(set(string.ascii_letters + string.digits) - set("0O1lI")))
RESERVATION_LENGTH = 8
RESERVATION_LETTERS = string.ascii_lowercase + string.digits


# Built once: building costs more than running it.
_new = insert(Server)


@frozen
class NewServer:
    """What a caller requests. `user_data` is base64; ids are those of the request."""

    name: str
    flavor_id: str
    image_id: str = ""
    networks: Sequence[NewInterface] | Automatic = ()
    devices: Sequence[NewDevice] = ()
    knows_multiattach: bool = False  # or else no volume is shared with another server
    description: str | None = None
    hostname: str | None = None
    dots_in_hostname: bool = False
    key_name: str | None = None
    security_groups: Sequence[str] = ()
    user_data: str | None = None
    zone: str | None = None  # zone, zone:host, zone:host:node, zone::node
    host: str | None = None
    node: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)
    admin_password: str | None = field(default=None, repr=False)
    config_drive: bool = False
    personality: Sequence[NewFile] = ()
    least: int = 1
    most: int = 1
    disk_config: str = "MANUAL"
    access_ip_v4: str = ""
    access_ip_v6: str = ""
    tags: Sequence[str] = ()
    trusted_certs: Sequence[str] = ()
    hints: Mapping[str, Any] = field(factory=dict)


@frozen
class Created:
    """What is reported, once, about the first of the new servers."""

    id: str
    name: str
    reservation_id: str
    admin_password: str = field(repr=False)
    security_groups: tuple[str, ...]


@frozen
class _Plan:
    """What all servers of one request share, once the request has been checked."""

    flavor: Flavor
    place: Place
    disks: Disks
    image_properties: dict[str, str]
    interfaces: list[NewInterface]
    public_key: str | None
    personality: list[dict[str, str]]
    group_ids: tuple[str, ...] | None
    group_id: str | None
    admin_password: str = field(repr=False)
    reservation_id: str


def create(
    conn: Connection,
    caller: Caller,
    new: NewServer,
    options: ComputeOptions,
    volume_options: VolumeOptions,
    network_options: NetworkOptions,
) -> Created:
    """Write the servers and submit their boots. Raises Invalid, Forbidden, Conflict, OverQuota."""
    plan = _plan(conn, caller, new, options, volume_options, network_options)
    number = quotas.take_servers(
        conn,
        caller.project_id,
        caller.user_id,
        new.least,
        new.most,
        plan.flavor.vcpus,
        plan.flavor.memory_mib,
    )
    number = min(number, MOST_AT_ONCE)
    if number < new.least:
        raise Invalid(f"min_count must be <= {MOST_AT_ONCE}: no request creates more servers.")
    if new.metadata:
        quotas.check_metadata(conn, caller.project_id, len(new.metadata))
    if plan.group_id is not None:
        groups.join(conn, caller, plan.group_id, number)
    made = [_insert(conn, caller, new, plan, index) for index in range(number)]
    for server in made:
        _equip(conn, caller, server, plan, options, volume_options)
    groups_told = tuple(new.security_groups) or ("default",)
    return Created(made[0].id, made[0].name, plan.reservation_id, plan.admin_password, groups_told)


def _plan(
    conn: Connection,
    caller: Caller,
    wanted: NewServer,
    options: ComputeOptions,
    volume_options: VolumeOptions,
    network_options: NetworkOptions,
) -> _Plan:
    if wanted.least > wanted.most:
        raise Invalid("min_count must be <= max_count")
    if wanted.most > 1:
        _refuse_for_many(wanted)
    place = asked_place(conn, caller, wanted.zone, wanted.host, wanted.node)
    flavor = wanted_flavor(conn, caller, wanted.flavor_id)
    _check_image(conn, caller, wanted.image_id, flavor)
    said = properties.of(conn, [wanted.image_id])[wanted.image_id] if wanted.image_id else {}
    devices, image_id = _devices(wanted, said)
    disks = arrange(devices, image_id, flavor.ephemeral_gib, flavor.swap_mib, options)
    if not image_id:  # a request with an image as well as the volume vouches for what is, or will be, on it
        check_bootable(conn, caller, disks.volumes)
    if not wanted.knows_multiattach:
        check_unshared(conn, caller, disks.volumes)
    if disks.image_id and not flavor.disk_gib and not caller.may("compute:servers:create:zero_disk_flavor"):
        raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
    public_key = own_public_key(conn, caller, wanted.key_name)
    interfaces = networking.chosen(conn, caller, wanted.networks, network_options)
    return _Plan(
        flavor=flavor,
        place=volume_zone(conn, caller, place, disks.volumes, options, volume_options),
        disks=disks,
        image_properties=remembered(said) if disks.image_id else {},
        interfaces=interfaces,
        public_key=public_key,
        personality=injected_files.take(conn, caller.project_id, wanted.personality),
        group_ids=_security_groups(conn, caller, wanted.security_groups),
        group_id=_group(wanted.hints),
        admin_password=wanted.admin_password or password(),
        reservation_id=f"r-{_letters(RESERVATION_LETTERS, RESERVATION_LENGTH)}",
    )


def password() -> str:
    return _letters(PASSWORD_LETTERS, PASSWORD_LENGTH)


def _letters(alphabet: str, length: int) -> str:
    """Letters nobody can guess. Choosing them one at a time would take as long as inserting a server."""
    return "".join(secrets.SystemRandom().choices(alphabet, k=length))


def _refuse_for_many(wanted: NewServer) -> None:
    if any(device.source_type == "volume" for device in wanted.devices):
        raise Invalid("Cannot attach one or more volumes to multiple instances")
    if wanted.hostname:
        raise Invalid("A hostname cannot be given to more than one server.")
    if isinstance(wanted.networks, str):
        return
    if any(wish.fixed_ip for wish in wanted.networks):
        raise Invalid("Invalid fixed IP Address: a fixed IP cannot be given to more than one server.")
    if any(wish.port_id for wish in wanted.networks):
        raise Invalid("Unable to launch multiple instances with a single configured port ID.")


def wanted_flavor(conn: Connection, caller: Caller, flavor_id: str) -> Flavor:
    """The flavor that a body names. Raises Invalid for one that the caller cannot use."""
    try:
        flavor = flavors.visible(conn, caller, flavor_id)
    except NotFound as error:
        raise Invalid(error.message) from None
    if flavor.disabled:
        raise Invalid(flavors.not_found(flavor_id).message)
    return flavor


def _check_image(conn: Connection, caller: Caller, image_id: str, flavor: Flavor) -> None:
    if not image_id:
        return
    try:
        image = images.visible(conn, caller, image_id)
    except NotFound:
        raise Invalid("Can not find requested image") from None
    check_fit(image, flavor.memory_mib, flavor.disk_gib)


def _devices(wanted: NewServer, said: Mapping[str, str]) -> tuple[Sequence[NewDevice], str]:
    """The devices of the request and of the image, and the image of the root disk, "" if that is a volume."""
    if not wanted.image_id:
        return wanted.devices, ""
    of_image = volume_images.devices(said)
    if not of_image:
        return wanted.devices, wanted.image_id
    return volume_images.override(of_image, tuple(wanted.devices)), ""


def check_fit(image: Any, memory_mib: int, disk_gib: int) -> None:
    """Raises Invalid for an image without data, or one that a flavor of this size cannot hold."""
    if image.status != images.ACTIVE:
        raise Invalid(f"Image {image.id} is not active.")
    check_size(image, memory_mib, disk_gib)


def check_size(image: Any, memory_mib: int, disk_gib: int) -> None:
    """Raises Invalid for an image that a flavor of this size cannot hold."""
    if image.min_ram > memory_mib:
        raise Invalid("Flavor's memory is too small for requested image.")
    # A flavor without a disk takes the image's size.
    if disk_gib and (image.min_disk > disk_gib or (image.virtual_size or image.size or 0) > disk_gib << 30):
        raise Invalid("Flavor's disk is too small for requested image.")


def own_public_key(conn: Connection, caller: Caller, key_name: str | None) -> str | None:
    """The public key of the caller's key pair of this name. Raises Invalid if there is none."""
    if not key_name:
        return None
    row = keypairs.find(conn, caller.user_id, key_name)
    if row is None:
        raise Invalid("Invalid key_name provided.")
    return str(row.public_key)


def _security_groups(conn: Connection, caller: Caller, names: Sequence[str]) -> tuple[str, ...] | None:
    """Their ids; None: the default one, which the network service creates if it is missing."""
    if not names or list(names) == ["default"]:
        return None
    try:
        return tuple(security_groups.resolve(conn, caller.project_id, list(names)))
    except (NotFound, Conflict) as error:
        raise Invalid(error.message) from None


def _group(hints: Mapping[str, Any]) -> str | None:
    group = hints.get("group")
    return str(group) if group else None


def _numbered(name: str, number: int) -> str:
    """The name of one of many servers: the number is not what a long name lacks."""
    end = f"-{number}"
    return name[: NAME_LENGTH - len(end)] + end


def _insert(conn: Connection, caller: Caller, wanted: NewServer, plan: _Plan, index: int) -> Server:
    server_id = new_id()
    name = _numbered(wanted.name, index + 1) if wanted.most > 1 else wanted.name
    own_hostname = wanted.hostname or hostname(name, server_id, dots=wanted.dots_in_hostname)
    server = Server(
        id=server_id,
        project_id=caller.project_id,
        user_id=caller.user_id,
        name=name,
        description=wanted.description,
        hostname=own_hostname,
        vm_state=BUILDING,
        task_state=SCHEDULING,
        flavor_id=plan.flavor.id,
        flavor={
            **flavors.embedded(plan.flavor),
            "ephemeral": plan.disks.ephemeral_gib,
            "swap": plan.disks.swap_mib,
        },
        vcpus=plan.flavor.vcpus,
        memory_mib=plan.flavor.memory_mib,
        image_id=plan.disks.image_id,
        key_name=wanted.key_name,
        public_key=plan.public_key,
        user_data=wanted.user_data,
        admin_password=plan.admin_password,
        config_drive=wanted.config_drive,
        personality=plan.personality,
        disk_config=wanted.disk_config,
        access_ip_v4=wanted.access_ip_v4,
        access_ip_v6=wanted.access_ip_v6,
        metadata=dict(wanted.metadata),
        tags=joined_tags(wanted.tags),
        trusted_certs=list(wanted.trusted_certs),
        zone=plan.place.zone,
        pinned_zone=plan.place.pinned_zone,
        group_id=plan.group_id,
        scheduling={
            "hints": dict(wanted.hints),
            "zone": plan.place.zone,
            "forced": plan.place.forced,
            "requested": plan.place.requested,
            "image": plan.image_properties,
        },
        security_groups=list(wanted.security_groups) or ["default"],
        reservation_id=plan.reservation_id,
        launch_index=index,
        created_at=caller.now,
        updated_at=caller.now,
    )
    values = server._asdict()
    del values["number"]  # The database chooses it.
    return server._replace(number=conn.execute(_new, values).key)


def _equip(
    conn: Connection,
    caller: Caller,
    server: Server,
    plan: _Plan,
    options: ComputeOptions,
    volume_options: VolumeOptions,
) -> None:
    """The server's ports and volumes, and the task that boots it."""
    for position, wish in enumerate(plan.interfaces):
        networking.add(conn, server, wish, position, caller.now, caller, plan.group_ids)
    add_volumes(conn, caller, server, plan.disks, options, volume_options)
    kind = kinds.BOOT_WITH_VOLUMES if plan.disks.volumes else kinds.BOOT
    tasks.submit(conn, kind, server.id, caller, deadline=options.build_timeout)


def joined_tags(tags: Sequence[str]) -> str:
    """As the column holds them: ",one,two,", each once, in alphabetical order."""
    return f",{','.join(sorted(set(tags)))}," if tags else ""


def split_tags(text: str) -> list[str]:
    return text[1:-1].split(",") if text else []
