"""The command line: an error is reported in one line, and the exit status is 64."""

from __future__ import annotations

import gc
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import make_url
from twisted.logger import capturedLogs

import cloudctl
from cloudctl import bootstrap, cli, tap
from tests.live import forks
from tests.live.process import command


def parse(*arguments: str) -> tap.Options:
    options = tap.Options()
    options.parseOptions(list(arguments))
    return options


def twist(directory: Path, *arguments: str) -> tuple[int, str]:
    """How `twist cloudctl` ends there, and all that it says."""
    log = directory / "said"
    log.unlink(missing_ok=True)
    process = forks.origin().start([command("twist"), "cloudctl", *arguments], log, os.environ, directory)
    try:
        return process.wait(timeout=120), log.read_text()
    finally:
        process.kill()


def test_the_defaults_are_loopback_and_sqlite(tmp_path: Path) -> None:
    made = parse(f"--state-dir={tmp_path}").config
    assert made is not None
    assert made.server.listen == ["tcp:8780:interface=127.0.0.1"]
    assert made.server.ha_listen == ["tcp:15868:interface=127.0.0.1"]
    assert made.database_url == f"sqlite:///{tmp_path}/cloudctl.sqlite"


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('state_dir = "elsewhere"\n[server]\nlisten = ["tcp:1"]\nha_listen = ["tcp:2"]\n')
    made = parse(
        f"--config={file}", "--listen=tcp:3", "--listen=unix:/tmp/x", "--state-dir=here", "--ha-listen="
    ).config
    assert made is not None
    assert made.state_dir == Path("here").absolute()
    assert (made.server.listen, made.server.ha_listen) == (["tcp:3", "unix:/tmp/x"], [])


