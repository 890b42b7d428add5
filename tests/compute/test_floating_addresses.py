"""What a server shows of floating IPs that lead to it. Reference: compute.md, sections 5.1 and 8.2."""

from __future__ import annotations

from tests.compute.asking import Asking

V2 = "/networking/v2.0"


def test_a_floating_address_is_beside_the_fixed_one_until_the_server_goes(demo: Asking) -> None:
    server_id = demo.create().json()["server"]["id"]
    demo.cloud.settle()
    (port,) = demo.client.get(f"{V2}/ports?device_id={server_id}").json()["ports"]
    (public,) = demo.client.get(f"{V2}/networks?router:external=true").json()["networks"]
    wanted = {"floating_network_id": public["id"], "port_id": port["id"]}
    made = demo.client.post(f"{V2}/floatingips", {"floatingip": wanted}).json()["floatingip"]
    demo.cloud.settle()

    shown = demo.get(f"/servers/{server_id}").json()["server"]["addresses"]["private"]
    assert [(each["addr"], each["OS-EXT-IPS:type"], each["version"]) for each in shown] == [
        (port["fixed_ips"][0]["ip_address"], "fixed", 4),
        (made["floating_ip_address"], "floating", 4),
    ]
    assert {each["OS-EXT-IPS-MAC:mac_addr"] for each in shown} == {port["mac_address"]}
    brief = demo.get(f"/servers/{server_id}/ips").json()["addresses"]["private"]
    assert [each["addr"] for each in brief] == [each["addr"] for each in shown]
    # Servers are found by their fixed addresses only.
    assert demo.get(f"/servers?ip={made['floating_ip_address']}").json()["servers"] == []

    assert demo.delete(f"/servers/{server_id}").status == 204
    demo.cloud.settle()
    left = demo.client.get(f"{V2}/floatingips/{made['id']}").json()["floatingip"]
    assert (left["port_id"], left["status"]) == (None, "DOWN")
