"""How long cleanup is retried. Nothing else would do it, so it is never given up."""

from __future__ import annotations

from cloudctl.tasks import Wait

# A back-off is a minute at most, so this is two months.
ATTEMPTS = 100_000

IN_USE = Wait(poll=2.0)
"""It is still used by something that is being deleted."""
