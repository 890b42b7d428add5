"""The first start: what a new cloud holds, and the clouds.yaml with which a client finds it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sqlalchemy import DateTime, Integer, insert, select, update

from cloudctl import state_dir
from cloudctl.config import API, Config, address
from cloudctl.db import Connection, schema, secrets
from cloudctl.db.columns import Field, column, new_id, optional_text
from cloudctl.db.records import Record
from cloudctl.db.secrets import Seal
from cloudctl.identity.options import IdentityOptions

CLOUDS_YAML = "clouds.yaml"
# The purpose of the passwords among the secrets in the database.
PASSWORDS = "first-passwords"


class Bootstrapped(Record, table="bootstrapped"):
    """One row once the first start has committed."""

    id: Field[int] = column(Integer, primary_key=True)
    at: Field[datetime] = column(DateTime())
    # Also in the data directory. None: no process of a release that knows it has started yet.
    cloud_id: Field[str | None] = optional_text(64)


HEAD = """\
# Written at the first start. Use it with:
#   export OS_CLIENT_CONFIG_FILE={path} OS_CLOUD=cloudctl
clouds:
"""

CLOUD = """\
  {name}:
    auth_type: password
    auth:
      auth_url: {auth_url}
      username: {user}
      password: {password}
      project_name: {project}
      user_domain_id: default
      project_domain_id: default
    region_name: {region}
    identity_api_version: "3"
"""

FIRST_LINES = """\
cloudctl is ready at {auth_url}

  export OS_CLIENT_CONFIG_FILE={path} OS_CLOUD=cloudctl
  openstack server create --flavor m1.tiny --image tiny --network private --wait first
"""

ENGINE_LINES = """\
cloudctl works on tasks; {url}/healthcheck and {url}/metrics tell how it does
"""

# clouds.yaml name → user.
ACCOUNTS = {"cloudctl": "demo", "cloudctl-admin": "admin"}


def base_url(config: Config) -> str:
    """Where a client on this machine reaches the main APIs."""
    if config.server.public_url:
        return config.server.public_url
    found = address(config.server.listen)
    if found is None:
        return "http://127.0.0.1:8780"
    host = "127.0.0.1" if found.host in ("", "0.0.0.0", "::") else found.host
    return f"{found.scheme}://{f'[{host}]' if ':' in host else host}:{found.port}"


def write_clouds_yaml(config: Config, passwords: Mapping[str, str]) -> Path:
    """Write the file by which stock clients find this cloud as demo and as admin; only its owner may read it."""
    path = config.state_dir / CLOUDS_YAML
    text = HEAD.format(path=path) + "".join(
        CLOUD.format(
            name=name,
            # A JSON string is a YAML string, whatever is in it.
            auth_url=json.dumps(f"{base_url(config)}/identity"),
            user=user,
            password=json.dumps(passwords[user]),
            project=user,
            region=json.dumps(config.section(IdentityOptions).region),
        )
        for name, user in ACCOUNTS.items()
    )
    fresh = path.with_suffix(".new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    return path


def first_lines(config: Config) -> str:
    """What a newcomer copies; for a process without the API, where its health and metrics are."""
    if API not in config.server.roles:
        return ENGINE_LINES.format(url=base_url(config))
    return FIRST_LINES.format(auth_url=f"{base_url(config)}/identity", path=config.state_dir / CLOUDS_YAML)


def is_done(conn: Connection) -> bool:
    """Whether this database has had its first start."""
    return conn.execute(select(Bootstrapped.id)).first() is not None


def mark_done(conn: Connection, now: datetime) -> None:
    conn.execute(insert(Bootstrapped).values(id=1, at=now))


def identified(conn: Connection, data_dir: Path) -> str:
    """The id of the cloud. The first call makes it and marks the data directory with it. Raises ConfigError."""
    schema.lock(conn)
    known = conn.scalar(select(Bootstrapped.cloud_id))
    if known is None:
        known = new_id()
        state_dir.propose(data_dir, known)
        conn.execute(update(Bootstrapped).values(cloud_id=known))
    return known


# -- the first users' passwords, so that each process can write a clouds.yaml


def keep_passwords(conn: Connection, seal: Seal, passwords: Mapping[str, str]) -> None:
    secrets.write(conn, seal, PASSWORDS, {1: json.dumps(dict(passwords)).encode()})


def kept_passwords(conn: Connection, seal: Seal) -> dict[str, str] | None:
    """None for a cloud that was made by an older release."""
    found = secrets.read(conn, seal, PASSWORDS)
    return json.loads(found[1]) if found else None
