"""Which events are written to the log: a level per namespace of loggers, which can change while the process runs.

    levels = LogLevels(LogLevel.info)
    levels.set("cloudctl.volume", LogLevel.debug)      # and of all below it

A predicate for Twisted's FilteringLogObserver. The code that begins a process's log installs it there, and passes it
to the Cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from attrs import define, field
from constantly import NamedConstant  # type: ignore[import-untyped]  # it has no types
from twisted.logger import ILogFilterPredicate, LogEvent, Logger, LogLevel, PredicateResult
from zope.interface import implementer

# Two lines for each connection that a webhook, an import or a metadata proxy opens, and none of them says to whom.
QUIET = "twisted.web.client._HTTP11ClientFactory"


@implementer(ILogFilterPredicate)
@define(eq=False)
class LogLevels:
    default: NamedConstant = LogLevel.info
    said: dict[str, NamedConstant] = field(factory=lambda: {QUIET: LogLevel.warn})  # by namespace

    def __call__(self, event: LogEvent) -> NamedConstant:
        level = event.get("log_level")
        is_written = level is not None and level >= self.of(event.get("log_namespace") or "")
        result: NamedConstant = PredicateResult.maybe if is_written else PredicateResult.no
        return result

    def of(self, namespace: str) -> NamedConstant:
        """The level that was set for a namespace or for the nearest one above it, or the default."""
        while namespace:
            if namespace in self.said:
                return self.said[namespace]
            namespace = namespace.rpartition(".")[0]
        return self.default

    def set(self, prefix: str, level: NamedConstant) -> None:
        """Set the level of the namespace and all below it; empty: of all."""
        for namespace in list(self.said):
            if not prefix or namespace == prefix or namespace.startswith(f"{prefix}."):
                del self.said[namespace]
        if prefix:
            self.said[prefix] = level
        else:
            self.default = level

    def told(self, modules: Mapping[str, ModuleType], prefix: str) -> dict[str, NamedConstant]:
        """Namespace → level, for the loggers that these modules have and for the namespaces that were set."""
        found = {
            each.namespace for module in list(modules.values()) for each in vars(module).values() if _is_logger(each)
        }
        return {name: self.of(name) for name in sorted(found | self.said.keys()) if name.startswith(prefix)}


def _is_logger(value: object) -> bool:
    # Not isinstance: that would make a lazy module load what it stands for.
    return type(value) is Logger