def test_a_public_address_may_end_with_a_slash(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[server]\npublic_url = "https://a.example/cloud/"\nha_public_url = "https://b.example/"\n')
    made = parse(f"--config={file}", f"--state-dir={tmp_path}").config
    assert made is not None
    assert bootstrap.base_url(made) == made.server.public_url == "https://a.example/cloud"
    assert made.server.ha_url == made.server.ha_public_url == "https://b.example"


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("[server]\nlisen = 1", "server.lisen: unknown option"),
        ("[server]\nlisten = 1", "server.listen: 1 is not a list"),
        ('[server]\nlisten = ["tcp:x:y:z"]', "server.listen: 'tcp:x:y:z' is not a valid endpoint"),
        ('[server]\nlisten = ["tcp:interface=::1:port=99999"]', "server.listen: 'tcp:interface=::1:port=99999' is not"),
        (
            '[compute]\nconsole_listen = "tcp:70000"',
            "compute.console_listen: 'tcp:70000' is not a valid endpoint: 70000",
        ),
        (
            '[compute]\nconsole_listen = "tcp"\nconsole_url = "ws://console.example"',
            "compute.console_listen: 'tcp' is not a valid endpoint",
        ),
        (
            '[compute]\nmetadata_listen = "8775"\nmetadata_secret = "sixteen bytes and more"',
            "compute.metadata_listen: '8775' is not a valid endpoint",
        ),
        ('[compute.zones]\na = ["x", "y"]\nb = ["y", "z"]', "compute.zones: in several zones: y"),
        ('[compute.zones]\n"a:b" = ["x"]', "compute.zones: 'a:b' cannot be the name of a zone"),
        (
            '[compute]\ndefault_availability_zone = "internal"',
            "default_availability_zone: 'internal' cannot be the name",
        ),
        ("[compute]\nshelved_offload_time = -2", "compute.shelved_offload_time: must be -1 (never), 0"),
        (
            '[compute]\nconsole_origins = ["dash.example"]',
            "console_origins: 'dash.example' is not the origin of a page",
        ),
        ('[compute]\nconsole_origins = ["http://["]', "compute.console_origins: is not an address: Invalid IPv6 URL"),
        ('[compute]\nconsole_url = "wss://c:99999"', "compute.console_url: is not an address: Port out of range"),
        ('[compute]\nconsole_vnc_page = "https://["', "compute.console_vnc_page: is not an address: Invalid IPv6 URL"),
        ('[network]\npool_cidr = "10.0.0.0/27"', "network.pool_cidr: 10.0.0.0/27 has no room for a subnet: /26 is"),
        ('[network]\npool_cidr = "fd00::/65"', "network.pool_cidr: fd00::/65 has no room for a subnet: /64 is"),
        ('[network]\nphysical_networks = [""]', "network.physical_networks: must not be empty"),
        ("[image]\nimport_ports = [99999]", "image.import_ports: 99999 is not a port"),
        ("[image]\nmax_tags = -1", "image.max_tags: must not be negative"),
        (
            '[object_store]\ns3_hosts = ["https://s3.example.com"]',
            "s3_hosts: 'https://s3.example.com' is not a host name",
        ),
        ('[object_store]\ns3_hosts = ["S3.example.com:80"]', "s3_hosts: 'S3.example.com:80' is not a host name"),
        (
            "[instance_ha]\ncliff_share = 5.0\nsegment_share = 2",
            "instance_ha.cliff_share: must be 0 to 1; instance_ha.seg",
        ),
        ('[volume]\nhost = "a@b"', "volume.host: 'a@b' cannot be a part of host@backend#backend"),
        ("[volume]\nvolumes = -2", "volume.volumes: must be -1 (no limit) or more"),
        ('[volume]\navailability_zones = [""]', "volume.availability_zones: must not be empty"),
        (
            "[identity.passwords]\nminimum_age_days = 1000000000",
            "identity.passwords.minimum_age_days: ",
        ),
        ("[identity]\noauth_access_token_lifetime = 1000000000000", "identity.oauth_access_token_lifetime: "),
        ("[identity]\nmaximum_project_depth = 0", "identity.maximum_project_depth"),
        ("[identity.argon2]\nmemory_cost = 1", "identity.argon2.memory_cost: 'memory_cost' must be >= 8: 1"),
        ("[identity.argon2]\nmemory_cost = 8\nparallelism = 2", "identity.argon2: memory_cost must be 8 or more for"),
        ("[identity.argon2]\ntime_cost = 0", "identity.argon2.time_cost: 'time_cost' must be > 0: 0"),
        ("[compute]\nmax_limit = 9223372036854775807", "compute.max_limit: 'max_limit' must be <= 1000000: 9223"),
        ('[database]\nsealing_keys = "the key"', "database.sealing_keys: what is there is not a list"),
        ('[server]\ntrusted_proxies = ["10.0.0.0/8"]', "server.trusted_proxies: '10.0.0.0/8' is not an address"),
        ('[server]\ntrusted_proxies = ["::1", "proxy"]', "server.trusted_proxies: 'proxy' is not an address"),
        ("[sever]", "sever: unknown section"),
        ("tasks = 3", "tasks: must be a table: [tasks]"),
        ("[[server]]\nlisten = []", "server: must be a table: [server]"),
        ("[identity]\ntoken_lifetime = 0", "identity.token_lifetime"),
        ('[server]\npublic_url = "https://cloud:99999"', "server.public_url: is not an address: Port out of range"),
        ('[server]\npublic_url = "http://["', "server.public_url: is not an address: Invalid IPv6 URL"),
        ('[server]\npublic_url = "http://h:0"', "server.public_url: is not an address: 'http://h:0' names no port"),
        ('[server]\npublic_url = "http://x/v2.1"', "server.public_url: part of its path looks like an API version"),
        ("[driver.hypervisers.fake]", "driver.hypervisers: unknown kind"),
        ("x = [", "c.toml"),
        ('[database]\nurl = "nonsense"', "database.url: Could not parse"),
        ('[database]\nurl = "nonsense://x"', "database.url: must begin with postgresql+psycopg:// or sqlite:///"),
        ('[database]\nurl = "mysql://x"', "database.url: must begin with postgresql+psycopg:// or sqlite:///"),
        ('[database]\nurl = "postgresql+nonsense://x"', "database.url: Can't load plugin"),
        ('[database]\nurl = "postgresql+pg8000://x"', "pip install cloudctl[postgresql]"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, toml: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text(toml)
    with pytest.raises(SystemExit) as raised:
        parse(f"--config={file}")
    assert raised.value.code == 64
    assert told in capsys.readouterr().err


def test_all_problems_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[server]\na = 1\nb = 2\n[tasks]\nslots = 0\n")
    with pytest.raises(SystemExit):
        parse(f"--config={file}")
    told = capsys.readouterr().err
    assert all(path in told for path in ("server.a", "server.b", "tasks.slots"))


def test_twist_ends_with_one_line_and_64(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[server]\nlisen = 1\n")
    # One of them imports everything by itself: what that says would be lines of its own.
    done = subprocess.run(
        [command("twist"), "cloudctl", f"--config={file}"], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    for status, said in ((done.returncode, done.stdout + done.stderr), twist(tmp_path, "--nonsense")):
        assert status == 64
        (line,) = said.splitlines()
        assert "lisen" in line or "nonsense" in line


def test_who_interrupts_a_start_is_shown_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tap, "within_files", lambda made: made)
    monkeypatch.setattr(tap, "CloudProcess", interrupted)
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    monkeypatch.setattr(gc, "disable", lambda: None)
    with pytest.raises(SystemExit) as raised:
        tap.makeService(parse(f"--state-dir={tmp_path}"))
    assert (raised.value.code, capsys.readouterr().err) == (130, "cloudctl: interrupted before it was started\n")


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('[drivers]\nvolume = "nonsense"', "driver.volume.nonsense: unknown driver; available drivers: fake"),
        ("[driver.hypervisor.fake]\nhsots = 1", "driver.hypervisor.fake.hsots: unknown option"),
        ("[driver.hypervisor.fak]", "driver.hypervisor.fak: nothing reads it; valid names: fake, "),
        (
            '[drivers]\nvolume = { a = "fake", b = "fake" }\n[driver.volume.fake]\ncapacity = 1',
            "driver.volume.fake: nothing reads it; the options of this driver are in [driver.volume.a] and "
            "[driver.volume.b]\n",
        ),
        (
            '[policy]\nfile = "/nonexistent/policy.toml"',
            "policy.file: /nonexistent/policy.toml: No such file or directory\n",
        ),
        ('[drivers]\nbus = "amqp"\n[driver.bus.amqp]\nendpoint = "tpc:rabbit"', "driver.bus.amqp: "),
        (
            '[drivers]\nbus = "amqp"\n[driver.bus.amqp]\nendpoint = "tcp:host"',
            "driver.bus.amqp: endpoint: 'tcp:host': ",
        ),
        ('[drivers]\nbus = "amqp"\n[driver.bus.amqp]\ntimeout = 0', "driver.bus.amqp.timeout: must be greater than 0"),
        (
            "[identity.argon2]\nmemory_cost = 134217728\nparallelism = 16777216",
            "identity.argon2: no password can be hashed at this cost: Too many lanes",
        ),
        ("[identity.argon2]\nmemory_cost = 5000000000", "identity.argon2: no password can be hashed at this cost: "),
    ],
)
def test_what_only_the_cloud_can_judge_is_one_line_too(tmp_path: Path, toml: str, told: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(toml)
    status, said = twist(tmp_path, f"--config={file}", f"--state-dir={tmp_path / 'state'}")
    assert status == 64
    assert told in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("state_dir", "told"), [("file", "state_dir: {} is no directory"), ("file/within", "{}: Not a directory")]
)
def test_a_state_directory_that_cannot_be_made_is_one_line(tmp_path: Path, state_dir: str, told: str) -> None:
    (tmp_path / "file").touch()
    status, said = twist(tmp_path, f"--state-dir={tmp_path / state_dir}")
    assert status == 64
    (line,) = said.splitlines()
    assert line == f"cloudctl: {told.format(tmp_path / state_dir)}"
    for words in (["db", "version"], ["keys", "rotate"]):
        result = CliRunner().invoke(cli.main, [f"--state-dir={tmp_path / 'file' / 'within'}", *words])
        assert result.exit_code == 1
        assert str(tmp_path / "file") in result.output and len(result.output.splitlines()) == 1


def test_a_state_directory_that_is_no_text_is_one_line_of_the_operators_command_too(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("state_dir = 5\n")
    result = CliRunner().invoke(cli.main, [f"--config={file}", "db", "version"])
    assert (result.exit_code, result.output) == (64, "Error: state_dir: must be a string\n")


@pytest.mark.parametrize("words", ["db version", "db upgrade", "tasks list", "events", "hosts waiting", "keys rotate"])
def test_the_operators_command_makes_no_cloud_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, words.split())
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert f"there is no cloud in {tmp_path / 'state'}" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["tasks list --state=faild", "tasks list --limit=-1"])
def test_the_operators_command_takes_no_list_that_is_always_empty(tmp_path: Path, words: str) -> None:
    result = CliRunner().invoke(cli.main, [f"--state-dir={tmp_path}", *words.split()])
    assert result.exit_code == 2
    assert "Invalid value for '--" in result.output


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'[database]\nurl = "sqlite:///{tmp_path}"\n')
    arguments = [f"--config={file}", f"--state-dir={tmp_path / 'state'}"]
    told = f"database: {tmp_path}: unable to open database file"
    assert twist(tmp_path, *arguments) == (69, f"cloudctl: {told}\n")
    result = CliRunner().invoke(cli.main, [*arguments, "db", "version"])
    assert (result.exit_code, result.output) == (1, f"Error: {told}\n")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "{file}: file is not a database"),
        ("postgresql+psycopg://u:secret@127.0.0.1:1/x?nonsense=1", 'invalid connection option "nonsense"'),
    ],
)
def test_a_database_that_is_none_is_one_line(tmp_path: Path, url: str, told: str) -> None:
    state, file = tmp_path / "state", tmp_path / "c.toml"
    state.mkdir(mode=0o700)
    (state / "cloudctl.sqlite").write_text("something else" * 1000)
    told = told.format(file=state / "cloudctl.sqlite")
    file.write_text(f'[database]\nurl = "{url}"\n')
    arguments = [f"--config={file}", f"--state-dir={state}"]
    assert twist(tmp_path, *arguments) == (69, f"cloudctl: database: {told}\n")
    result = CliRunner().invoke(cli.main, [*arguments, "db", "version"])
    assert (result.exit_code, result.output) == (1, f"Error: database: {told}\n")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("-c search_path=", "no schema has been selected to create in"),
        ("-c search_path=pg_catalog", "permission denied to create"),
    ],
)
def test_a_database_that_lets_nothing_be_created_is_one_line(
    tmp_path: Path, postgresql_url: str, option: str, told: str
) -> None:
    url = make_url(postgresql_url).update_query_dict({"options": option}).render_as_string(hide_password=False)
    file = tmp_path / "c.toml"
    file.write_text(f'[database]\nurl = "{url}"\n[server]\npublic_url = "http://cloud.example.com"\n')
    arguments = [f"--config={file}", f"--state-dir={tmp_path / 'state'}"]
    status, said = twist(tmp_path, *arguments)
    assert status == 69
    assert said.startswith(f"cloudctl: database: {told}")
    result = CliRunner().invoke(cli.main, [*arguments, "tasks", "list"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: database: ")


def test_both_commands_say_their_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        parse("--version")
    assert raised.value.code == 0
    expected = f"cloudctl {cloudctl.__version__}\n"
    assert capsys.readouterr().out == expected
    assert CliRunner().invoke(cli.main, ["--version"]).output == expected


def test_a_port_that_is_taken_ends_the_start_with_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"--listen=tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        status, said = twist(tmp_path, listen, "--ha-listen=", f"--state-dir={tmp_path / 'state'}")
    assert status == 69
    assert said.startswith("cloudctl: server.listen: 'tcp:") and "Address already in use" in said
    assert "Traceback" not in said
    assert "is ready" not in said


@pytest.mark.parametrize(
    ("listen", "told"),
    [
        ("unix:nowhere/api.sock", "nowhere/api.sock.lock: No such file or directory"),
        ("haproxy:tcp:70000", "bind(): port must be 0-65535."),
    ],
)
def test_an_address_that_cannot_be_ends_the_start_with_one_line(tmp_path: Path, listen: str, told: str) -> None:
    (tmp_path / "c.toml").write_text('[server]\npublic_url = "http://cloud.example.com"\n')
    status, said = twist(tmp_path, "--config=c.toml", f"--listen={listen}", "--ha-listen=")
    assert (status, said) == (69, f"cloudctl: server.listen: {listen!r}: {told}\n")


@pytest.mark.parametrize("wrong", ["privateKey", "certKey"])
def test_a_file_of_a_tls_endpoint_that_is_no_pem_is_told_as_such(
    tmp_path: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    files = {"privateKey": tmp_path / "key.pem", "certKey": tmp_path / "garbage.pem"}
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files["privateKey"].write_bytes(b"garbage" if wrong == "privateKey" else key.private_bytes(*form))
    files["certKey"].write_text("garbage")
    with pytest.raises(SystemExit):
        parse(":".join(("--listen=ssl:8443", *(f"{name}={file}" for name, file in files.items()))))
    told = capsys.readouterr().err
    assert "its private key or its certificate cannot be read (" in told and told.endswith("): both must be PEM\n")


# Each is needed later or never: for a wrong path, a scrape, a migration, another database.
NOT_AT_START = ("klein", "werkzeug", "prometheus_client", "alembic", "mako", "psycopg", "openstack")
# What answers at the root, apart from its API.
OF_THE_ROOT = ("cloudctl.identity.api", *(f"cloudctl.identity.api.{name}" for name in ("faults", "root", "versions")))


def test_a_start_imports_nothing_that_it_does_not_need() -> None:
    code = "import sys; from cloudctl import tap; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "sqlalchemy" in loaded and "cloudctl.compute.servers" in loaded
    assert [name for name in NOT_AT_START if name in loaded] == []
    # The first request for an API imports it.
    apis = [name for name in loaded if name.startswith("cloudctl.") and name.split(".")[2:3] == ["api"]]
    assert apis == list(OF_THE_ROOT)


def test_what_is_imported_is_not_collected_and_the_collector_is_as_before() -> None:
    frozen = gc.get_freeze_count()
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        with tap.kept():
            assert not gc.isenabled()
            kept: list[list[int]] = [[] for _ in range(1000)]
        assert gc.isenabled() is enabled
    gc.enable()
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_collections_begin_when_the_cloud_is_up() -> None:
    gc.disable()
    tap.collect_from_now_on()
    assert gc.isenabled()
    assert not gc.get_objects(generation=2)


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "connections"),
    [
        (1024, 524288, 4128, 2000),
        (1024, -1, 4128, 2000),
        (65536, 65536, 65536, 2000),
        (-1, -1, -1, 2000),
        (1024, 1024, 1024, 448),
        (64, 64, 64, 8),
        (3, 3, 3, 1),
    ],
)
def test_there_are_no_more_connections_than_open_files_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int, connections: int
) -> None:
    limit = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limit.append(new))
    made = parse(f"--state-dir={tmp_path}").config
    assert made is not None
    with capturedLogs() as told:
        found = tap.within_files(made)
    assert (limit[-1], found.admission.connections) == ((raised, hard), connections)
    assert len(told) == (connections < 2000)
