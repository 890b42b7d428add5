"""The nftables rules of a host: spoofing protection, and what security groups let through.

The kernel cannot track connections in the bridge family, so this takes two tables. `table bridge` sees frames with
their real interfaces: it drops spoofed frames, and marks the rest with the index of the port that they come from (lower
half of the mark) and of the port that they go to (upper half). Then br_netfilter shows the packets to `table inet`,
with their bridge as their interface: there connections are tracked, in one zone per network since addresses may
overlap, and the chains of the two ports decide. See `spoofing` for the first, `filters` for the second; this module
combines them into one transaction that replaces the previous rules.

The host's own stack has no business in tenants' bridges: DHCP and metadata are in namespaces attached to them. Linux
would answer there for every address of the machine, whichever link has it, and route for anybody. So what leaves such a
bridge for the stack is dropped: IP in `table inet`, ARP in `table arp`. The same holds for all taps: a bridge hands
frames of some protocols (LLDP) to the stack as its port's own, bypassing its filters, whatever they contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns import bandwidth, filters, spoofing
from cloudctl.drivers.netns.checked import networks_of
from cloudctl.drivers.specs import PortSpec, SecurityGroupSpec

BRIDGE_SYSCTLS = ("net.bridge.bridge-nf-call-iptables=1", "net.bridge.bridge-nf-call-ip6tables=1")
FAMILIES = ("bridge", "inet", "arp")


@frozen
class FilteredPort:
    tap: str
    index: int
    spec: PortSpec


@frozen
class HostRules:
    """Everything that determines the rules of one host."""

    zones: Mapping[str, int]  # bridge → conntrack zone; 0 for one that is the operator's
    ports: Sequence[FilteredPort]
    groups: Mapping[str, SecurityGroupSpec]  # at least those of the ports
    members: Mapping[str, Iterable[str]]  # group → addresses and CIDRs of all ports in it, on any host
    log_group: int = 0  # of nflog

    @property
    def own_bridges(self) -> list[str]:
        """All but the operator's, quoted."""
        return [f'"{bridge}"' for bridge, zone in sorted(self.zones.items()) if zone]


def ruleset(name: str, host: HostRules) -> str:
    """The tables `name` of all families, replacing their previous content. Raises Unfit."""
    bodies = {"bridge": _frames(host), "inet": _packets(host), "arp": _questions(host)}
    return "\n".join(line for family in FAMILIES for line in replaced(family, name, bodies[family])) + "\n"


def check_port(port: PortSpec) -> None:
    """Raises Unfit for an invalid address, limit or mark."""
    spoofing.rules(port, 1)
    bandwidth.of_port(port)
    marking(port)


def marking(port: PortSpec) -> list[str]:
    """What the guest sends gets this mark, replacing its own. Raises Unfit."""
    if port.dscp_mark is None:
        return []
    if not 0 <= port.dscp_mark < 64:
        raise Unfit(f"no DSCP mark: {port.dscp_mark}")
    return [f"{family} dscp set {port.dscp_mark}" for family in ("ip", "ip6")]


def check_group(group: SecurityGroupSpec) -> None:
    """Raises Unfit for an invalid rule."""
    for direction in ("egress", "ingress"):
        filters.group_rules(group, direction, lambda remote: remote)


def removal(name: str) -> str:
    return "".join(f"table {family} {name} {{}}\ndelete table {family} {name}\n" for family in FAMILIES)


def replaced(family: str, name: str, body: Iterable[str]) -> list[str]:
    """The table holds only this. It is declared first, since a missing table cannot be deleted."""
    return [
        f"table {family} {name} {{}}",
        f"delete table {family} {name}",
        f"table {family} {name} {{",
        *(f"  {line}" for line in body),
        "}",
    ]


def chain(name: str, rules: Iterable[str], hook: str | None = None) -> list[str]:
    """A chain; `hook` is «type … hook … priority …», for a base chain that the kernel calls."""
    head = [] if hook is None else [f"{hook}; policy accept;"]
    return [f"chain {name} {{", *(f"  {line}" for line in (*head, *rules)), "}"]


def choice(key: str, chains: Mapping[str, str]) -> list[str]:
    """A rule that jumps to the chain for the value of `key`; none for no values."""
    return [f"{key} vmap {{ {', '.join(f'{value} : jump {to}' for value, to in chains.items())} }}"] if chains else []


