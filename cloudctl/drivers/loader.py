"""From the name of a driver in the configuration to the driver."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, overload

from twisted import plugins
from twisted.plugin import getPlugins
from twisted.python.modules import getModule
from zope.interface import Invalid
from zope.interface.verify import verifyObject

from cloudctl.drivers.boundary import awaitable, call, capabilities
from cloudctl.drivers.errors import DriverError
from cloudctl.drivers.interfaces import (
    CAPABILITIES,
    IBus,
    IDriver,
    IDriverMaker,
    IFencer,
    IHypervisor,
    INetworkBackend,
    IObjectData,
    IVolumeBackend,
    Kind,
)
from cloudctl.drivers.specs import DriverResources
from cloudctl.errors import ConfigError
from cloudctl.options import structure

__all__ = ["available", "call", "check", "check_sections", "failed_plugins", "load"]


def available(kind: str | None = None) -> list[IDriverMaker]:
    """Every driver that can be configured, of one kind or of all, sorted by kind and name."""
    return [each for each in _makers(tuple(plugins.__path__)) if kind in (None, each.kind)]


# Twisted searches all folders each time, which took a fifth of the time to create a cloud.
@lru_cache(maxsize=4)
def _makers(_folders: tuple[str, ...]) -> tuple[IDriverMaker, ...]:
    makers: list[IDriverMaker] = list(getPlugins(IDriverMaker, plugins))
    return tuple(sorted(makers, key=lambda each: (each.kind, each.name)))


def failed_plugins() -> dict[str, str]:
    """Plugin modules that cannot be imported, and why. Twisted skips them with a line in the log."""
    failed: dict[str, str] = {}
    for module in getModule(plugins.__name__).iterModules():
        try:
            module.load()
        except Exception as error:  # a third-party module may raise anything; what it raised is the answer
            failed[module.name] = f"{type(error).__name__}: {error}"
    return failed


@overload
def load(
    kind: Literal["hypervisor"],
    name: str,
    table: Mapping[str, Any],
    resources: DriverResources,
    options: str | None = None,
) -> IHypervisor: ...
@overload
def load(
    kind: Literal["volume"],
    name: str,
    table: Mapping[str, Any],
    resources: DriverResources,
    options: str | None = None,
) -> IVolumeBackend: ...
@overload
def load(
    kind: Literal["network"],
    name: str,
    table: Mapping[str, Any],
    resources: DriverResources,
    options: str | None = None,
) -> INetworkBackend: ...
@overload
def load(
    kind: Literal["fencer"],
    name: str,
    table: Mapping[str, Any],
    resources: DriverResources,
    options: str | None = None,
) -> IFencer: ...
@overload
def load(
    kind: Literal["objects"],
    name: str,
    table: Mapping[str, Any],
    resources: DriverResources,
    options: str | None = None,
) -> IObjectData: ...
@overload
def load(
    kind: Literal["bus"],
    name: str,
    table: Mapping[str, Any],
    resources: DriverResources,
    options: str | None = None,
) -> IBus: ...
def load(
    kind: Kind, name: str, table: Mapping[str, Any], resources: DriverResources, options: str | None = None
) -> Any:
    """The driver, not yet checked. `table` is the TOML table `[driver.KIND.OPTIONS]`; `options` defaults to `name`.

    Raises ConfigError: there is no such driver, its plugin or module cannot be imported, options are wrong (it lists
    all of them) or do not go together, or the driver lacks a method that it declares.
    """
    path = f"driver.{kind}.{options or name}"
    maker = _find(kind, name, path)
    try:
        module = maker.load()
    except Exception as error:  # a third-party module may raise anything; the operator needs to see what
        raise ConfigError([f"{path}: cannot be imported: {type(error).__name__}: {error}"]) from error
    config = structure(module.Config, table, path)
    try:
        driver = module.create(config, resources)
    except ValueError as error:
        raise ConfigError([f"{path}: {error}"]) from error
    core = CAPABILITIES[kind][0]
    if not core.providedBy(driver):
        raise ConfigError([f"{path}: {type(driver).__name__} does not declare {core.__name__}"])
    for interface in capabilities(driver):
        try:
            verifyObject(interface, driver)
        except Invalid as error:
            raise ConfigError([f"{path}: {error}"]) from error
    # The methods of an objects driver block and are called in threads.
    return driver if kind == "objects" else awaitable(driver)


def check_sections(
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]], read: Mapping[str, Mapping[str, str]]
) -> None:
    """Raises ConfigError for each table of options that nothing reads, since its name is mistaken.

    `read`: KIND → the names of those that are read, each with its driver. A driver that is installed, but not chosen,
    may have a table.
    """
    problems: list[str] = []
    for kind, named in tables.items():
        chosen = read[kind]
        installed = [each.name for each in available(kind)]
        for name in sorted(named.keys() - chosen.keys()):
            path = f"driver.{kind}.{name}"
            places = [f"[driver.{kind}.{place}]" for place, driver in chosen.items() if driver == name]
            if name not in installed:
                valid = sorted({*installed, *chosen})
                problems.append(f"{path}: nothing reads it; valid names: {', '.join(valid) or 'none'}")
            elif places and named[name]:
                problems.append(f"{path}: nothing reads it; the options of this driver are in {' and '.join(places)}")
    if problems:
        raise ConfigError(problems)


def _find(kind: Kind, name: str, path: str) -> IDriverMaker:
    makers = available(kind)
    found = [each for each in makers if each.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError([f"{path}: {len(found)} plugins have this name: {'; '.join(map(repr, found))}"])
    problem = f"{path}: unknown driver; available drivers: {', '.join(each.name for each in makers) or 'none'}"
    failed = "; ".join(f"{module} ({why})" for module, why in sorted(failed_plugins().items()))
    raise ConfigError([f"{problem}; failed to import: {failed}" if failed else problem])


def check(driver: IDriver, path: str) -> None:
    """Run the driver's `check` now, without a reactor. Raises ConfigError with the driver's reason."""
    outcome: list[Any] = []
    call(driver.check).addBoth(outcome.append)
    if not outcome:
        raise ConfigError([f"{path}: its check() waits for the reactor, which is not running yet"])
    if outcome[0] is not None:
        error = outcome[0].value
        if not isinstance(error, DriverError):
            raise error
        raise ConfigError([f"{path}: {error}"])
