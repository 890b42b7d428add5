"""A tenant of a cluster: servers of the guest image on a network of their own, with addresses outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from attrs import define
from openstack.exceptions import HttpException

from tests.drivers.netns.probes import connects
from tests.live import guest_image, watching
from tests.live.cluster import Admin, Cluster, until
from tests.live.watching import COUNT, GuestDied, GuestHangs, Watch

MEMORY_MIB = 96
# QEMU 7.2 aborts now and then if a restarted libvirtd cancels a migration that it finds changing sides: mostly in
# bdrv_inactivate_recurse.
ABORTED = ": Assertion `"
QUIET = 2.0  # seconds after which a missing packet counts as dropped


@define(eq=False)
class Guest:
    id: str
    port: str
    inner: str
    floating: str


@define(eq=False)
class Tenant:
    cluster: Cluster
    admin: Admin
    image: str
    flavor: str
    network: str
    outside: str
    forgiven: int = 0  # failures because QEMU aborted

    @classmethod
    def moved_in(cls, cluster: Cluster, admin: Admin) -> Tenant:
        cloud, files = admin.cloud, guest_image.ensure()

        def uploaded(name: str, kind: str, **more: str) -> str:
            wish = {"name": name, "disk_format": kind, "container_format": kind if kind != "qcow2" else "bare", **more}
            return str(cloud.image.create_image(**wish, data=(files / name).read_bytes(), validate_checksum=False).id)

        # Without the boot loader, which is half of a start.
        direct = {"kernel_id": uploaded("vmlinuz", "aki"), "ramdisk_id": uploaded("initrd", "ari")}
        image = uploaded("guest.qcow2", "qcow2", **direct, os_command_line=guest_image.KERNEL_ARGUMENTS)
        flavor = cloud.compute.create_flavor(name="small", ram=MEMORY_MIB, vcpus=1, disk=1).id
        cloud.compute.create_keypair(name="key", public_key=cluster.key.with_suffix(".pub").read_text())
        network = cloud.network.create_network(name="inner").id
        subnet = cloud.network.create_subnet(network_id=network, ip_version=4, cidr="10.7.0.0/24").id
        outside = cloud.network.find_network("public", ignore_missing=False).id
        router = cloud.network.create_router(name="way out", external_gateway_info={"network_id": outside}).id
        cloud.network.add_interface_to_router(router, subnet_id=subnet)
        return cls(cluster, admin, image, flavor, network, outside)

    def booting(self, host: str, **more: Any) -> str:
        """The id of a server that is being built."""
        wish = {"networks": [{"uuid": self.network}], "key_name": "key", "config_drive": True, **more}
        return self.admin.boot(host, self.image, self.flavor, **wish)

    def guest(self, id: str) -> Guest:
        """The guest, once it is running with a floating address."""
        network = self.admin.cloud.network
        self.admin.settled(id, "ACTIVE")
        [port] = network.ports(device_id=id)
        floating = network.create_ip(floating_network_id=self.outside, port_id=port.id).floating_ip_address
        return Guest(id, port.id, port.fixed_ips[0]["ip_address"], floating)

    def let_in(self, protocol: str, port: int | None = None) -> str:
        """The id of a rule that lets this in."""
        network = self.admin.cloud.network
        [group] = network.security_groups(name="default", project_id=self.admin.cloud.current_project_id)
        ports = {} if port is None else {"port_range_min": port, "port_range_max": port}
        wish = {"security_group_id": group.id, "direction": "ingress", "protocol": protocol, **ports}
        return str(network.create_security_group_rule(**wish).id)

    @contextmanager
    def forwarded(self, id: str, outer: int, inner: int) -> Iterator[str]:
        """An address with a port that leads to the server's; a server has such a port, or an address of its own."""
        network = self.admin.cloud.network
        [port] = network.ports(device_id=id)
        made = network.create_ip(floating_network_id=self.outside)
        to = {"internal_port_id": port.id, "internal_ip_address": port.fixed_ips[0]["ip_address"], "protocol": "tcp"}
        forwarding = {"floatingip_id": made.id, **to, "internal_port": inner, "external_port": outer}
        made_too = network.create_port_forwarding(**forwarding)
        yield str(made.floating_ip_address)
        network.delete_port_forwarding(made_too, made.id)
        network.delete_ip(made.id)

    def connects(self, address: str, port: int) -> bool:
        return connects(self.cluster.wires.outside, address, port, QUIET)

    def on_one_side(self, guest: Guest) -> str:
        """The host that has the guest, according to libvirt, the server's record, its only binding, and OVN."""

        def settled() -> Any:
            if self.aborted(guest) > self.forgiven:
                self.starts_again(guest)
            found = self.admin.server(guest.id)
            return found if found.status == "ACTIVE" and found.task_state is None else None

        def found() -> tuple[object, ...]:
            server = self.admin.server(guest.id)
            return server.status, server.task_state, server.compute_host, self.cluster.having(guest.id)

        host = str(until(f"server {guest.id} is ACTIVE", settled, found).compute_host)
        # A restarted libvirtd finds what was on its way to it, and drops it.
        until(f"{host} alone has the guest", lambda: settled() and self.cluster.having(guest.id) == {host: True}, found)
        bindings = self.admin.cloud.network.get(f"/ports/{guest.port}/bindings").json()["bindings"]
        assert [(each["host"], each["status"]) for each in bindings] == [(host, "ACTIVE")]
        until(f"the chassis of {host} alone has the port", lambda: self.chassis(guest) == [host])
        return host

    def aborted(self, guest: Guest) -> int:
        """How often a QEMU of the guest aborted on a failed assertion."""
        logs = [
            log for host in self.cluster.hosts.values() for log in host.directory.glob(f"private*/qemu/{guest.id}.log")
        ]
        return sum(log.read_text(errors="replace").count(ABORTED) for log in logs)

    def starts_again(self, guest: Guest) -> None:
        """Start it again after its QEMU was lost. Raises GuestDied."""
        self.forgiven = self.aborted(guest)
        self.admin.settled(guest.id, "SHUTOFF")
        self.admin.cloud.compute.start_server(guest.id)
        self.admin.settled(guest.id, "ACTIVE")
        raise GuestDied(f"the QEMU of {guest.id} aborted")

    def deaths(self, guest: Guest) -> int:
        """How many kernels of the guest have died so far. It is restarted at once."""

        def told() -> str | None:
            with suppress(HttpException):  # its host does not answer for a moment
                return self.admin.console(guest.id) or " "
            return None

        return str(until(f"the console of {guest.id}", told)).count("Kernel panic")

    def chassis(self, guest: Guest) -> list[str]:
        """Where OVN has its port: the main chassis, and others."""
        southbound = self.cluster.central.southbound
        names = {each["_uuid"][1]: each["name"] for each in southbound.rows("Chassis", "_uuid", "name")}
        columns = "logical_port", "chassis", "additional_chassis"
        [row] = [each for each in southbound.rows("Port_Binding", *columns) if each["logical_port"] == guest.port]
        return [names[id] for column in columns[1:] for id in _uuids(row[column])]


def _uuids(value: list[Any]) -> list[str]:
    """UUIDs in a column of references, as in JSON."""
    kind, found = value
    return [found] if kind == "uuid" else [each[1] for each in found]


@contextmanager
def watched(tenant: Tenant, guest: Guest) -> Iterator[Watch]:
    """Whether the guest goes on."""
    cluster = tenant.cluster
    until("the guest can be reached", lambda: cluster.say(guest.floating, "hostname"))
    counting, deaths = cluster.ssh(guest.floating, COUNT), partial(tenant.deaths, guest)
    try:
        with watching.watched(counting, deaths, cluster.wires.outside, guest.floating) as watch:
            yield watch
    except GuestHangs:
        tenant.admin.cloud.compute.reboot_server(guest.id, "HARD")
        tenant.admin.settled(guest.id, "ACTIVE")
        raise
