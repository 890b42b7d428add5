"""The gateway of a router: its port on an external network. Reference: network.md, section 7; network-rules.md, 6."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import frozen
from sqlalchemy import bindparam, delete, insert, select

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.errors import Conflict, NotFound
from cloudctl.network import (
    associations,
    extra_routes,
    ipam,
    kinds,
    ndp_proxies,
    networks,
    ports,
    router_hosts,
    router_ports,
    standard,
)
from cloudctl.network.fixed_ips import FixedIpRequest
from cloudctl.network.ports import NewPort
from cloudctl.network.router_ports import bad
from cloudctl.network.tables import Port, Router, RouterPort, Subnet
from cloudctl.tasks import Origin

# Built once: building a statement costs more than running it.
_policies = select(Port.id, Port.qos_policy_id).where(
    Port.id.in_(bindparam("ports", expanding=True)), Port.qos_policy_id.is_not(None)
)


@frozen
class Gateway:
    """`fixed_ips` None: what a port gets by default, or what the present gateway on that network has.

    `sets_policy`: whether `qos_policy_id` counts; if not, the policy is none, or that of the present gateway.
    `sets_snat`: whether `enable_snat` counts where it need not, since the router has a gateway; it is for all of them.
    """

    network_id: str
    enable_snat: bool = True
    fixed_ips: tuple[FixedIpRequest, ...] | None = None
    qos_policy_id: str | None = None
    sets_policy: bool = False
    sets_snat: bool = False


def set(conn: Connection, router: Router, wanted: Gateway, now: datetime, by: Origin) -> None:
    """Give a locked router this gateway in place of its present one. Its network is one that the caller may see.

    Raises NotFound, Invalid, Conflict (in use by floating IPs or routes; no address left; an address is taken).
    """
    _check_network(conn, wanted)
    present = router_ports.gateways_of(conn, [router.id]).get(router.id)
    if present is not None and present.network_id == wanted.network_id:
        _readdress(conn, router, present.port_id, wanted, now, by)
        ndp_proxies.check_still_possible(conn, router)
        answers = router.enable_ndp_proxy
    else:
        if present is not None:
            _remove(conn, router, present, now, by)
        _add(conn, router, wanted, 0 if present is None else present.position, now, by)
        answers = router.enable_ndp_proxy and ndp_proxies.is_possible(conn, router.id)
    placed = router_hosts.of_connected(conn, router)
    _changed(conn, router, now, by, enable_snat=wanted.enable_snat, enable_ndp_proxy=answers, **placed)


def clear(conn: Connection, router: Router, now: datetime, by: Origin) -> None:
    """Remove any gateways from a locked router. Raises Conflict if floating IPs or routes need one."""
    if take_away(conn, router, now, by):
        _changed(conn, router, now, by, enable_snat=True, enable_ndp_proxy=False)


def take_away(conn: Connection, router: Router, now: datetime, by: Origin) -> bool:
    """Remove the ports that are gateways, and say whether there were any. Raises Conflict if floating IPs need one."""
    present = router_ports.all_gateways_of(conn, [router.id]).get(router.id, [])
    for each in present:
        _remove(conn, router, each, now, by)
    return bool(present)


# -- several


def add(conn: Connection, router: Router, wanted: Sequence[Gateway], now: datetime, by: Origin) -> None:
    """Give a locked router further gateways. Raises as `set`."""
    present = router_ports.all_gateways_of(conn, [router.id]).get(router.id, [])
    position = max((each.position for each in present), default=-1) + 1
    for count, each in enumerate(wanted):
        _check_network(conn, each)
        _add(conn, router, each, position + count, now, by)
    first = {} if present or not wanted else {"enable_snat": wanted[0].enable_snat}
    _changed(conn, router, now, by, **first, **router_hosts.of_connected(conn, router))


def alter(conn: Connection, router: Router, wanted: Sequence[Gateway], now: datetime, by: Origin) -> None:
    """Change the gateways of a locked router that `wanted` means: see `_meant`. Raises as `set`, and NotFound.

    A router without any gets these: clients that know of several gateways set the first one this way, too.
    """
    if not router_ports.all_gateways_of(conn, [router.id]):
        add(conn, router, wanted, now, by)
        return
    for port, each in zip(_meant(conn, router, wanted), wanted, strict=True):
        _readdress(conn, router, port.port_id, each, now, by)
    snat = next((each.enable_snat for each in wanted if each.sets_snat), router.enable_snat)
    _changed(conn, router, now, by, enable_snat=snat)


def remove(conn: Connection, router: Router, wanted: Sequence[Gateway], now: datetime, by: Origin) -> None:
    """Remove the gateways that `wanted` means from a locked router. Raises NotFound, Conflict."""
    for port in _meant(conn, router, wanted):
        _remove(conn, router, port, now, by)
    _changed(conn, router, now, by)


def _meant(conn: Connection, router: Router, wanted: Sequence[Gateway]) -> list[RouterPort]:
    """The gateway that each one means: on its network, one that has an address it names, or the only other one.

    Raises NotFound, Invalid.
    """
    left = router_ports.all_gateways_of(conn, [router.id]).get(router.id, [])
    addresses = addresses_of(conn, left)
    found: dict[int, RouterPort] = {}
    for position, each in enumerate(wanted):
        named = {wish.ip_address for wish in each.fixed_ips or () if wish.ip_address is not None}
        for row in left:
            has = {address["ip_address"] for address in addresses.get(row.port_id, ())}
            if row.network_id == each.network_id and named & has:
                found[position] = row
                left = [other for other in left if other is not row]
                break
    for position, each in enumerate(wanted):
        if position not in found:
            row = _only(router, each, left)
            found[position] = row
            left = [other for other in left if other is not row]
    return [found[position] for position in range(len(wanted))]


def _only(router: Router, wanted: Gateway, left: Sequence[RouterPort]) -> RouterPort:
    rows = [row for row in left if row.network_id == wanted.network_id]
    if not rows:
        message = f"Router {router.id} has no external gateway on network {wanted.network_id}."
        raise NotFound(message, type="RouterGatewayNotFound")
    if len(rows) > 1:
        raise bad(f"Router {router.id} has several gateways on network {wanted.network_id}: an address must be named")
    return rows[0]


# -- one


def _check_network(conn: Connection, wanted: Gateway) -> None:
    network = networks.pinned(conn, wanted.network_id)
    if not network.external:
        raise bad(f"Network {network.id} is not an external network")


def _changed(conn: Connection, router: Router, now: datetime, by: Origin, **columns: Any) -> None:
    standard.change(conn, Router.table, router.id, now, **columns)
    extra_routes.check_reachable(conn, router.id)
    tasks.submit_once(conn, kinds.ENSURE_ROUTER, router.id, by)


def _add(conn: Connection, router: Router, wanted: Gateway, position: int, now: datetime, by: Origin) -> None:
    # The port belongs to no project: the router's owner sees what `external_gateway_info` shows.
    new = NewPort(
        networks.pinned(conn, wanted.network_id),
        fixed_ips=wanted.fixed_ips,
        device_id=router.id,
        device_owner=router_ports.GATEWAY,
        port_security_enabled=False,
        qos_policy_id=wanted.qos_policy_id,
    )
    port = ports.create(conn, "", new, now, by)
    _check(conn, router, port.id)
    made = RouterPort(
        port_id=port.id, router_id=router.id, network_id=wanted.network_id, is_gateway=True, position=position
    )
    conn.execute(insert(RouterPort).values(**made._asdict()))


def _readdress(conn: Connection, router: Router, port_id: str, wanted: Gateway, now: datetime, by: Origin) -> None:
    changes: dict[str, Any] = {}
    if wanted.sets_policy:
        changes["qos_policy_id"] = wanted.qos_policy_id
    if wanted.fixed_ips is not None:
        changes["fixed_ips"] = wanted.fixed_ips
    if not changes:
        return
    ports.change(conn, ports.get(conn, port_id, lock=True), changes, now, by)
    _check(conn, router, port_id)


def _remove(conn: Connection, router: Router, present: RouterPort, now: datetime, by: Origin) -> None:
    gateways = router_ports.all_gateways_of(conn, [router.id]).get(router.id, ())
    left = {row.network_id for row in gateways if row.port_id != present.port_id}
    needed = {row.floating_network_id for row in associations.of_router(conn, router.id)} - left
    if present.network_id in needed:
        raise Conflict(
            f"Gateway cannot be updated for router {router.id}, since a gateway to external network "
            f"{present.network_id} is required by one or more floating IPs.",
            type="RouterExternalGatewayInUseByFloatingIp",
        )
    if not left:
        ndp_proxies.check_gateway_unused(conn, router.id)
    conn.execute(delete(RouterPort).where(RouterPort.port_id == present.port_id))
    ports.discard(conn, present.port_id, now, by)


def _check(conn: Connection, router: Router, port_id: str) -> None:
    """Raises Invalid for addresses that the external network's own router has, or that are also inside."""
    for address in ipam.of_ports(conn, [port_id]).get(port_id, ()):
        gateway_ip = conn.scalar(select(Subnet.gateway_ip).where(Subnet.id == address.subnet_id))
        if address.ip_address == gateway_ip:
            raise bad(f"External IP {address.ip_address} is the same as the gateway IP")
    router_ports.check_addresses(conn, router.id, port_id, router_ports.subnets_of_port(conn, port_id), True)


def policies_of(conn: Connection, gateways: Sequence[RouterPort]) -> dict[str, str]:
    """Id of a gateway's port → its QoS policy. Ports without one are missing."""
    rows = standard.rows(conn, _policies, ports=[each.port_id for each in gateways])
    return {id: policy for id, policy in rows if policy is not None}


def addresses_of(conn: Connection, gateways: Sequence[RouterPort]) -> dict[str, list[dict[str, str]]]:
    """Id of a gateway's port → its addresses, as `external_fixed_ips` has them."""
    return ports.fixed_ips_of(conn, [each.port_id for each in gateways])
