"""Where the storage daemon listens, and where its sockets are."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from cloudctl.drivers.errors import Unusable
from cloudctl.drivers.nbd.daemon import sockets
from cloudctl.drivers.nbd.options import Config, endpoint, server
from cloudctl.drivers.nbd.served import exports, node_name
from cloudctl.drivers.qcow2.records import Volume
from cloudctl.errors import ConfigError
from cloudctl.options import structure


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("192.0.2.1:10809", ("192.0.2.1", "10809")),
        ("[2001:db8::1]:1", ("2001:db8::1", "1")),
        ("san:65535", ("san", "65535")),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(text: str, found: Any) -> None:
    assert endpoint(text) == found


@pytest.mark.parametrize("text", ["10809", ":1", "a:", "a:0", "a:65536", "a:b", "2001:db8::1:10809", "a:-1", "[]:1"])
def test_what_is_no_endpoint_is_refused_in_the_configuration(text: str) -> None:
    with pytest.raises(ConfigError, match=r"driver\.volume\.nbd"):
        structure(Config, {"listen": text}, "driver.volume.nbd")


def test_the_server_is_a_socket_address_of_qemu() -> None:
    assert server("", Path("/run/x.nbd")) == {"type": "unix", "path": "/run/x.nbd"}
    assert server("[::1]:10809", Path("/run/x.nbd")) == {"type": "inet", "host": "::1", "port": "10809"}
    assert server("[::1]:10809", Path("/run/x.nbd"), 7)["port"] == "10816", "each volume has its own"


def test_two_volumes_have_two_daemons_also_if_they_are_of_two_directories(tmp_path: Path) -> None:
    assert sockets(tmp_path, Path("/a")) != sockets(tmp_path, Path("/b"))
    assert sockets(tmp_path, Path("/a")) == sockets(tmp_path, Path("/a"))
    found = {sockets(tmp_path, Path(place), id) for place in ("/a", "/b") for id in (None, "v1", "v2")}
    assert len(found) == 6, "and each volume has one of its own"


def test_a_directory_in_which_no_socket_fits_is_unusable(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="runtime_dir"):
        sockets(tmp_path / ("x" * 100), Path("/a")).open()
    (tmp_path / "file").touch()
    with pytest.raises(Unusable, match="file"):
        sockets(tmp_path / "file", Path("/a")).open()


def test_the_directory_of_the_sockets_is_the_owners_and_clients_go_through_it(tmp_path: Path) -> None:
    sockets(tmp_path / "run" / "here", Path("/a")).open()
    for made in (tmp_path / "run", tmp_path / "run" / "here"):
        found = made.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o711 if os.geteuid() == 0 else 0o700, os.geteuid())


def test_each_host_of_each_volume_has_an_export_of_its_own() -> None:
    one, two = exports(Volume("v1", 1, ("a", "b"))), exports(Volume("v2", 1, ("a", "b")))
    assert set(one.values()) == {"v1/a", "v1/b"}
    assert not one.keys() & two.keys()


def test_names_of_nodes_fit_into_qemu() -> None:
    assert len(node_name("x" * 1000)) <= 31
    assert node_name("v1") != node_name("v2")
