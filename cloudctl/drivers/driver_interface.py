"""What every driver is, and how it is found. The rules for all of them: `interfaces`."""

from __future__ import annotations

from types import ModuleType

from zope.interface import Attribute, Interface


class IDriverMaker(Interface):
    """A plugin: a driver that can be configured by name. The module must be cheap to import until `load` is called."""

    kind = Attribute("'hypervisor', 'volume', 'network', 'fencer', 'objects' or 'bus'.")
    name = Attribute("What the configuration calls it.")
    description = Attribute("One line for `cloudctl drivers`.")

    def load() -> ModuleType:
        """Import and return the driver's module. Raises whatever its import raises.

        The module has `Config`, a frozen attrs class whose fields are the options of the driver's TOML table, and
        `create(config, resources)`, which returns the driver and touches nothing outside the process. It may raise
        ValueError: these options do not go together.
        """


class IElsewhere(Interface):
    """A driver that needs nothing kept in its directory, so that each process of a cloud may have one of its own."""

    elsewhere = Attribute("Whether it does as it is configured.")


class IDriver(Interface):
    """What every driver provides, whatever its kind."""

    async def check() -> None:
        """Raise `Unusable`, with the reason, if this driver cannot work here.

        Called once before the reactor runs: it may block for a few seconds and must not wait for the reactor.
        """

    async def close() -> None:
        """Release sockets, threads and files. Guests, volumes and networks stay. A repeat does nothing."""
