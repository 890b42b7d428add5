"""The drivers that come with cloudctl. Nothing is imported before the configuration names it."""

from cloudctl.drivers.maker import DriverMaker

fake_hypervisor = DriverMaker(
    "hypervisor", "fake", "cloudctl.drivers.fake.hypervisor", "Guests in memory or small files, faults on demand"
)
qemu = DriverMaker("hypervisor", "qemu", "cloudctl.drivers.qemu.hypervisor", "QEMU processes on this machine, as root")
libvirt = DriverMaker(
    "hypervisor", "libvirt", "cloudctl.drivers.libvirt.driver", "Guests on hosts that their own libvirtd looks after"
)
fake_volume = DriverMaker(
    "volume", "fake", "cloudctl.drivers.fake.volume", "Volumes in memory or small files, faults on demand"
)
fake_network = DriverMaker(
    "network", "fake", "cloudctl.drivers.fake.network", "Networks in memory or small files, faults on demand"
)
fake_fencer = DriverMaker("fencer", "fake", "cloudctl.drivers.fake.fencer", "Power of hosts that only exist by name")
redfish_fencer = DriverMaker("fencer", "redfish", "cloudctl.drivers.redfish.driver", "Power of hosts, by Redfish")
rbd_fencer = DriverMaker("fencer", "rbd", "cloudctl.drivers.rbd.fencer", "Ceph, which blocks the clients of hosts")
nbd_fencer = DriverMaker("fencer", "nbd", "cloudctl.drivers.nbd.fencer", "Volumes served by NBD, withdrawn from hosts")
ipmi_fencer = DriverMaker("fencer", "ipmi", "cloudctl.drivers.ipmi.driver", "Power of hosts, by ipmitool")
internal_bus = DriverMaker("bus", "internal", "cloudctl.drivers.internal.driver", "None: the cloud is told by itself")
amqp_bus = DriverMaker("bus", "amqp", "cloudctl.drivers.amqp.driver", "RabbitMQ, as OpenStack's services use it")
qcow2_volume = DriverMaker("volume", "qcow2", "cloudctl.drivers.qcow2.driver", "Volumes in qcow2 files of this machine")
nbd_volume = DriverMaker("volume", "nbd", "cloudctl.drivers.nbd.driver", "Volumes that a storage daemon serves by NBD")
rbd_volume = DriverMaker("volume", "rbd", "cloudctl.drivers.rbd.driver", "Volumes in a pool of a Ceph cluster")
netns_network = DriverMaker(
    "network", "netns", "cloudctl.drivers.netns.driver", "Networks in the kernel of this machine, as root"
)
file_objects = DriverMaker("objects", "file", "cloudctl.drivers.file.driver", "Data of objects in files of a directory")
s3_objects = DriverMaker("objects", "s3", "cloudctl.drivers.s3.driver", "Data of objects in a bucket of another store")
rados_objects = DriverMaker("objects", "rados", "cloudctl.drivers.rados.driver", "Data in a pool of a Ceph cluster")
ovn_network = DriverMaker(
    "network", "ovn", "cloudctl.drivers.ovn.driver", "Networks over hosts, in the northbound database of an OVN"
)
