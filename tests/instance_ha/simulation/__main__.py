"""Many seeds, on all cores: `python -m tests.instance_ha.simulation --seeds=200 --hosts=1000 --servers=20000`.

A large cloud is made once; each seed is played in a copy of the process that has it. What a seed comes to is the same
as by itself, and which ones have failed is said at the end.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import click
from sqlalchemy.exc import OperationalError
from twisted.logger import formatEvent, globalLogBeginner

from tests.conftest import LoggedFailures
from tests.instance_ha.simulation.conftest import DAYS, SEEDS
from tests.instance_ha.simulation.playing import play
from tests.instance_ha.simulation.population import MOST_BOOTED, Size, copied

fork = get_context("fork")


def outcomes(
    seeds: Iterable[int], jobs: int, work: Callable[[int], str]
) -> Iterator[tuple[int, str | None, str | None]]:
    """(seed, what `work` says of it, why it failed) in the order in which they end, each from a process of its own."""
    left, running = iter(seeds), dict[Connection, tuple[int, Any]]()
    while True:
        while len(running) < jobs and (seed := next(left, None)) is not None:
            here, there = fork.Pipe(duplex=False)
            process = fork.Process(target=_child, args=(there, work, seed))
            process.start()
            there.close()
            running[here] = seed, process
        if not running:
            return
        for ended in wait(list(running)):
            assert isinstance(ended, Connection)
            seed, process = running.pop(ended)
            try:
                told, why = ended.recv()
            except EOFError:
                told, why = None, "its process has ended without a word"
            ended.close()
            process.join()
            yield seed, told, why


def _child(pipe: Connection, work: Callable[[int], str], seed: int) -> None:
    try:
        said: tuple[str | None, str | None] = work(seed), None
    except BaseException:
        said = None, traceback.format_exc()
    pipe.send(said)


def played(seed: int, size: Size | None, days: float) -> str:
    """Raises AssertionError, also of failures that were logged and that a database which is away does not explain."""
    logged = LoggedFailures()
    globalLogBeginner.beginLoggingTo([logged], redirectStandardIO=False, discardBuffer=True)
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    found = play(seed, size, days)
    logged.flush(OperationalError)
    told = [f"{formatEvent(each)}\n{each['log_failure'].getTraceback()}" for each in logged.events]
    assert not told, "\n".join(told)
    return str(found)


@click.command()
@click.option("--seeds", default=SEEDS, show_default=True, help="How many simulations are played.")
@click.option("--first-seed", default=0, show_default=True, help="The first of them.")
@click.option("--days", default=DAYS, show_default=True, help="How long each of them is.")
@click.option("--hosts", default=0, help="How many hosts it has; 0: some, by chance.")
@click.option("--servers", default=0, help="How many servers it has, if --hosts says how many hosts.")
@click.option("--jobs", default=len(os.sched_getaffinity(0)), show_default="one a core", help="Processes at once.")
def main(seeds: int, first_seed: int, days: float, hosts: int, servers: int, jobs: int) -> None:
    """Play simulations of docs/instance-ha.md, each in a process of its own."""
    began = time.monotonic()
    gc.disable()
    size = Size.of(hosts, servers) if hosts else None
    if size is not None and servers > MOST_BOOTED:
        copied(size)
        click.echo(f"{hosts} hosts and {servers} servers are there after {_spent(RUSAGE_SELF):.0f} s of a processor")
    gc.collect()
    gc.freeze()
    failed, done = list[int](), 0
    for seed, told, why in outcomes(range(first_seed, first_seed + seeds), jobs, lambda seed: played(seed, size, days)):
        done += 1
        if why is not None:
            failed.append(seed)
        click.echo(f"{done} of {seeds}: {told or f'seed {seed} FAILED: {why}'}")
        sys.stdout.flush()
    took, spent = time.monotonic() - began, _spent(RUSAGE_CHILDREN)
    click.echo(
        f"{done} played in {took:.0f} s by {jobs} processes, each in {spent / max(done, 1):.1f} s of a processor"
    )
    if failed:
        again = f"--seeds=1 --days={days:g}" + (f" --hosts={hosts} --servers={servers}" if hosts else "")
        click.echo(f"FAILED: {len(failed)} of them. To play them again: python -m tests.instance_ha.simulation {again}")
        click.echo("\n".join(f"  --first-seed={seed}" for seed in sorted(failed)))
        sys.exit(1)
    click.echo("none failed")


def _spent(whose: int) -> float:
    used = getrusage(whose)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
