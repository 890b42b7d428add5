"""Counters of the traffic between a router and the outside: a table of their own in its namespace.

The router's other tables are replaced with every change, which would reset counters. Here counters stay, and only the
rules that increment them are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloudctl.drivers.errors import Unfit
from cloudctl.drivers.netns.checked import network
from cloudctl.drivers.netns.names import UUID, short
from cloudctl.drivers.network_specs import Meter, MeterRule

SIDES = {"ingress": ("iifname", "saddr"), "egress": ("oifname", "daddr")}  # the outside's interface, a remote address


def table(name: str) -> str:
    return f"{name}meters"


def counter(meter_id: str) -> str:
    """nftables' name of a meter's counter."""
    return f"label_{meter_id.replace('-', '_') if UUID.fullmatch(meter_id) else short(meter_id)}"


def ruleset(name: str, outside: str | None, meters: Iterable[Meter], gone: Iterable[str] = ()) -> str:
    """`outside`: the interfaces of gateways in nftables' notation; None: nothing is counted. `gone`: names of
    counters whose meters no longer exist.

    Raises Unfit.
    """
    own, wanted = f"inet {table(name)}", tuple(meters) if outside else ()
    if outside is None or not wanted:
        return f"table {own} {{}}\ndelete table {own}\n"
    lines = [f"table {own} {{}}", f"flush table {own}", f"table {own} {{"]
    for meter in wanted:
        lines += [f"  counter {counter(meter.id)} {{}}", f"  chain of_{counter(meter.id)} {{"]
        # Exclusions first: such traffic is not counted, whatever another rule says.
        for rule in sorted(meter.rules, key=lambda rule: not rule.excluded):
            verdict = "return" if rule.excluded else f"counter name {counter(meter.id)} return"
            lines.append(f"    {_matches(rule, outside)} {verdict}")
        lines.append("  }")
    lines.append("  chain metered { type filter hook forward priority 10; policy accept;")
    lines += [*(f"    jump of_{counter(meter.id)}" for meter in wanted), "  }", "}"]
    for name in gone:
        lines += [f"delete chain {own} of_{name}", f"delete counter {own} {name}"]
    return "\n".join(lines) + "\n"


def _matches(rule: MeterRule, outside: str) -> str:
    """Packets have inside addresses here: they are not translated yet, or already translated back."""
    if rule.direction not in SIDES:
        raise Unfit(f"no direction: {rule.direction!r}")
    interface, remote = SIDES[rule.direction]
    words = [f"{interface} {outside}"]
    for side, prefix in (
        (remote, rule.remote_prefix),
        ("saddr", rule.source_prefix),
        ("daddr", rule.destination_prefix),
    ):
        if prefix is not None:
            found = network(prefix)
            words.append(f"{'ip' if found.version == 4 else 'ip6'} {side} {found}")
    return " ".join(words)
