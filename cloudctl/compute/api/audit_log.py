"""The log of usage audits. Reference: compute.md, section 4.

No host writes such audits: what servers used is computed on request, see `usage`. The log says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.placement import hosts
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")


@frozen
class AuditLog:
    routes = Routes("Usage audit log")

    db: Database

    @routes.get("/os-instance_usage_audit_log", policy="compute:audit_log:show")
    async def list(self, call: Call) -> dict[str, Any]:
        """Show the usage audits of the last whole month."""
        return {"instance_usage_audit_logs": await self.db.scan(_log, call.now)}

    @routes.get("/os-instance_usage_audit_log/<time>", policy="compute:audit_log:show")
    async def show(self, call: Call, time: str) -> dict[str, Any]:
        """Show the usage audits of the last whole month before a time."""
        return {"instance_usage_audit_log": await self.db.scan(_log, _parsed(time))}


def _parsed(text: str) -> datetime:
    """Raises Invalid."""
    for shape in FORMATS:
        try:
            return datetime.strptime(text, shape)
        except ValueError:
            continue
    raise Invalid(f"Invalid timestamp for date {text[:64]}")


def month_before(when: datetime) -> tuple[datetime, datetime]:
    """The last whole month before a time: its first moment and the one after it."""
    end = when.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if (end.year, end.month) == (1, 1):
        raise Invalid("There is no month before the first.")
    return end.replace(year=end.year - (end.month == 1), month=(end.month - 2) % 12 + 1), end


def _log(conn: Connection, before: datetime) -> dict[str, Any]:
    begin, end = month_before(before)
    names = [host.name for host in hosts.every(conn)]
    return {
        "hosts_not_run": names,
        "log": {},
        "num_hosts": len(names),
        "num_hosts_done": 0,
        "num_hosts_not_run": len(names),
        "num_hosts_running": 0,
        "overall_status": f"0 of {len(names)} hosts done. 0 errors.",
        "period_beginning": str(begin),
        "period_ending": str(end),
        "total_errors": 0,
        "total_instances": 0,
    }
