"""Extra specs of flavors: what is accepted as one, and from 2.86 on which values the known ones may have.

Reference: compute-scheduling.md, section 11.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from cloudctl.errors import Invalid

KEY = re.compile(r"[A-Za-z0-9\-_:. ]{1,255}")
LONGEST_VALUE = 255
MOST_FACTOR = 3.0e38

INTEGER = re.compile(r"\d{1,10}")
BOOLEAN = re.compile(r"(?i:0|1|true|false|yes|no|on|off|t|f|y|n)")
CPUS = re.compile(r"\^?\d+(?:-\d+)?(?:,\^?\d+(?:-\d+)?)*")


def _words(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, words)))


# Key → what its value looks like. A key that matches none of them is kept as it is.
KNOWN: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(key), value)
    for key, value in (
        (r"hw:cpu_policy", _words("shared", "dedicated", "mixed")),
        (r"hw:cpu_thread_policy", _words("prefer", "isolate", "require")),
        (r"hw:cpu_(?:max_)?(?:sockets|cores|threads)", INTEGER),
        (r"hw:cpu_dedicated_mask", CPUS),
        (r"hw:emulator_threads_policy", _words("isolate", "share")),
        (r"hw:cpu_realtime", BOOLEAN),
        (r"hw:cpu_realtime_mask", CPUS),
        (r"hw:numa_nodes", re.compile(r"[1-9]\d{0,3}")),
        (r"hw:numa_cpus\.\d+", CPUS),
        (r"hw:numa_mem\.\d+", INTEGER),
        (r"hw:mem_page_size", re.compile(r"small|large|any|\d+(?:[KMGkmg][iI]?[bB]?)?")),
        (r"hw:(?:boot_menu|vif_multiqueue_enabled|hide_hypervisor_id|pmu|locked_memory)", BOOLEAN),
        (r"hw:(?:mem_encryption|virtio_packed_ring)", BOOLEAN),
        (r"hw:serial_port_count", INTEGER),
        (r"hw:watchdog_action", _words("none", "pause", "poweroff", "reset", "disabled")),
        (r"hw:tpm_version", _words("1.2", "2.0")),
        (r"hw:tpm_model", _words("tpm-tis", "tpm-crb")),
        (r"hw:viommu_model", _words("intel", "smmuv3", "virtio", "auto")),
        (r"hw:pci_numa_affinity_policy", _words("required", "preferred", "legacy", "socket")),
        (r"hw_rng:allowed", BOOLEAN),
        (r"hw_rng:rate_(?:bytes|period)", INTEGER),
        (r"hw_video:ram_max_mb", INTEGER),
        (r"quota:(?:cpu_(?:shares|period|quota)|disk_\w+|vif_\w+|memory_(?:limit|reservation|shares_share))", INTEGER),
        (r"os:secure_boot", _words("required", "optional", "disabled")),
        (r"resources\w*:\w+", INTEGER),
        (r"trait\w*:\w+", _words("required", "forbidden")),
        (r"group_policy", _words("none", "isolate")),
        (r"pci_passthrough:alias", re.compile(r"[\w.\- ]+(?::\d+)?(?:,[\w.\- ]+(?::\d+)?)*")),
    )
)


def texts(specs: Mapping[str, Any]) -> dict[str, str]:
    """Keys and values as they are stored; numbers and booleans as text. Raises ValueError."""
    kept = {}
    for key, value in specs.items():
        if KEY.fullmatch(key) is None:
            raise ValueError(f"the key {key[:64]!r} is not 1 to 255 letters, digits, spaces and -_:.")
        if isinstance(value, bool | int | float):
            value = str(value)
        if not isinstance(value, str):
            raise ValueError(f"the value of {key!r} is not of type 'string'")
        if len(value) > LONGEST_VALUE:
            raise ValueError(f"the value of {key!r} is too long (at most {LONGEST_VALUE} characters)")
        kept[key] = value
    return kept


def check(specs: Mapping[str, str]) -> None:
    """Check the values of the known keys. Raises Invalid."""
    for key, value in specs.items():
        for known, allowed in KNOWN:
            if known.fullmatch(key) and allowed.fullmatch(value) is None:
                raise Invalid(f"Validation failed; extra spec '{key}' may not be '{value[:64]}'.")


def factor(value: Any) -> float:
    """The rxtx_factor, which means nothing here: a number above 0, perhaps as text. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > 40:
        raise ValueError(f"{str(value)[:40]!r} is not of type 'number'")
    number = float(value)
    if not math.isfinite(number) or not 0 < number <= MOST_FACTOR:
        raise ValueError(f"{str(value)[:40]} is not between 0 and {MOST_FACTOR}")
    return number
