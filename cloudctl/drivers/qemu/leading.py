"""Leads a volume of a guest elsewhere: QEMU copies it while the guest writes, and goes on there.

    copying     the guest's writes go to both places
    noted       both places hold the same, and the record has a Lead: whatever dies now, the new place has everything
    led         the guest's device reads and writes at the new place alone, and so says the record

A volume's block node has one of two names, whichever is free, so it is always QEMU that says which place is used.
Source: QEMU's document «QMP Reference Manual» (blockdev-mirror, job-complete, query-block).
"""

from __future__ import annotations

from attrs import evolve, frozen

from cloudctl.drivers.errors import Busy, DriverError, InvalidPower
from cloudctl.drivers.qemu import devices, doors, jobs, plugging, processes, slots
from cloudctl.drivers.qemu.machines import Machines
from cloudctl.drivers.qemu.qmp import Monitor
from cloudctl.drivers.qemu.records import Files, Lead, Record
from cloudctl.drivers.specs import ConnectionInfo, VolumeConnection

JOB = "lead"


@frozen
class Leading:
    """For one call per guest at a time."""

    machines: Machines

    def settled(self, record: Record, files: Files) -> Record:
        """A guest whose process has ended after it was noted has the volume at the new place."""
        if record.lead is None or processes.find(files.pid) is not None:
            return record
        return self._noted(record, record.led)

    async def lead(self, record: Record, files: Files, volume_id: str, info: ConnectionInfo, exact: bool) -> None:
        """The guest has this volume where `info` leads. `exact`: it is off, and the same is there already.

        Raises UnknownVolume, InvalidPower if it is off and only it could copy, Busy, NoCapacity, Silent.
        """
        there = evolve(record.volume(volume_id), info=info)
        if processes.find(files.pid) is None:
            if record.volume(volume_id) != there:
                if not exact and not self.machines.config.dry_run:
                    raise InvalidPower(f"guest {record.spec.id} is off, so it cannot copy volume {volume_id}")
                noted = evolve(record, lead=Lead(there, ""))
                self._noted(noted, noted.led)
            return
        monitor = await self.machines.monitors.get(record.spec.id, files)
        if record.lead is not None:
            record = await self._end(monitor, record, record.lead, forth=record.lead.connection == there)
        await self._tidy(monitor, volume_id)
        if record.volume(volume_id) != there:
            lead = await self._copied(monitor, record, files, there)
            record = evolve(record, lead=lead)
            self.machines.records.put(record)
            record = await self._end(monitor, record, lead)
        if record.volume(volume_id) != there:
            raise Busy(f"guest {record.spec.id} did not go on with the copy of volume {volume_id}")

    async def _copied(self, monitor: Monitor, record: Record, files: Files, there: VolumeConnection) -> Lead:
        """Both places hold the same, and the guest writes to both."""
        name = slots.volume(there.volume_id)
        lead, used = Lead(there, await self._free(monitor, name)), await plugging.opened(monitor, name)
        block = {**devices.volume_disk(there, record.slots[name]).block, "node-name": lead.node, "read-only": False}
        if (uid := processes.owner(files.pid)) is not None:
            doors.let_in([there], uid)
        try:
            await plugging.tell_keys(monitor, there)
            await plugging.open_node(monitor, name, block)
            job = {"job-id": JOB, "device": used, "target": lead.node, "sync": "full", "copy-mode": "write-blocking"}
            await monitor.execute("blockdev-mirror", {**job, "auto-dismiss": False})
            failure = await jobs.outcome(monitor, JOB, self.machines.config.copy_timeout, at=jobs.READY)
            if failure is not None:
                raise jobs.error("the volume was not copied", failure)
        except DriverError:
            if not monitor.is_lost:
                await self._tidy(monitor, there.volume_id)
            self.machines.keep_out_of(record, there)
            raise
        return lead

    async def _end(self, monitor: Monitor, record: Record, lead: Lead, *, forth: bool = True) -> Record:
        """After it was noted: the record of a guest that uses one place only. `forth`: the new one if that can be."""
        volume_id = lead.connection.volume_id
        if forth and await jobs.status(monitor, JOB) == jobs.READY:
            await monitor.execute("job-complete", {"id": JOB})
        if forth or await jobs.status(monitor, JOB) != jobs.READY:
            await jobs.outcome(monitor, JOB, self.machines.config.copy_timeout)
        await self._tidy(monitor, volume_id)
        is_there = await plugging.opened(monitor, slots.volume(volume_id)) == lead.node
        return self._noted(record, record.led if is_there else evolve(record, lead=None))

    def _noted(self, record: Record, now: Record) -> Record:
        """Write the record of a guest that uses one place only, and keep it out of the other."""
        assert record.lead is not None
        self.machines.records.put(now)
        for each in (record.lead.connection, record.volume(record.lead.connection.volume_id)):
            if each not in now.spec.volumes:
                self.machines.keep_out_of(now, each)
        return now

    async def _tidy(self, monitor: Monitor, volume_id: str) -> None:
        """No job runs, and the place that the guest does not use is closed."""
        await jobs.remove(monitor, JOB)
        await plugging.close(monitor, await self._free(monitor, slots.volume(volume_id)))

    async def _free(self, monitor: Monitor, name: str) -> str:
        """The name that the volume's block node does not have."""
        used = await plugging.opened(monitor, name)
        return next(each for each in slots.nodes(name) if each != used)
