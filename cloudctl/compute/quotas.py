"""What a project may have of compute. Reference: compute.md, section 16; compute-scheduling.md, section 13."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import func, select

from cloudctl.compute.tables import Keypair, ServerGroup
from cloudctl.db import Connection
from cloudctl.db.totals import total, totals
from cloudctl.errors import OverQuota
from cloudctl.rest import quota
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas


def told(resource: str, asked: int, used: int, limit: int) -> str:
    return f"Quota exceeded for {resource}: Requested {asked}, but already used {used} of {limit} {resource}"


def counted(conn: Connection, project_id: str) -> dict[str, int]:
    """`instances`, `cores` and `ram` (MiB) of a project; building, failed and shelved servers count."""
    return totals(conn, project_id, ("instances", "cores", "ram"))


def _groups(conn: Connection, project_id: str) -> int:
    query = select(func.count()).select_from(ServerGroup).where(ServerGroup.project_id == project_id)
    return int(conn.execute(query).scalar_one())


QUOTAS = Quotas(
    "compute",
    (
        Limited("instances", 10, total("instances")),
        Limited("cores", 20, total("cores")),
        Limited("ram", 51200, total("ram")),
        Limited("server_groups", 10, _groups),
        Limited("metadata_items", 128),
        Limited("key_pairs", 100),  # of each user
        Limited("server_group_members", 10),
        Limited("injected_files", 5),
        Limited("injected_file_content_bytes", 10240),
        Limited("injected_file_path_bytes", 255),
        Limited("fixed_ips", UNLIMITED),
        Limited("floating_ips", UNLIMITED),
        Limited("security_groups", UNLIMITED),
        Limited("security_group_rules", UNLIMITED),
    ),
    told,
)


def take_servers(conn: Connection, project_id: str, least: int, most: int, vcpus: int, memory_mib: int) -> int:
    """How many servers of this size the project can have now, from `least` to `most`. Raises OverQuota below `least`.

    Call it before the rows are inserted; no other transaction counts until this one ends.
    """
    allowed = quota.take(conn, QUOTAS, project_id, {})
    used = counted(conn, project_id)
    each = {"instances": 1, "cores": vcpus, "ram": memory_mib}
    fitting = most
    for name, amount in each.items():
        if allowed[name] != UNLIMITED and amount:
            fitting = min(fitting, (allowed[name] - used[name]) // amount)
    if fitting < least:
        raise OverQuota(_exceeded({name: amount * least for name, amount in each.items()}, used, allowed))
    return fitting


def take_growth(conn: Connection, project_id: str, vcpus: int, memory_mib: int) -> None:
    """Raises OverQuota if a server cannot grow by so much."""
    allowed, used = quota.take(conn, QUOTAS, project_id, {}), counted(conn, project_id)
    more = {name: amount for name, amount in (("cores", vcpus), ("ram", memory_mib)) if amount}
    if any(allowed[name] != UNLIMITED and used[name] + amount > allowed[name] for name, amount in more.items()):
        raise OverQuota(_exceeded(more, used, allowed))


def _exceeded(asked: Mapping[str, int], used: Mapping[str, int], allowed: Mapping[str, int]) -> str:
    over = [name for name in asked if allowed[name] != UNLIMITED and used[name] + asked[name] > allowed[name]]

    def listed(amounts: Mapping[str, int]) -> str:
        return ", ".join(str(amounts[name]) for name in over)

    names = ", ".join(over)
    return (
        f"Quota exceeded for {names}: Requested {listed(asked)}, but already used {listed(used)} "
        f"of {listed(allowed)} {names}"
    )


def take_keypair(conn: Connection, project_id: str, user_id: str) -> None:
    """Raises OverQuota. The limit is the project's, the count the user's."""
    limit = quota.take(conn, QUOTAS, project_id, {})["key_pairs"]
    query = select(func.count()).select_from(Keypair).where(Keypair.user_id == user_id)
    if limit != UNLIMITED and conn.execute(query).scalar_one() >= limit:
        raise OverQuota("Quota exceeded, too many key pairs.")


def take_member(conn: Connection, project_id: str, present: int, more: int) -> None:
    """Raises OverQuota if a server group would get too many members."""
    limit = quota.limits(conn, QUOTAS, project_id)["server_group_members"]
    if limit != UNLIMITED and present + more > limit:
        raise OverQuota("Quota exceeded, too many servers in group")


def check_metadata(conn: Connection, project_id: str, items: int) -> None:
    """Raises OverQuota."""
    limit = quota.limits(conn, QUOTAS, project_id)["metadata_items"]
    if limit != UNLIMITED and items > limit:
        raise OverQuota(f"Maximum number of metadata items exceeds {limit}")
