"""What the engine and the audit did, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cloudctl.tasks.audit import Audit
from cloudctl.tasks.engine import Engine

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class TaskMetrics:
    """Reads the counts that are kept anyway, at each scrape: a Collector in the sense of `prometheus_client`."""

    def __init__(self, engine: Engine, audit: Audit) -> None:
        self.engine = engine
        self.audit = audit

    def collect(self) -> Iterator[Metric]:
        # Imported at the first scrape: a start does not need it.
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        counts = self.engine.counts
        started = CounterMetricFamily("cloudctl_tasks_started", "Tasks begun here for the first time.", labels=["kind"])
        for kind, number in counts.started.items():
            started.add_metric([kind], number)
        yield started
        ended = CounterMetricFamily("cloudctl_tasks_ended", "Tasks that ended here.", labels=["kind", "state"])
        for (kind, state), number in counts.ended.items():
            ended.add_metric([kind, state], number)
        yield ended
        yield CounterMetricFamily("cloudctl_tasks_lost", "Leases that another process took over.", value=counts.lost)
        yield GaugeMetricFamily("cloudctl_tasks_running", "Tasks that run here now.", value=self.engine.active)
        yield GaugeMetricFamily(
            "cloudctl_tasks_oldest_due_seconds", "How long a task has waited for a slot.", value=counts.oldest_due
        )
        found = CounterMetricFamily(
            "cloudctl_audit_findings", "Differences between a backend and the database.", labels=["check", "kind"]
        )
        for (check, kind), number in self.audit.counts.findings.items():
            found.add_metric([check, kind], number)
        yield found
        failed = CounterMetricFamily("cloudctl_audit_failed", "Checks that could not be made.", labels=["check"])
        for check, number in self.audit.counts.failed.items():
            failed.add_metric([check], number)
        yield failed
