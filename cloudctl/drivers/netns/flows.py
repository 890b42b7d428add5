"""Connections tracked by conntrack. Connections that a rule once let in go on without it, so when rules become narrower
they are forgotten: those that the new rules allow are tracked again from their next packet.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_interface

from cloudctl.drivers.netns.checked import address, networks_of
from cloudctl.drivers.netns.records import Records
from cloudctl.drivers.netns.spoofing import addresses
from cloudctl.drivers.specs import PortSpec, RouterSpec, SecurityGroupSpec


def port_narrowed(old: PortSpec, new: PortSpec | None) -> bool:
    """Whether something that could reach the port, or be reached by it, no longer may; None: the port is gone."""
    if new is None or (new.port_security and not old.port_security):
        return True
    lost_addresses = set(addresses(old)) - set(addresses(new))
    return bool(lost_addresses or set(old.security_groups) - set(new.security_groups))


def group_narrowed(old: SecurityGroupSpec, new: SecurityGroupSpec) -> bool:
    return bool(set(old.rules) - set(new.rules))


def zones(records: Records, port: PortSpec) -> set[int]:
    """Where connections of the port are tracked: in its own network's zone, and, since the port is a member of its
    groups, in the zones of all ports with rules for these members.
    """
    referring = {
        group.id
        for group in records.groups.rows.values()
        if any(rule.remote_group_id in port.security_groups for rule in group.rules)
    }
    networks = {port.network_id}
    for each in records.ports.rows.values():
        if not referring.isdisjoint(each.spec.security_groups):
            networks.add(each.spec.network_id)
    found = (records.networks.rows[id] for id in networks if id in records.networks.rows)
    return {0 if each.spec.network_type == "flat" else each.index for each in found}


def forget_lines(zones: Iterable[int], of: Iterable[str]) -> list[str]:
    """For `conntrack -R -`: all connections from and to these addresses and CIDRs."""
    known = list(of)
    return [
        f"-D -f ipv{version} -w {zone} {side} {each}"
        for zone in sorted(zones)
        for version in (4, 6)
        for each in networks_of(known, version)
        for side in ("-s", "-d")
    ]


def surrendered(old: RouterSpec, new: RouterSpec) -> set[str]:
    """The IPv4 addresses that the router translates no longer, or otherwise. Connections keep their translation as long
    as packets come: a guest would go on with an address that may be another's by now."""
    return {public for public, _ in _translations(old) - _translations(new)}


def _translations(router: RouterSpec) -> set[tuple[str, object]]:
    """Outside address → what it stands for."""
    found: set[tuple[str, object]] = {
        (address(each.floating_address), address(each.fixed_address)) for each in router.floating_ips
    }
    for each in router.port_forwardings:
        leads_to = (each.protocol, each.external, address(each.fixed_address), each.internal, each.count)
        found.add((address(each.floating_address), leads_to))
    own = (ip_interface(each) for way in router.ways_out for each in way.addresses)
    return found | {(str(each.ip), router.enable_snat) for each in own if each.version == 4}


def cut_lines(outside: Iterable[str]) -> list[str]:
    """For `conntrack -R -`: all connections that a router translates to or from these addresses."""
    return [f"-D -f ipv4 {end} {each}" for each in outside for end in ("--orig-dst", "--reply-dst")]
