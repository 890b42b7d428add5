"""What users of Apache Libcloud do, from the first server to the last object; whatever is not as it must be raises."""

import sys
import time
from io import BytesIO

from libcloud.compute.providers import get_driver as compute
from libcloud.storage.providers import get_driver as storage

LOGIN = {
    "ex_force_auth_url": f"{sys.argv[1]}/identity",
    "ex_force_auth_version": "3.x_password",
    "ex_tenant_name": "demo",
    "ex_domain_name": "Default",
    "ex_force_service_region": "RegionOne",
}


def wait(ask, what):
    for _ in range(120):
        if (found := ask()) is not None:
            return found
        time.sleep(0.5)
    raise AssertionError(f"{what} did not come about")


def node(driver, id, state):
    return wait(
        lambda: next((each for each in driver.list_nodes() if (each.id, each.state) == (id, state)), None), state
    )


def servers(driver):
    (image, *_), size = driver.list_images(), min(driver.list_sizes(), key=lambda each: each.ram)
    private = next(each for each in driver.ex_list_networks() if each.name == "private")
    key = driver.create_key_pair("libcloud")
    group = driver.ex_create_security_group("libcloud", "of a test")
    rule = driver.ex_create_security_group_rule(group, "tcp", 22, 22, cidr="0.0.0.0/0")
    made = driver.create_node(
        name="libcloud", image=image, size=size, networks=[private], ex_keyname=key.name, ex_security_groups=[group]
    )
    server = node(driver, made.id, "running")
    assert server.private_ips and server.extra["key_name"] == key.name
    assert [each.name for each in driver.ex_get_node_security_groups(server)] == ["libcloud"]
    assert driver.ex_set_metadata(server, {"part": "front"}) == {"part": "front"}
    assert driver.ex_set_server_name(server, "renamed").name == "renamed"
    assert driver.reboot_node(server)
    node(driver, server.id, "running")
    for act, state in ((driver.stop_node, "stopped"), (driver.start_node, "running")):
        assert act(server)
        node(driver, server.id, state)
    assert driver.ex_pause_node(server)
    wait(lambda: driver.ex_get_node_details(server.id).extra["vm_state"] == "paused" or None, "a pause")
    assert driver.ex_unpause_node(server)
    node(driver, server.id, "running")
    volume = driver.create_volume(1, "libcloud")
    wait(
        lambda: next((v for v in driver.list_volumes() if v.id == volume.id and v.state == "available"), None),
        "a volume",
    )
    assert driver.attach_volume(server, volume, "/dev/vdb")
    wait(lambda: next((v for v in driver.list_volumes() if v.id == volume.id and v.state == "inuse"), None), "its use")
    assert driver.detach_volume(driver.ex_get_volume(volume.id))
    wait(
        lambda: next((v for v in driver.list_volumes() if v.id == volume.id and v.state == "available"), None),
        "its end",
    )
    snapshot = driver.create_volume_snapshot(volume, "libcloud")
    wait(lambda: next((s for s in volume.list_snapshots() if s.state == "available"), None), "a snapshot")
    assert driver.destroy_volume_snapshot(snapshot)
    wait(lambda: None if volume.list_snapshots() else True, "no snapshot")
    assert driver.destroy_volume(volume)
    (pool,) = driver.ex_list_floating_ip_pools()
    address = pool.create_floating_ip()
    assert driver.ex_attach_floating_ip_to_node(server, address)
    # Libcloud calls every address of a private range private, and so is the network outside of this cloud.
    assert address.ip_address in node(driver, server.id, "running").private_ips
    assert driver.ex_detach_floating_ip_from_node(server, address)
    assert address.delete()
    copy = driver.create_image(server, "libcloud")
    wait(lambda: driver.get_image(copy.id).extra["status"] == "active" or None, "an image")
    assert driver.delete_image(copy)
    assert driver.ex_resize(server, next(each for each in driver.list_sizes() if each.id != size.id))
    wait(lambda: driver.ex_get_node_details(server.id).extra["vm_state"] == "resized" or None, "a resize")
    assert driver.ex_confirm_resize(server)
    assert "Linux" in driver.ex_get_console_output(server)["output"]
    assert driver.destroy_node(server)
    wait(lambda: None if driver.list_nodes() else True, "no server")
    assert driver.ex_delete_security_group_rule(rule) and driver.ex_delete_security_group(group)
    assert driver.delete_key_pair(key)


def networks(driver):
    network = driver.ex_create_network("libcloud")
    subnet = driver.ex_create_subnet("libcloud", network, "10.66.0.0/24")
    router = driver.ex_create_router("libcloud")
    assert driver.ex_add_router_subnet(router, subnet)
    port = driver.ex_create_port(network, name="libcloud")
    assert port.extra["network_id"] == network.id
    assert driver.ex_update_port(port, name="renamed").extra["name"] == "renamed"
    assert driver.ex_delete_port(port) and driver.ex_del_router_subnet(router, subnet)
    assert driver.ex_delete_router(router) and driver.ex_delete_subnet(subnet) and driver.ex_delete_network(network)


def objects(driver):
    container = driver.create_container("libcloud")
    made = driver.upload_object_via_stream(BytesIO(b"a note"), container, "note", extra={"meta_data": {"part": "one"}})
    assert (made.size, driver.get_object("libcloud", "note").meta_data) == (6, {"part": "one"})
    assert b"".join(driver.download_object_as_stream(made)) == b"a note"
    assert [each.name for each in container.list_objects()] == ["note"]
    assert b"".join(driver.download_object_range_as_stream(made, 2, 6)) == b"note"
    assert made.delete() and container.delete()


of_servers = compute("openstack")("demo", "password", api_version="2.2", **LOGIN)
servers(of_servers)
networks(of_servers)
objects(storage("openstack_swift")("demo", "password", **LOGIN))
print("libcloud: servers, networks and objects are as they must be")
