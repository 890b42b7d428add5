"""One process that manages many libvirt hosts: its memory, its processor time, how late it is for anything else.

    python benchmarks/many_hosts.py [--hosts 300] [--guests 5] [--seconds 60]

Each host is a connection of libvirt's own test driver, so calls go through the binding and a thread as to a real host,
and are answered at once; nothing runs. The process lists all hosts and all guests as often as a cloud does. Meanwhile a
clock ticks every twentieth of a second; how late it is is reported.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import LoopingCall, react

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cloudctl.drivers.libvirt.hypervisor import Config, create
from cloudctl.drivers.specs import DriverResources

TICK = 0.05
ROUND = 10.0  # seconds between two looks, as in a cloud
NODE = """
<node>
  <cpu><mhz>2000</mhz><model>x86_64</model><active>16</active><nodes>1</nodes><sockets>1</sockets><cores>16</cores>
  <threads>1</threads></cpu><memory>67108864</memory>
  <pool type="dir"><name>cloudctl</name><target><path>/var/lib/libvirt/cloudctl</path></target></pool>
  {guests}
</node>
"""
GUEST = """
<domain type="test"><name>{id}</name><memory>1048576</memory><vcpu>1</vcpu><os><type>hvm</type></os>
<metadata><guest xmlns="urn:cloudctl:guest" token="" done="0" made="1.0"/></metadata></domain>
"""


def memory_mib() -> float:
    """The memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measured(reactor: Any, hosts: int, guests: int, seconds: float, directory: Path) -> None:
    uris = {}
    for number in range(hosts):
        having = "".join(GUEST.format(id=f"guest-{number}-{each}") for each in range(guests))
        file = directory / f"{number}.xml"
        file.write_text(NODE.format(guests=having))
        uris[f"host-{number}"] = f"test://{file}"
    before, used = memory_mib(), processor()
    driver = create(Config(hosts=uris), DriverResources(clock=reactor, name="libvirt", reactor=reactor))
    began = time.monotonic()
    up = sum(each.up for each in await driver.hosts())
    print(
        f"{up} of {hosts} hosts up after {time.monotonic() - began:.2f} s, {processor() - used:.2f} s of processor time"
    )
    late: list[float] = []
    due = time.monotonic() + TICK

    def tick() -> None:
        nonlocal due
        late.append(time.monotonic() - due)
        due = time.monotonic() + TICK

    rounds: list[float] = []

    async def look() -> None:
        began = time.monotonic()
        await driver.hosts()
        found = await driver.inventory()
        await driver.drop_superseded()
        assert len(found) == hosts * guests
        rounds.append(time.monotonic() - began)

    ticking, looking = LoopingCall(tick), LoopingCall(lambda: ensureDeferred(look()))
    used, began = processor(), time.monotonic()
    ticking.start(TICK, now=False)
    looked = looking.start(ROUND)
    waited: Any = LoopingCall(lambda: None if time.monotonic() - began < seconds else waited.stop())
    await waited.start(1.0)
    looking.stop()
    ticking.stop()
    await looked  # a round under way ends before the hosts are closed
    share = (processor() - used) / (time.monotonic() - began)
    print(f"{len(rounds)} rounds, {median(rounds):.2f} s each (longest {max(rounds):.2f}), {share:.1%} of a processor")
    print(f"a clock was {median(late) * 1000:.1f} ms late (longest {max(late) * 1000:.0f})")
    print(f"{memory_mib():.0f} MiB, {memory_mib() - before:.0f} of them for the hosts")
    await driver.close()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--guests", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        given = options.hosts, options.guests, options.seconds, Path(directory)
        react(lambda reactor: ensureDeferred(measured(reactor, *given)))


if __name__ == "__main__":
    main(sys.argv[1:])
