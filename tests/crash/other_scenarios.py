"""Scenarios of the workflows for images, networks and volumes. How each fails is also tested in its own service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.image.images import SAVING, NewImage
from cloudctl.image.images import create as create_image
from cloudctl.image.kinds import ACTIVATE_IMAGE
from cloudctl.image.store import ImageStore
from cloudctl.image.stores import Stores
from tests.crash import asks
from tests.crash.asks import V2, V3, good, make
from tests.crash.scenario import Scenario, broken
from tests.crash.stage import Stage
from tests.image.test_image_inspection import qcow2

# -- images


def activates(stage: Stage) -> str:
    """No request does this: it happens when a driver has finished writing."""
    project = good(stage.demo.get("/identity/v3/auth/projects"))["projects"][0]["id"]

    def saved(conn: Connection) -> str:
        new = NewImage(project, disk_format="raw", container_format="bare")
        image_id = create_image(conn, new, utc(stage.cloud.clock.seconds()), status=SAVING)
        stage.service.made(ImageStore).path(image_id).write_bytes(b"a snapshot")
        tasks.submit(conn, ACTIVATE_IMAGE, image_id, tasks.Unasked(project))
        return image_id

    return str(stage.cloud.transact(saved))


def activates_nothing(stage: Stage) -> str:
    image_id = activates(stage)
    stage.service.made(ImageStore).path(image_id).unlink()
    return image_id


def deletes_image(stage: Stage) -> str:
    image_id = asks.image(stage)
    asks.put(stage, image_id, "file", b"data")
    stage.settle()
    good(stage.demo.delete(f"{asks.IMAGES}/{image_id}"))
    return image_id


def imports(stage: Stage) -> str:
    return imports_data(stage, b"staged")


def imports_something_else(stage: Stage) -> str:
    return imports_data(stage, qcow2())


def imports_data(stage: Stage, data: bytes) -> str:
    image_id = asks.image(stage)
    asks.put(stage, image_id, "stage", data)
    good(stage.demo.post(f"{asks.IMAGES}/{image_id}/import", {"method": {"name": "glance-direct"}}))
    return image_id


def imports_everywhere(stage: Stage) -> str:
    image_id = asks.image(stage)
    asks.put(stage, image_id, "stage", b"staged")
    wish = {"method": {"name": "glance-direct"}, "all_stores": True}
    good(stage.demo.post(f"{asks.IMAGES}/{image_id}/import", wish))
    return image_id


def imports_another_image(stage: Stage) -> str:
    origin, image_id = asks.image(stage), asks.image(stage)
    asks.put(stage, origin, "file", b"data")
    stage.settle()
    method = {"name": "glance-download", "glance_image_id": origin, "glance_region": "RegionOne"}
    good(stage.demo.post(f"{asks.IMAGES}/{image_id}/import", {"method": method}))
    return image_id


def copies(stage: Stage) -> str:
    image_id = asks.image(stage)
    asks.put(stage, image_id, "file", b"data")
    stage.settle()
    wish = {"method": {"name": "copy-image"}, "stores": ["second"]}
    good(stage.admin.post(f"{asks.IMAGES}/{image_id}/import", wish))
    return image_id


def copies_what_is_lost(stage: Stage) -> str:
    image_id = copies(stage)
    stage.service.made(ImageStore).path(image_id).unlink()
    return image_id


def caches(stage: Stage) -> str:
    image_id = asks.image(stage)
    asks.put(stage, image_id, "file", b"data")
    stage.settle()
    good(stage.admin.put(f"/image/v2/cache/{image_id}"))
    return image_id


def caches_what_is_lost(stage: Stage) -> str:
    image_id = caches(stage)
    stage.service.made(ImageStore).path(image_id).unlink()
    return image_id


def is_cached(wanted: bool) -> Callable[[Stage, str], None]:
    def check(stage: Stage, image_id: str) -> None:
        shown = good(stage.admin.get("/image/v2/cache"))
        assert [each["image_id"] for each in shown["cached_images"]] == ([image_id] if wanted else [])
        assert shown["queued_images"] == []
        cache = stage.service.made(Stores).cache
        assert cache is not None and cache.names() == ([image_id] if wanted else [])

    return check


def removes_a_copy(stage: Stage) -> str:
    image_id = copies(stage)
    stage.settle()
    good(stage.demo.delete(f"/image/v2/stores/default/{image_id}"))
    return image_id


def deletes_the_copied(stage: Stage, image_id: str) -> None:
    stage.demo.delete(f"{asks.IMAGES}/{image_id}")


def copy_failed(stage: Stage, image_id: str) -> None:
    shown = good(stage.demo.get(f"{asks.IMAGES}/{image_id}"))
    assert (shown["status"], shown["stores"], shown["os_glance_failed_import"]) == ("active", "default", "second")
    assert not any(image_id in name for store in stage.service.made(Stores) for name in store.names())


def is_in(*stores: str) -> Callable[[Stage, str], None]:
    """The image is active with data in these stores and no other, or gone if there are none."""

    def check(stage: Stage, image_id: str) -> None:
        assert asks.image_status(stage, image_id) == ("active" if stores else "gone")
        for store in stage.service.made(Stores):
            named = {name for name in store.names() if image_id in name}
            assert named == ({image_id} if store.id in stores else set())
        if stores:
            shown = good(stage.demo.get(f"{asks.IMAGES}/{image_id}"))
            assert shown["stores"] == ",".join(stores) and not shown["os_glance_importing_to_stores"]

    return check


def image_is(status: str, has_data: bool) -> Callable[[Stage, str], None]:
    def check(stage: Stage, image_id: str) -> None:
        assert asks.image_status(stage, image_id) == status
        assert {name for name in asks.files(stage) if image_id in name} == ({image_id} if has_data else set())

    return check


# -- networks


def makes_network(stage: Stage) -> str:
    return str(make(stage, f"{V2}/networks", "network", name="own")["id"])


def deletes_network(stage: Stage) -> str:
    network_id = makes_network(stage)
    make(stage, f"{V2}/subnets", "subnet", network_id=network_id, ip_version=4, cidr="10.9.0.0/24")
    stage.settle()
    good(stage.demo.delete(f"{V2}/networks/{network_id}"))
    return network_id


def network_is(there: bool) -> Callable[[Stage, str], None]:
    def check(stage: Stage, network_id: str) -> None:
        assert (stage.drivers.network.networks.get(network_id) is not None) is there
        assert stage.demo.get(f"{V2}/networks/{network_id}").status == (200 if there else 404)

    return check


def changes_port(stage: Stage) -> str:
    """The port of a running server leaves its security groups."""
    asks.running(stage)
    (port_id,) = asks.ports(stage)
    good(stage.demo.put(f"{V2}/ports/{port_id}", {"port": {"security_groups": []}}))
    return port_id


def deletes_port(stage: Stage) -> str:
    changes_port(stage)
    stage.settle()
    (port_id,) = asks.ports(stage)
    good(stage.demo.delete(f"{V2}/ports/{port_id}"))
    return port_id


def port_is_open(stage: Stage, port_id: str) -> None:
    assert stage.drivers.network.ports.get(port_id).spec.security_groups == ()


def port_is_gone(stage: Stage, port_id: str) -> None:
    assert stage.drivers.network.ports.get(port_id) is None and not asks.ports(stage)


def changes_group(stage: Stage) -> str:
    """The security group of a running server."""
    asks.running(stage)
    (group,) = good(stage.demo.get(f"{V2}/security-groups?name=default"))["security_groups"]
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp", "port_range_min": 22}
    make(stage, f"{V2}/security-group-rules", "security_group_rule", **rule, port_range_max=22)
    return str(group["id"])


def deletes_group(stage: Stage) -> str:
    group_id = str(make(stage, f"{V2}/security-groups", "security_group", name="own")["id"])
    server_id = asks.running(stage, security_groups=[{"name": "own"}])
    assert group_id in {each.id for each in stage.drivers.network.groups.values()}
    asks.delete_server(stage, server_id)
    stage.settle()
    good(stage.demo.delete(f"{V2}/security-groups/{group_id}"))
    return group_id


def group_is_obeyed(stage: Stage, group_id: str) -> None:
    rules = stage.drivers.network.groups.get(group_id).rules
    assert any(rule.protocol == "tcp" for rule in rules)


def group_is_gone(stage: Stage, group_id: str) -> None:
    assert stage.drivers.network.groups.get(group_id) is None


def external(stage: Stage) -> str:
    (network,) = good(stage.demo.get(f"{V2}/networks?router:external=true"))["networks"]
    return str(network["id"])


def changes_router(stage: Stage) -> tuple[str, str]:
    """A router that leads to a running server gets a floating IP."""
    asks.running(stage)
    (port_id,) = asks.ports(stage)
    made = make(stage, f"{V2}/floatingips", "floatingip", floating_network_id=external(stage), port_id=port_id)
    return str(made["router_id"]), str(made["id"])


def deletes_router(stage: Stage) -> tuple[str, str]:
    """With its gateway, after its floating IP and its interface."""
    router_id, floating_id = changes_router(stage)
    stage.settle()
    good(stage.demo.put(f"{V2}/floatingips/{floating_id}", {"floatingip": {"port_id": None}}))
    (port,) = good(stage.demo.get(f"{V2}/ports?device_id={router_id}"))["ports"]
    good(stage.demo.put(f"{V2}/routers/{router_id}/remove_router_interface", {"port_id": port["id"]}))
    good(stage.demo.delete(f"{V2}/routers/{router_id}"))
    return router_id, floating_id


def floating_ip(stage: Stage, floating_id: str) -> Any:
    return good(stage.demo.get(f"{V2}/floatingips/{floating_id}"))["floatingip"]


def router_leads_in(stage: Stage, told: tuple[str, str]) -> None:
    router_id, floating_id = told
    held, shown = stage.drivers.network.routers.get(router_id), floating_ip(stage, floating_id)
    assert [(each.floating_address, each.fixed_address) for each in held.floating_ips] == [
        (shown["floating_ip_address"], shown["fixed_ip_address"])
    ]
    assert shown["status"] == "ACTIVE"


def router_is_in_error(stage: Stage, told: tuple[str, str]) -> None:
    router_id, floating_id = told
    assert good(stage.demo.get(f"{V2}/routers/{router_id}"))["router"]["status"] == "ERROR"
    assert floating_ip(stage, floating_id)["status"] == "ERROR"


def router_is_gone(stage: Stage, told: tuple[str, str]) -> None:
    router_id, floating_id = told
    assert stage.drivers.network.routers.get(router_id) is None
    assert floating_ip(stage, floating_id)["status"] == "DOWN"


# -- volumes


def makes_volume(stage: Stage) -> str:
    return str(make(stage, f"{V3}/volumes", "volume", size=1)["id"])


def deletes_volume(stage: Stage) -> str:
    volume_id = asks.volume(stage)
    good(stage.demo.delete(f"{V3}/volumes/{volume_id}"))
    return volume_id


def extends_volume(stage: Stage) -> str:
    """A volume that a guest has."""
    volume_id = asks.volume(stage)
    asks.attach_volume(stage, asks.running(stage), volume_id)
    stage.settle()
    path = f"{V3}/volumes/{volume_id}/action"
    good(stage.demo.post(path, {"os-extend": {"new_size": 3}}, headers=asks.NEWEST))
    return volume_id


def deletes_attachment(stage: Stage) -> str:
    """The attachment of a machine that is not one of the cloud's servers."""
    volume_id = asks.volume(stage)
    connector = {"host": "outside", "initiator": "iqn", "ip": "192.0.2.1", "platform": "x86_64", "os_type": "linux"}
    made = make(
        stage, f"{V3}/attachments", "attachment", volume_uuid=volume_id, instance_uuid=None, connector=connector
    )
    good(stage.demo.post(f"{V3}/attachments/{made['id']}/action", {"os-complete": {}}, headers=asks.NEWEST))
    stage.settle()
    good(stage.demo.delete(f"{V3}/attachments/{made['id']}", headers=asks.NEWEST))
    return volume_id


