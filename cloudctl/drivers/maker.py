"""The plugin that names a driver. Plugin files need only this module, which imports nothing heavy."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from attrs import frozen
from twisted.plugin import IPlugin
from zope.interface import implementer

from cloudctl.drivers.interfaces import IDriverMaker, Kind


@implementer(IPlugin, IDriverMaker)
@frozen
class DriverMaker:
    """`DriverMaker("hypervisor", "qemu", "example.qemu", "QEMU processes")` in a file of `twisted/plugins/`."""

    kind: Kind
    name: str
    module: str  # dotted name, imported only when the configuration names this driver
    description: str

    def load(self) -> ModuleType:
        return import_module(self.module)
