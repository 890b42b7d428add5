"""Configuration of individual domains, stored for clients that write and read it.

Nothing in this cloud acts on it: users of every domain are in the cloud's own database, and there is no LDAP backend.
Values are sealed with the keys of the credentials, and passwords are never shown. Reference: identity.md, section 4;
«Domain configuration» of the Identity API v3.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from attrs import frozen
from sqlalchemy import delete, insert, select

from cloudctl.db import Connection
from cloudctl.errors import Forbidden
from cloudctl.identity import domains, records
from cloudctl.identity.payload import Keys
from cloudctl.identity.tables import DomainOption
from cloudctl.rest.body import Items, Length, Range, structure

# Group → option → value.
Config = dict[str, dict[str, Any]]

Text = Annotated[str, Length(0, 1024)]
Number = Annotated[int, Range(-1)]
Texts = Annotated[list[Text], Items(0, 64)]


@frozen
class Option:
    """`type`: of its JSON value, which may be null as well. `default`: what GET /domains/config/default shows."""

    type: Any = Text
    default: Any = None
    secret: bool = False


def _attributes(**names: str | None) -> dict[str, Option]:
    return {name: Option(Text, default) for name, default in names.items()}


GROUPS: Mapping[str, Mapping[str, Option]] = {
    "identity": {"driver": Option(Text, "sql"), "list_limit": Option(Number)},
    "ldap": {
        "url": Option(Text, "ldap://localhost"),
        "user": Option(),
        "password": Option(secret=True),
        "suffix": Option(Text, "cn=example,cn=com"),
        "query_scope": Option(Literal["one", "sub"], "one"),
        "page_size": Option(Number, 0),
        "alias_dereferencing": Option(Literal["never", "searching", "always", "finding", "default"], "default"),
        "debug_level": Option(Number),
        "chase_referrals": Option(bool),
        **_attributes(
            user_tree_dn=None,
            user_filter=None,
            user_objectclass="inetOrgPerson",
            user_id_attribute="cn",
            user_name_attribute="sn",
            user_mail_attribute="mail",
            user_description_attribute="description",
            user_pass_attribute="userPassword",
            user_enabled_attribute="enabled",
            user_enabled_default="True",
            user_default_project_id_attribute=None,
            user_enabled_emulation_dn=None,
            group_tree_dn=None,
            group_filter=None,
            group_objectclass="groupOfNames",
            group_id_attribute="cn",
            group_name_attribute="ou",
            group_member_attribute="member",
            group_desc_attribute="description",
            tls_cacertfile=None,
            tls_cacertdir=None,
        ),
        "user_enabled_invert": Option(bool, False),
        "user_enabled_mask": Option(Number, 0),
        "user_enabled_emulation": Option(bool, False),
        "user_enabled_emulation_use_group_config": Option(bool, False),
        "user_attribute_ignore": Option(Texts, ["default_project_id"]),
        "user_additional_attribute_mapping": Option(Texts, []),
        "group_members_are_ids": Option(bool, False),
        "group_ad_nesting": Option(bool, False),
        "group_attribute_ignore": Option(Texts, []),
        "group_additional_attribute_mapping": Option(Texts, []),
        "use_tls": Option(bool, False),
        "tls_req_cert": Option(Literal["demand", "never", "allow"], "demand"),
        "connection_timeout": Option(Number, -1),
        "use_pool": Option(bool, True),
        "pool_size": Option(Number, 10),
        "pool_retry_max": Option(Number, 3),
        "pool_retry_delay": Option(float, 0.1),
        "pool_connection_timeout": Option(Number, -1),
        "pool_connection_lifetime": Option(Number, 600),
        "use_auth_pool": Option(bool, True),
        "auth_pool_size": Option(Number, 100),
        "auth_pool_connection_lifetime": Option(Number, 60),
    },
}

DEFAULTS: Config = {
    group: {name: option.default for name, option in options.items() if not option.secret}
    for group, options in GROUPS.items()
}


# -- rules


def check_names(group: str, option: str = "") -> None:
    """Raises Forbidden, as stock services do, for an unknown group or option."""
    if group not in GROUPS:
        raise invalid(f"there is no group {group[:64]}")
    if option and option not in GROUPS[group]:
        raise invalid(f"the group {group} has no option {option[:64]}")


def checked(sent: Mapping[str, Any], group: str = "", option: str = "") -> Config:
    """All that a body sets; `group` and `option` are those of the path, empty where it has none.

    Below an option the body holds that option; otherwise it holds groups. Raises Forbidden, BodyError.
    """
    if group:
        check_names(group, option)
    groups = {group: sent} if option else sent
    if (group and set(groups) != {group}) or (option and set(sent) != {option}):
        raise invalid(f"the body must contain {option or group}, as the path does, and nothing else")
    found: Config = {}
    for name, options in groups.items():
        check_names(name)
        found[name] = {}
        for each, value in structure(options, dict[str, Any], f"$.config.{name}").items():
            check_names(name, each)
            found[name][each] = structure(value, GROUPS[name][each].type | None, f"$.config.{name}.{each}")
    if not any(found.values()):
        raise invalid("no option is given")
    return found


def invalid(reason: str) -> Forbidden:
    return Forbidden(f"Invalid domain specific configuration: {reason}.")


def part(config: Config, group: str, option: str, what: str) -> Config | dict[str, Any]:
    """A group, or one option of it, or all. Raises NotFound if it is not set; `what` ends its message."""
    if not group:
        found: Any = config
    elif not option:
        found = {group: config[group]} if group in config else {}
    else:
        found = {name: value for name, value in config.get(group, {}).items() if name == option}
    if not found:
        raise records.not_found("domain configuration", f"{'/'.join(filter(None, (group, option)))} {what}".strip())
    wanted: Config | dict[str, Any] = found
    return wanted


# -- queries


def read(conn: Connection, domain_id: str, keys: Keys) -> Config:
    """All that is set and may be shown. Raises NotFound (the domain)."""
    domains.get(conn, domain_id)
    query = select(DomainOption.group, DomainOption.option, DomainOption.value).where(
        DomainOption.domain_id == domain_id
    )
    found: Config = {}
    for group, option, value in conn.execute(query.order_by(DomainOption.group, DomainOption.option)):
        if not GROUPS[group][option].secret:
            found.setdefault(group, {})[option] = json.loads(keys.fernet().decrypt(value))
    return found


# -- actions


def replace(conn: Connection, domain_id: str, config: Config, keys: Keys) -> tuple[Config, bool]:
    """The configuration as it may be shown, and whether there was none before. Raises NotFound."""
    domains.get(conn, domain_id, lock=True)
    before = conn.execute(delete(DomainOption).where(DomainOption.domain_id == domain_id)).rowcount
    _insert(conn, domain_id, config, keys)
    return read(conn, domain_id, keys), before == 0


def change(conn: Connection, domain_id: str, config: Config, keys: Keys, group: str = "", option: str = "") -> Config:
    """Returns the whole configuration as changed. Raises NotFound, also if what the path names is not set."""
    domains.get(conn, domain_id, lock=True)
    if not _is_set(conn, domain_id, group, option):
        raise records.not_found("domain configuration", domain_id)
    for name, options in config.items():
        mine = (DomainOption.group == name, DomainOption.option.in_(list(options)))
        conn.execute(delete(DomainOption).where(DomainOption.domain_id == domain_id, *mine))
    _insert(conn, domain_id, config, keys)
    return read(conn, domain_id, keys)


def remove(conn: Connection, domain_id: str, group: str = "", option: str = "") -> None:
    """Raises NotFound, also if it is not set."""
    domains.get(conn, domain_id, lock=True)
    if not _is_set(conn, domain_id, group, option):
        raise records.not_found("domain configuration", domain_id)
    conn.execute(delete(DomainOption).where(*_where(domain_id, group, option)))


def _where(domain_id: str, group: str, option: str) -> Iterator[Any]:
    yield DomainOption.domain_id == domain_id
    if group:
        yield DomainOption.group == group
    if option:
        yield DomainOption.option == option


def _is_set(conn: Connection, domain_id: str, group: str, option: str) -> bool:
    query = select(DomainOption.option).where(*_where(domain_id, group, option)).limit(1)
    return conn.execute(query).first() is not None


def _insert(conn: Connection, domain_id: str, config: Config, keys: Keys) -> None:
    rows = [
        {
            "domain_id": domain_id,
            "group": group,
            "option": option,
            "value": keys.fernet().encrypt(json.dumps(value).encode()),
        }
        for group, options in config.items()
        for option, value in options.items()
    ]
    conn.execute(insert(DomainOption), rows)
