"""Compute's quotas of projects and users. Reference: compute.md, section 16; compute-scheduling.md, section 13."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import bindparam, delete, func, insert, select

from cloudctl.compute.tables import COUNTED, Keypair, Server, ServerGroup, UserLimit
from cloudctl.db import Connection
from cloudctl.db.totals import total, totals
from cloudctl.errors import OverQuota
from cloudctl.rest import quota
from cloudctl.rest.quota import UNLIMITED, Limited, Quotas

# Quota classes other than the default one have their limits under this and their name, in place of a project's id.
CLASS = "class:"


def told(resource: str, asked: int, used: int, limit: int) -> str:
    return f"Quota exceeded for {resource}: Requested {asked}, but already used {used} of {limit} {resource}"


# Built once: building costs more than running it.
_of_user = select(UserLimit.resource, UserLimit.limit).where(
    UserLimit.project_id == bindparam("of_project"), UserLimit.user_id == bindparam("of_user")
)
# Few users have limits of their own, so what they have is simply counted.
_counted_of_user = select(
    func.count(), func.coalesce(func.sum(Server.vcpus), 0), func.coalesce(func.sum(Server.memory_mib), 0)
).where(
    Server.project_id == bindparam("of_project"),
    Server.user_id == bindparam("of_user"),
    COUNTED,
)


def counted(conn: Connection, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """`instances`, `cores` and `ram` (MiB) of a project, or of one user in it.

    Building, failed and shelved servers count.
    """
    if user_id is None:
        return totals(conn, project_id, ("instances", "cores", "ram"))
    found = conn.execute(_counted_of_user, {"of_project": project_id, "of_user": user_id}).one()
    return dict(zip(("instances", "cores", "ram"), map(int, found), strict=True))


def _groups(conn: Connection, project_id: str, user_id: str | None = None) -> int:
    query = select(func.count()).select_from(ServerGroup).where(ServerGroup.project_id == project_id)
    return int(conn.execute(query if user_id is None else query.where(ServerGroup.user_id == user_id)).scalar_one())


def used(conn: Connection, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """The usage of a project, or of one user in it."""
    return {**counted(conn, project_id, user_id), "server_groups": _groups(conn, project_id, user_id)}


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


# -- of users: the limits of the project hold for them as well


def user_limits(conn: Connection, project_id: str, user_id: str) -> dict[str, int]:
    """Resource → limit, where this user has one of their own in this project."""
    return dict(conn.execute(_of_user, {"of_project": project_id, "of_user": user_id}).all())


def set_user_limits(conn: Connection, project_id: str, user_id: str, wanted: Mapping[str, int]) -> None:
    # Two requests that set a limit for the first time take turns.
    quota.take(conn, QUOTAS, project_id, {})
    mine = UserLimit.project_id == project_id, UserLimit.user_id == user_id
    conn.execute(delete(UserLimit).where(*mine, UserLimit.resource.in_(wanted)))
    for name, limit in wanted.items():
        row = {"project_id": project_id, "user_id": user_id, "resource": name, "limit": limit}
        conn.execute(insert(UserLimit).values(row))


def reset_limits(conn: Connection, project_id: str) -> None:
    """The limits of the project, and those of users in it, end."""
    quota.reset_limits(conn, QUOTAS, project_id)
    conn.execute(delete(UserLimit).where(UserLimit.project_id == project_id))


def reset_user_limits(conn: Connection, project_id: str, user_id: str) -> None:
    conn.execute(delete(UserLimit).where(UserLimit.project_id == project_id, UserLimit.user_id == user_id))


# -- taking


def take_servers(
    conn: Connection, project_id: str, user_id: str, least: int, most: int, vcpus: int, memory_mib: int
) -> int:
    """How many servers of this size the user can have now, from `least` to `most`. Raises OverQuota below `least`.

    Call it before the rows are inserted; no other transaction counts until this one ends.
    """
    each = {"instances": 1, "cores": vcpus, "ram": memory_mib}
    fitting = most
    for allowed, present in _balances(conn, project_id, user_id):
        for name, amount in each.items():
            if allowed.get(name, UNLIMITED) != UNLIMITED and amount:
                fitting = min(fitting, (allowed[name] - present[name]) // amount)
        if fitting < least:
            raise OverQuota(_exceeded({name: amount * least for name, amount in each.items()}, present, allowed))
    return fitting


def take_growth(conn: Connection, project_id: str, user_id: str, vcpus: int, memory_mib: int) -> None:
    """Raises OverQuota if a server cannot grow by so much."""
    more = {name: amount for name, amount in (("cores", vcpus), ("ram", memory_mib)) if amount}
    for allowed, present in _balances(conn, project_id, user_id):
        limited = {name: amount for name, amount in more.items() if allowed.get(name, UNLIMITED) != UNLIMITED}
        if any(present[name] + amount > allowed[name] for name, amount in limited.items()):
            raise OverQuota(_exceeded(limited, present, allowed))


def _balances(conn: Connection, project_id: str, user_id: str) -> Iterator[tuple[Mapping[str, int], Mapping[str, int]]]:
    """(limits, usage) of the project, and of the user if they have limits of their own."""
    quota.turn(conn, QUOTAS, project_id)
    yield quota.balance(conn, QUOTAS, project_id, ("instances", "cores", "ram"))
    if own := user_limits(conn, project_id, user_id):
        yield own, counted(conn, project_id, user_id)


def take_group(conn: Connection, project_id: str, user_id: str) -> None:
    """Raises OverQuota."""
    quota.take(conn, QUOTAS, project_id, {"server_groups": 1})
    limit = user_limits(conn, project_id, user_id).get("server_groups", UNLIMITED)
    if limit != UNLIMITED and (present := _groups(conn, project_id, user_id)) >= limit:
        raise OverQuota(told("server_groups", 1, present, limit))


def _exceeded(asked: Mapping[str, int], used: Mapping[str, int], allowed: Mapping[str, int]) -> str:
    over = [
        name for name in asked if allowed.get(name, UNLIMITED) != UNLIMITED and used[name] + asked[name] > allowed[name]
    ]

    def listed(amounts: Mapping[str, int]) -> str:
        return ", ".join(str(amounts[name]) for name in over)

    names = ", ".join(over)
    return (
        f"Quota exceeded for {names}: Requested {listed(asked)}, but already used {listed(used)} "
        f"of {listed(allowed)} {names}"
    )


def take_keypair(conn: Connection, project_id: str, user_id: str) -> None:
    """Raises OverQuota. The limit is the project's, the count the user's."""
    of_project = quota.take(conn, QUOTAS, project_id, {})["key_pairs"]
    # The user may be creating key pairs through other projects as well.
    quota.turn(conn, QUOTAS, user_id)
    limit = user_limits(conn, project_id, user_id).get("key_pairs", of_project)
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
