"""The drivers that come with cloudctl. Nothing is imported before the configuration names it."""

from cloudctl.drivers.maker import DriverMaker

fake_hypervisor = DriverMaker(
    "hypervisor", "fake", "cloudctl.drivers.fake.hypervisor", "Guests in memory or small files, faults on demand"
)
fake_volume = DriverMaker(
    "volume", "fake", "cloudctl.drivers.fake.volume", "Volumes in memory or small files, faults on demand"
)
fake_network = DriverMaker(
    "network", "fake", "cloudctl.drivers.fake.network", "Networks in memory or small files, faults on demand"
)
