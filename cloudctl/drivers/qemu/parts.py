"""Volumes and ports of a guest, which come and go. For one call per guest at a time."""

from __future__ import annotations

from attrs import evolve, frozen

from cloudctl.drivers.qemu import devices, doors, plugging, processes, slots
from cloudctl.drivers.qemu.lending import NotOpened
from cloudctl.drivers.qemu.machines import Machines
from cloudctl.drivers.qemu.qmp import Refused
from cloudctl.drivers.qemu.records import Files, Record
from cloudctl.drivers.specs import GuestSpec, PortSpec, VolumeConnection


@frozen
class Parts:
    machines: Machines

    async def replug(self, record: Record, spec: GuestSpec, files: Files) -> None:
        """For a guest that is on: plug what is missing, then unplug what it should not have."""
        for connection in spec.volumes:
            record = await self.plug_volume(record, files, connection)
        for port in spec.ports:
            record = await self.plug_port(record, files, port)
        for gone in {each.volume_id for each in record.spec.volumes} - {each.volume_id for each in spec.volumes}:
            record = await self.unplug_volume(record, files, gone)
        for gone in {each.id for each in record.spec.ports} - {each.id for each in spec.ports}:
            record = await self.unplug_port(record, files, gone)
        self.machines.records.put(record.wishing(spec))

    async def plug_volume(self, record: Record, files: Files, connection: VolumeConnection) -> Record:
        others = [each for each in record.spec.volumes if each.volume_id != connection.volume_id]
        wished = self.outfitted(record, evolve(record.spec, volumes=(*others, connection)))
        name = slots.volume(connection.volume_id)
        disk = devices.volume_disk(connection, wished.slots[name])
        # Noted first: if the answer is lost, a detach still finds the device.
        self.machines.records.put(wished)
        if (uid := processes.owner(files.pid)) is not None:
            try:
                monitor = await self.machines.monitors.get(record.spec.id, files)
                doors.let_in([connection], uid)
                await plugging.tell_keys(monitor, connection)
                await plugging.plug_disk(monitor, disk)
            except (Refused, NotOpened, plugging.NoSlot):
                self.machines.keep_out(wished, record.spec)
                self.machines.records.put(record)
                raise
        return wished

    async def unplug_volume(self, record: Record, files: Files, volume_id: str) -> Record:
        if processes.find(files.pid) is not None:
            monitor = await self.machines.monitors.get(record.spec.id, files)
            await plugging.unplug_disk(monitor, slots.volume(volume_id), self.machines.config.unplug_timeout)
        spec = evolve(record.spec, volumes=tuple(each for each in record.spec.volumes if each.volume_id != volume_id))
        self.machines.keep_out(record, spec)
        record = self.outfitted(record, spec)
        self.machines.records.put(record)
        return record

    async def grow_volume(self, record: Record, files: Files, volume_id: str, size: int) -> None:
        """The guest sees a size of so many bytes. Raises UnknownVolume, Busy."""
        record.volume(volume_id)
        if processes.find(files.pid) is not None:
            monitor = await self.machines.monitors.get(record.spec.id, files)
            await plugging.grow(monitor, slots.volume(volume_id), size)

    async def plug_port(self, record: Record, files: Files, port: PortSpec) -> Record:
        others = [each for each in record.spec.ports if each.id != port.id]
        wished = self.outfitted(record, evolve(record.spec, ports=(*others, port)))
        nic = devices.nic(port, wished.slots[slots.port(port.id)])
        self.machines.records.put(wished)
        if processes.find(files.pid) is not None:
            try:
                await self.machines.switches.ensure(record.spec, port)
                namespace = self.machines.config.namespaces[record.spec.host]
                await plugging.plug_nic(await self.machines.monitors.get(record.spec.id, files), nic, namespace)
            except (Refused, NotOpened, plugging.NoSlot):
                if all(each.id != port.id for each in record.spec.ports):
                    await self.machines.switches.ensure_absent(record.spec, port)
                self.machines.records.put(record)
                raise
        return wished

    async def unplug_port(self, record: Record, files: Files, port_id: str) -> Record:
        if processes.find(files.pid) is not None:
            monitor = await self.machines.monitors.get(record.spec.id, files)
            await plugging.unplug_nic(monitor, slots.port(port_id), self.machines.config.unplug_timeout)
        kept = tuple(each for each in record.spec.ports if each.id != port_id)
        gone = (each for each in record.spec.ports if each.id == port_id)
        await self.machines.switches.ensure_absent(record.spec, *gone)
        record = self.outfitted(record, evolve(record.spec, ports=kept))
        self.machines.records.put(record)
        return record

    def outfitted(self, record: Record, spec: GuestSpec) -> Record:
        return evolve(record, spec=spec, slots=slots.assigned(spec, record.slots, self.machines.config.slots))
