"""/domains/{id}/config: what clients keep there, and what they may not see."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from cloudctl.identity.tables import DomainOption

PATH = "/domains/default/config"
LDAP = {"url": "ldap://directory.example.com", "user_tree_dn": "ou=users,dc=example,dc=com", "use_tls": True}
CONFIG = {"identity": {"driver": "ldap"}, "ldap": LDAP}


@pytest.fixture
def admin(keystone: Any) -> str:
    token: str = keystone.admin()
    return token


def put(keystone: Any, config: Any) -> Any:
    return keystone.ask("PUT", PATH, {"config": config}, keystone.admin())


def test_a_configuration_is_set_shown_and_replaced_as_a_whole(keystone: Any, admin: str) -> None:
    assert keystone.ask("GET", PATH, token=admin).status == 404
    made = put(keystone, CONFIG)
    assert (made.status, made.json()["config"]) == (201, CONFIG)
    assert keystone.ask("GET", PATH, token=admin).json()["config"] == CONFIG
    other = {"identity": {"driver": "sql", "list_limit": 10}}
    replaced = put(keystone, other)
    assert (replaced.status, replaced.json()["config"]) == (200, other)


def test_groups_and_options_are_shown_alone(keystone: Any, admin: str) -> None:
    put(keystone, CONFIG)
    assert keystone.ask("GET", f"{PATH}/ldap", token=admin).json()["config"] == {"ldap": LDAP}
    assert keystone.ask("GET", f"{PATH}/ldap/use_tls", token=admin).json()["config"] == {"use_tls": True}
    assert keystone.ask("GET", f"{PATH}/ldap/suffix", token=admin).status == 404
    for path in ("catalog", "ldap/colour"):
        assert keystone.ask("GET", f"{PATH}/{path}", token=admin).status == 403


def test_some_options_are_changed_and_the_others_stay(keystone: Any, admin: str) -> None:
    def patch(path: str, config: Any) -> Any:
        return keystone.ask("PATCH", PATH + path, {"config": config}, admin)

    assert patch("", {"ldap": {"url": "ldap://x"}}).status == 404
    put(keystone, {"ldap": LDAP})
    assert patch("", {"identity": {"driver": "sql"}, "ldap": {"url": "ldap://y"}}).json()["config"] == {
        "identity": {"driver": "sql"},
        "ldap": {**LDAP, "url": "ldap://y"},
    }
    changed = patch("/identity", {"identity": {"list_limit": 5}}).json()["config"]["identity"]
    assert changed == {"driver": "sql", "list_limit": 5}
    assert patch("/ldap/url", {"url": "ldap://z"}).json()["config"]["ldap"]["url"] == "ldap://z"
    assert patch("/ldap/suffix", {"suffix": "dc=x"}).status == 404
    for path, config in (
        ("/identity", {"ldap": {"url": "ldap://z"}}),
        ("/identity", {"identity": {"driver": "x"}, "ldap": {"url": "ldap://z"}}),
        ("/ldap/url", {"suffix": "dc=x"}),
        ("/ldap/url", {"url": "ldap://z", "suffix": "dc=x"}),
        ("/ldap/url", {"ldap": {"url": "ldap://z"}}),
        ("/catalog", {"catalog": {"driver": "x"}}),
    ):
        assert patch(path, config).status == 403


def test_options_groups_and_all_are_deleted(keystone: Any, admin: str) -> None:
    put(keystone, CONFIG)
    for path in ("/ldap/url", "/identity", ""):
        assert keystone.ask("DELETE", PATH + path, token=admin).status == 204
        assert keystone.ask("DELETE", PATH + path, token=admin).status == 404
        assert keystone.ask("GET", PATH + path, token=admin).status == 404


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({}, 403),
        ({"ldap": {}}, 403),
        ({"catalog": {"driver": "sql"}}, 403),
        ({"ldap": {"colour": "red"}}, 403),
        ({"identity": {"driver": 1}}, 400),
        ({"identity": {"list_limit": "10"}}, 400),
        ({"ldap": {"query_scope": "all"}}, 400),
        ({"ldap": {"use_tls": "yes"}}, 400),
        ({"ldap": {"user_attribute_ignore": "x"}}, 400),
        ({"ldap": {"url": "x" * 1025}}, 400),
        ({"ldap": {"url": "\0"}}, 400),
        ({"ldap": []}, 400),
        ([], 400),
    ],
)
def test_what_is_no_configuration_is_refused(keystone: Any, admin: str, config: Any, status: int) -> None:
    assert put(keystone, config).status == status
    assert keystone.ask("GET", PATH, token=admin).status == 404


def test_a_password_is_kept_sealed_and_never_shown(keystone: Any, admin: str) -> None:
    made = put(keystone, {"ldap": {"url": "ldap://x", "password": "very secret"}})
    assert made.json()["config"] == {"ldap": {"url": "ldap://x"}}
    for path in ("", "/ldap"):
        assert b"secret" not in keystone.ask("GET", PATH + path, token=admin).body
    assert keystone.ask("GET", f"{PATH}/ldap/password", token=admin).status == 404
    changed = keystone.ask("PATCH", f"{PATH}/ldap/password", {"config": {"password": "another secret"}}, admin)
    assert (changed.status, b"secret" in changed.body) == (200, False)
    assert b"password" not in keystone.ask("GET", "/domains/config/ldap/default", token=admin).body
    stored = keystone.db.transact(False, lambda conn: conn.execute(select(DomainOption.value)).scalars().all())
    assert len(stored) == 2 and not any(b"secret" in value or b"ldap" in value for value in stored)
    assert keystone.ask("DELETE", f"{PATH}/ldap/password", token=admin).status == 204


def test_defaults_are_shown(keystone: Any, admin: str) -> None:
    path = "/domains/config"
    assert keystone.ask("GET", f"{path}/default", token=admin).json()["config"].keys() == {"identity", "ldap"}
    found = keystone.ask("GET", f"{path}/identity/default", token=admin).json()["config"]
    assert found == {"identity": {"driver": "sql", "list_limit": None}}
    assert keystone.ask("GET", f"{path}/identity/driver/default", token=admin).json()["config"] == {"driver": "sql"}
    assert keystone.ask("GET", f"{path}/ldap/password/default", token=admin).status == 404
    assert keystone.ask("GET", f"{path}/catalog/default", token=admin).status == 403


def test_only_administrators_configure_domains(keystone: Any, admin: str) -> None:
    put(keystone, CONFIG)
    demo = keystone.login("demo", scope="demo")
    for method, path in (
        ("GET", PATH),
        ("GET", f"{PATH}/ldap/url"),
        ("PUT", PATH),
        ("PATCH", PATH),
        ("DELETE", PATH),
        ("GET", "/domains/config/default"),
    ):
        body = {"config": CONFIG} if method in ("PUT", "PATCH") else None
        assert keystone.ask(method, path, body, demo).status == 403
    assert keystone.ask("GET", PATH, token=admin).json()["config"] == CONFIG


def test_the_configuration_goes_with_its_domain(keystone: Any, admin: str) -> None:
    domain = keystone.make(admin, "domains", "domain", name="other", enabled=False)["id"]
    path = f"/domains/{domain}/config"
    assert keystone.ask("PUT", path, {"config": CONFIG}, admin).status == 201
    assert keystone.ask("DELETE", f"/domains/{domain}", token=admin).status == 204
    assert keystone.ask("PUT", path, {"config": CONFIG}, admin).status == 404
    count = keystone.db.transact(False, lambda conn: len(conn.execute(select(DomainOption)).all()))
    assert count == 0


def test_the_rules_for_passwords_are_the_clouds(keystone: Any, admin: str) -> None:
    path = f"{PATH}/security_compliance"
    demo = keystone.login("demo", scope="demo")
    for option in ("password_regex", "password_regex_description"):
        assert keystone.ask("GET", f"{path}/{option}", token=demo).json() == {"config": {option: None}}
    assert keystone.ask("GET", f"{path}/other", token=demo).status == 404
    assert put(keystone, {"security_compliance": {"password_regex": "x"}}).status == 403
    other = keystone.make(admin, "domains", "domain", name="other")["id"]
    assert keystone.ask("GET", f"/domains/{other}/config/security_compliance", token=demo).status == 403