def _frames(host: HostRules) -> list[str]:
    came = {f'"{port.tap}"': f"from{port.index}" for port in host.ports}
    goes = {f'"{port.tap}"': f"to{port.index}" for port in host.ports}
    lines = chain("frames_in", choice("iifname", came), "type filter hook prerouting priority -310")
    # Before br_netfilter's own hook, which shows the packet to `table inet`.
    lines += chain("frames_out", choice("oifname", goes), "type filter hook forward priority -10")
    for port in host.ports:
        limits = bandwidth.of_port(port.spec)
        sent = [*limits["egress"], *marking(port.spec), *spoofing.rules(port.spec, port.index)]
        lines += chain(f"from{port.index}", sent)
        filtered = [f"{spoofing.TAGGED} drop", f"meta mark set meta mark & 0xffff | {port.index << 16:#x}"]
        lines += chain(f"to{port.index}", [*limits["ingress"], *(filtered if port.spec.port_security else ())])
    return lines


def _packets(host: HostRules) -> list[str]:
    secured = [port for port in host.ports if port.spec.port_security]
    groups = sorted({id for port in secured for id in port.spec.security_groups if id in host.groups})
    numbers = {id: number for number, id in enumerate(groups)}
    remotes = sorted({rule.remote_group_id for id in groups for rule in host.groups[id].rules if rule.remote_group_id})
    sets = {id: number for number, id in enumerate(remotes)}

    def named(remote: str) -> str:
        return f"members{sets[remote]}"

    lines = []
    for id, number in sets.items():
        for version in (4, 6):
            lines += _members(f"members{number}_v{version}", version, host.members.get(id, ()))
    # Traffic of this machine itself on an operator's bridge, or forwarded from there, has no other end in a zone.
    zones = [f'iifname "{bridge}" ct zone set {zone}' for bridge, zone in sorted(host.zones.items()) if zone]
    lines += chain("zones", zones, "type filter hook prerouting priority -300")
    lines += chain("own", _closed(host), "type filter hook input priority -200")
    # Bridged packets enter and leave by the same bridge; others would be routed by this machine.
    pairs = [f"{each} . {each}" for each in host.own_bridges]
    bridged = [f"iifname . oifname {_set(pairs)} accept"] if pairs else []
    lines += chain("routed", [*bridged, *_closed(host)], "type filter hook forward priority -200")
    # Two chains that the kernel calls in turn: `accept` in the first hands the packet to the second.
    for direction, half, priority in (("egress", 0xFFFF, 0), ("ingress", 0xFFFF0000, 1)):
        shift = 0 if direction == "egress" else 16
        chains = {f"{port.index << shift:#x}": f"{direction}{port.index}" for port in secured}
        hook = f"type filter hook forward priority {priority}"
        lines += chain(direction, _on_bridges(direction, host.zones, choice(f"meta mark & {half:#x}", chains)), hook)
        for id, number in numbers.items():
            lines += chain(f"{direction}_group{number}", filters.group_rules(host.groups[id], direction, named))
        for port in secured:
            mine = [id for id in port.spec.security_groups if id in numbers]
            jumps = [f"jump {direction}_group{numbers[id]}" for id in mine]
            stateful = all(host.groups[id].stateful for id in mine)
            accepted = filters.logged("ACCEPT", port.spec, host.log_group)
            if accepted:
                # Its groups' rules, not their chains: other ports share those, and their `accept` is final.
                name = f"{direction}{port.index}_accepted"
                lines += chain(name, [*accepted, "accept"])
                own = (filters.group_rules(host.groups[id], direction, named, f"goto {name}") for id in mine)
                jumps = [rule for rules in own for rule in rules]
            dropped = filters.logged("DROP", port.spec, host.log_group)
            lines += chain(f"{direction}{port.index}", filters.port_rules(direction, jumps, stateful, dropped))
    return lines


def _questions(host: HostRules) -> list[str]:
    return chain("own", _closed(host), "type filter hook input priority -200")


def _closed(host: HostRules) -> list[str]:
    closed = [*host.own_bridges, *(f'"{port.tap}"' for port in host.ports)]
    return [f"iifname {_set(closed)} drop"] if closed else []


def _on_bridges(direction: str, bridges: Iterable[str], rules: Iterable[str]) -> list[str]:
    """Rules that look at marks only of packets in our bridges: others may use marks for their own packets.

    What comes from a port may be routed by this machine, on an operator's bridge; what goes to one comes by a bridge.
    """
    names = [f'"{each}"' for each in sorted(bridges)]
    if not names:
        return []
    if direction == "egress":
        return [f"iifname {_set(names)} {rule}" for rule in rules]
    return [f"iifname . oifname {_set(f'{each} . {each}' for each in names)} {rule}" for rule in rules]


def _set(values: Iterable[str]) -> str:
    return f"{{ {', '.join(values)} }}"


def _members(name: str, version: int, addresses: Iterable[str]) -> list[str]:
    found = networks_of(addresses, version)
    elements = [f"  elements = {{ {', '.join(found)} }}"] if found else []
    return [f"set {name} {{", f"  type ipv{version}_addr; flags interval; auto-merge;", *elements, "}"]
