"""`python -m tests.walks --seeds 100-200 --steps 300 --mix hosts,crashes` makes walks, each in a process of its own."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable
from functools import partial

from twisted.logger import globalLogBeginner

from tests.instance_ha.simulation.__main__ import outcomes
from tests.walks.playing import STEPS, play
from tests.walks.walk import TROUBLES, Mix


def played(seed: int, mix: Mix, steps: int) -> str:
    """Raises AssertionError if anything is wrong."""
    gc.enable()
    found = play(seed, mix, steps)
    assert not found.wrong, str(found)
    return str(found)


def seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def mix(text: str) -> Mix:
    chosen = frozenset(text.split(",")) - {"", "calm"}
    if unknown := sorted(chosen.difference(TROUBLES)):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: what there is: {', '.join(TROUBLES)}")
    return chosen


def tell(ended: Iterable[tuple[int, str | None, str | None]]) -> int:
    """The exit status, once each of them was printed as it ended."""
    failed = list[int]()
    for seed, told, why in ended:
        print(told or f"seed {seed} FAILED: {why}", flush=True)
        if why is not None:
            failed.append(seed)
    print(f"FAILED: {', '.join(map(str, sorted(failed)))}" if failed else "none failed")
    return 1 if failed else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.walks", description="Walks by chance over a whole cloud.")
    parser.add_argument("--seeds", type=seeds, default=range(100), metavar="FIRST-LAST", help="Which walks; 0-99.")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"How long each of them is; {STEPS}.")
    troubles = f"What disturbs them, of {','.join(TROUBLES)}; nothing."
    parser.add_argument("--mix", type=mix, default=frozenset(), help=troubles)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="Processes at once; one a core.")
    asked = parser.parse_args()
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    # What all of them need is imported and made once.
    play(0, asked.mix, 1)
    gc.disable()
    gc.collect()
    gc.freeze()
    sys.exit(tell(outcomes(asked.seeds, asked.jobs, partial(played, mix=asked.mix, steps=asked.steps))))


if __name__ == "__main__":
    main()