def volume_is(status: str, size: int | None) -> Callable[[Stage, str], None]:
    """`size` None: the backend does not have the volume."""

    def check(stage: Stage, volume_id: str) -> None:
        disk = stage.drivers.volume.volumes.get(volume_id)
        assert asks.volumes(stage).get(volume_id, "gone") == status
        assert (disk and disk.size_gib) == size
        if status == "available":
            assert disk.hosts == ()

    return check


SCENARIOS = (
    Scenario("image.image.activate", "works", activates, image_is("active", True)),
    Scenario("image.image.activate", "fails", activates_nothing, image_is("queued", False)),
    Scenario("image.image.delete", "works", deletes_image, image_is("gone", False)),
    Scenario("image.image.import", "works", imports, image_is("active", True)),
    Scenario("image.image.import", "fails", imports_something_else, image_is("queued", False)),
    Scenario("image.image.import", "works in two stores", imports_everywhere, is_in("default", "second")),
    Scenario("image.image.import", "works from another image", imports_another_image, is_in("default")),
    Scenario("image.image.copy", "works", copies, is_in("default", "second")),
    Scenario("image.image.copy", "fails", copies_what_is_lost, copy_failed),
    Scenario("image.image.copy", "loses its image", copies, is_in(), later=(0.0, deletes_the_copied)),
    Scenario("image.image.cache", "works", caches, is_cached(True)),
    Scenario("image.image.cache", "fails", caches_what_is_lost, is_cached(False)),
    Scenario("image.image.cache", "loses its image", caches, is_cached(False), later=(0.0, deletes_the_copied)),
    Scenario("image.copy.delete", "works", removes_a_copy, is_in("second")),
    Scenario("network.network.ensure", "works", makes_network, network_is(True)),
    Scenario("network.network.delete", "works", deletes_network, network_is(False)),
    Scenario("network.port.ensure", "works", changes_port, port_is_open),
    Scenario("network.port.delete", "works", deletes_port, port_is_gone),
    Scenario("network.router.ensure", "works", changes_router, router_leads_in),
    Scenario("network.router.ensure", "fails", changes_router, router_is_in_error, broken("network", "ensure_router")),
    Scenario("network.router.delete", "works", deletes_router, router_is_gone),
    Scenario("network.security_group.ensure", "works", changes_group, group_is_obeyed),
    Scenario("network.security_group.delete", "works", deletes_group, group_is_gone),
    Scenario("volume.volume.create", "works", makes_volume, volume_is("available", 1)),
    Scenario(
        "volume.volume.create", "fails", makes_volume, volume_is("error", None), broken("volume", "ensure_created")
    ),
    Scenario("volume.volume.delete", "works", deletes_volume, volume_is("gone", None)),
    Scenario("volume.volume.extend", "works", extends_volume, volume_is("in-use", 3)),
    Scenario("volume.attachment.delete", "works", deletes_attachment, volume_is("available", 1)),
)
