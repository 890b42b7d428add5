"""A driver as a part of a cloud: it is closed when nothing uses it any more."""

from __future__ import annotations

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from cloudctl.drivers.boundary import call
from cloudctl.drivers.driver_interface import IDriver


class Closing(Service):
    """Started before whatever uses the driver, and so stopped after it."""

    def __init__(self, driver: IDriver) -> None:
        self.driver = driver

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return call(self.driver.close)
