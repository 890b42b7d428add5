"""What is wrong after a walk is found: each of these spoils a cloud with one server, which has a volume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import evolve

from cloudctl.drivers.specs import Power
from tests.walks import clearing, invariants, servers, trouble, volumes
from tests.walks.end import End
from tests.walks.invariants import INVARIANTS
from tests.walks.walk import HA, Event, Walk


@pytest.fixture
def walk() -> Iterator[Walk]:
    made = Walk(0, frozenset({HA}))
    made.prepare()
    trouble.make_segment(made)
    servers.boot(made)
    volumes.make(made)
    made.cloud.settle()
    servers.attach_volume(made)
    made.cloud.settle()
    yield made
    made.cloud.close()


def test_nothing_is_wrong_with_what_has_just_been_made(walk: Walk) -> None:
    assert not [each for invariant in INVARIANTS for each in invariant(End(walk))]


def _guest(walk: Walk, **otherwise: Any) -> None:
    (guest,) = walk.hypervisor.guests.values()
    walk.hypervisor.guests.put(guest.spec.id, evolve(guest, **otherwise))


def its_guest_is_gone(walk: Walk) -> None:
    (guest,) = walk.hypervisor.guests.values()
    walk.hypervisor.guests.delete(guest.spec.id)


def its_guest_is_off(walk: Walk) -> None:
    _guest(walk, power=Power.STOPPED)


def its_guest_is_elsewhere(walk: Walk) -> None:
    (guest,) = walk.hypervisor.guests.values()
    host = next(name for name in sorted(walk.hypervisor.machines) if name != guest.spec.host)
    _guest(walk, spec=evolve(guest.spec, host=host))


def its_guest_has_neither_ports_nor_volumes(walk: Walk) -> None:
    (guest,) = walk.hypervisor.guests.values()
    _guest(walk, spec=evolve(guest.spec, ports=(), volumes=()))


def it_is_forgotten(walk: Walk) -> None:
    walk.rows("UPDATE servers SET deleted_at = created_at")


def it_is_being_resized(walk: Walk) -> None:
    walk.rows("UPDATE servers SET task_state = 'resize_prep'")


def its_volume_is_not_attached(walk: Walk) -> None:
    walk.rows("DELETE FROM volume_attachments")


def its_volume_is_reserved(walk: Walk) -> None:
    its_volume_is_not_attached(walk)
    walk.rows("DELETE FROM block_devices")
    walk.rows("UPDATE volumes SET status = 'reserved'")


def there_is_one_more_disk(walk: Walk) -> None:
    backend = walk.backends[0]
    (disk,) = backend.volumes.values()
    backend.volumes.put("another", evolve(disk, id="another"))


def its_plug_has_no_address(walk: Walk) -> None:
    (plug,) = walk.network.ports.values()
    walk.network.ports.put(plug.spec.id, evolve(plug, spec=evolve(plug.spec, fixed_ips=())))


def there_is_one_more_wire(walk: Walk) -> None:
    wire = walk.network.networks.values()[0]
    walk.network.networks.put("another", evolve(wire, id="another"))


def its_allocation_is_gone(walk: Walk) -> None:
    walk.rows("DELETE FROM allocations")


def its_boot_is_held(walk: Walk) -> None:
    walk.rows("UPDATE tasks SET state = 'held' WHERE kind = 'compute.server.boot'")


def a_host_was_not_let_back(walk: Walk) -> None:
    walk.rows("UPDATE ha_hosts SET on_maintenance = 1")


@pytest.mark.parametrize(
    ("spoil", "found_by"),
    [
        (its_guest_is_gone, invariants.guests_are_where_and_as_their_servers),
        (its_guest_is_off, invariants.guests_are_where_and_as_their_servers),
        (its_guest_is_elsewhere, invariants.guests_are_where_and_as_their_servers),
        (its_guest_is_gone, invariants.the_audit_finds_nothing),
        (its_guest_has_neither_ports_nor_volumes, invariants.guests_have_the_ports_of_their_servers),
        (its_guest_has_neither_ports_nor_volumes, invariants.guests_have_the_volumes_of_their_servers),
        (it_is_forgotten, invariants.guests_have_servers),
        (it_is_forgotten, invariants.ports_of_servers_have_servers),
        (it_is_forgotten, invariants.resources_are_allocated_where_servers_are),
        (it_is_being_resized, invariants.nothing_is_under_way),
        (its_volume_is_not_attached, invariants.servers_and_volumes_agree),
        (its_volume_is_not_attached, invariants.the_status_of_volumes_says_whether_they_are_used),
        (its_volume_is_reserved, invariants.the_status_of_volumes_says_whether_they_are_used),
        (there_is_one_more_disk, invariants.disks_have_volumes),
        (its_plug_has_no_address, invariants.plugs_are_as_their_ports),
        (there_is_one_more_wire, invariants.the_network_backend_has_nothing_unknown),
        (its_allocation_is_gone, invariants.resources_are_allocated_where_servers_are),
        (its_boot_is_held, invariants.no_task_is_held),
        (a_host_was_not_let_back, invariants.instance_ha_is_done),
    ],
)
def test_what_is_wrong_is_found(
    walk: Walk, spoil: Callable[[Walk], None], found_by: Callable[[End], Iterator[str]]
) -> None:
    assert found_by in INVARIANTS
    spoil(walk)
    assert list(found_by(End(walk)))


def test_an_error_of_the_server_is_found(walk: Walk) -> None:
    walk.events.append(Event(0.0, "GET /", 500, "a bug"))
    assert list(invariants.no_answer_was_an_error_of_the_server(End(walk))) == ["    0.00 GET / → 500 a bug"]


def test_what_is_left_once_everything_was_deleted_is_found(walk: Walk) -> None:
    (guest,) = walk.hypervisor.guests.values()
    clearing.clear(walk)
    before = clearing.there(walk)
    assert not any(each.startswith(("guest", "disk", "plug")) for each in before)
    walk.hypervisor.guests.put(guest.spec.id, guest)
    assert list(clearing.left(walk, before)) == [f"guest {guest.spec.id} is left"]
