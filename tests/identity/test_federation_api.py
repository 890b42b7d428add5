"""OS-FEDERATION: identity providers, protocols, mappings and service providers as records."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

RULES = [{"local": [{"user": {"name": "{0}"}}], "remote": [{"type": "UserName"}, {"type": "o", "any_one_of": ["x"]}]}]


@pytest.fixture
def admin(keystone: Any) -> str:
    token: str = keystone.admin()
    return token


def put(keystone: Any, admin: str, path: str, kind: str, **fields: Any) -> Any:
    return keystone.ask("PUT", f"/OS-FEDERATION/{path}", {kind: fields}, admin)


def test_a_provider_is_made_with_a_domain_changed_and_deleted(keystone: Any, admin: str) -> None:
    response = put(keystone, admin, "identity_providers/acme", "identity_provider", remote_ids=["b", "a"])
    assert response.status == 201, response
    made = response.json()["identity_provider"]
    assert (made["id"], made["enabled"], made["remote_ids"]) == ("acme", False, ["a", "b"])
    assert "acme" in keystone.ask("GET", f"/domains/{made['domain_id']}", token=admin).json()["domain"]["description"]
    path = "/OS-FEDERATION/identity_providers/acme"
    change = {"identity_provider": {"enabled": True, "remote_ids": ["c"], "authorization_ttl": 7}}
    changed = keystone.ask("PATCH", path, change, admin).json()["identity_provider"]
    assert (changed["enabled"], changed["remote_ids"], changed["authorization_ttl"]) == (True, ["c"], 7)
    assert keystone.ask("PATCH", path, {"identity_provider": {"domain_id": "default"}}, admin).status == 400
    listed = keystone.ask("GET", "/OS-FEDERATION/identity_providers?enabled=true", token=admin).json()
    assert listed["identity_providers"] == [changed]
    assert keystone.ask("DELETE", path, token=admin).status == 204
    assert keystone.ask("GET", path, token=admin).status == 404


def test_a_provider_is_made_again_and_beside_a_domain_of_its_name(keystone: Any, admin: str) -> None:
    """A deleted one leaves its domain."""
    keystone.make(admin, "domains", "domain", name="acme")
    for _ in range(2):
        assert put(keystone, admin, "identity_providers/acme", "identity_provider").status == 201
        taken = put(keystone, admin, "identity_providers/acme", "identity_provider")
        assert taken.status == 409 and "identity provider" in taken.json()["error"]["message"]
        assert keystone.ask("DELETE", "/OS-FEDERATION/identity_providers/acme", token=admin).status == 204


def test_ids_and_remote_ids_are_taken_once(keystone: Any, admin: str) -> None:
    fields = {"domain_id": "default", "remote_ids": ["there"]}
    assert put(keystone, admin, "identity_providers/one", "identity_provider", **fields).status == 201
    assert put(keystone, admin, "identity_providers/one", "identity_provider", domain_id="default").status == 409
    assert put(keystone, admin, "identity_providers/two", "identity_provider", **fields).status == 409
    twice = put(keystone, admin, "identity_providers/three", "identity_provider", remote_ids=["mine", "mine"])
    assert twice.status == 400 and "repeated" in twice.json()["error"]["message"]
    assert put(keystone, admin, "identity_providers/three", "identity_provider", domain_id="unknown").status == 404
    assert put(keystone, admin, f"identity_providers/{'x' * 65}", "identity_provider").status == 404


def test_a_protocol_names_a_mapping_that_exists(keystone: Any, admin: str) -> None:
    put(keystone, admin, "identity_providers/acme", "identity_provider")
    path = "identity_providers/acme/protocols/saml2"
    assert put(keystone, admin, path, "protocol", mapping_id="rules").status == 400
    assert put(keystone, admin, "mappings/rules", "mapping", rules=RULES).status == 201
    assert put(keystone, admin, path, "protocol", mapping_id="rules").json()["protocol"]["mapping_id"] == "rules"
    listed = keystone.ask("GET", "/OS-FEDERATION/identity_providers/acme/protocols", token=admin).json()["protocols"]
    assert [one["id"] for one in listed] == ["saml2"]
    assert keystone.ask("DELETE", "/OS-FEDERATION/identity_providers/acme", token=admin).status == 204
    assert keystone.ask("GET", f"/OS-FEDERATION/{path}", token=admin).status == 404


def test_a_protocol_keeps_the_attribute_that_names_its_provider(keystone: Any, admin: str) -> None:
    put(keystone, admin, "identity_providers/acme", "identity_provider")
    for mapping in ("rules", "others"):
        put(keystone, admin, f"mappings/{mapping}", "mapping", rules=RULES)
    path, issuer = "identity_providers/acme/protocols", "HTTP_OIDC_ISS"
    made = put(keystone, admin, f"{path}/saml2", "protocol", mapping_id="rules").json()["protocol"]
    assert made["remote_id_attribute"] is None
    fields = {"mapping_id": "rules", "remote_id_attribute": issuer}
    response = put(keystone, admin, f"{path}/openid", "protocol", **fields)
    assert (response.status, response.json()["protocol"]["remote_id_attribute"]) == (201, issuer)
    for change, mapping, attribute in (
        ({"mapping_id": "others"}, "others", issuer),
        ({"mapping_id": "rules", "remote_id_attribute": "MELLON_IDP"}, "rules", "MELLON_IDP"),
        ({"remote_id_attribute": None}, "rules", None),
        ({}, "rules", None),
    ):
        changed = keystone.ask("PATCH", f"/OS-FEDERATION/{path}/openid", {"protocol": change}, admin)
        shown = keystone.ask("GET", f"/OS-FEDERATION/{path}/openid", token=admin).json()["protocol"]
        assert changed.status == 200 and changed.json()["protocol"] == shown
        assert (shown["mapping_id"], shown["remote_id_attribute"]) == (mapping, attribute)
    for wrong in (7, "x" * 65, [issuer]):
        refused = put(keystone, admin, f"{path}/third", "protocol", mapping_id="rules", remote_id_attribute=wrong)
        assert refused.status == 400


def test_the_rules_of_a_mapping_are_checked(keystone: Any, admin: str) -> None:
    wrong: Any
    for wrong in ([], [{}], [{"local": [], "remote": []}], [{"local": [{}], "remote": [{"type": 1}]}], "x"):
        assert put(keystone, admin, "mappings/rules", "mapping", rules=wrong).status == 400, wrong
    assert put(keystone, admin, "mappings/rules", "mapping", rules=RULES, schema_version="9").status == 400
    assert put(keystone, admin, "mappings/rules", "mapping", rules=RULES).json()["mapping"]["rules"] == RULES
    empty = [{"local": [], "remote": [{"type": "UserName"}]}]
    assert put(keystone, admin, "mappings/empty", "mapping", rules=empty).json()["mapping"]["rules"] == empty
    assert put(keystone, admin, "mappings/a", "mapping", id="b", rules=RULES).status == 400
    assert put(keystone, admin, "mappings/a", "mapping", id="a", rules=RULES).status == 201
    change = {"mapping": {"schema_version": "2.0"}}
    changed = keystone.ask("PATCH", "/OS-FEDERATION/mappings/rules", change, admin).json()["mapping"]
    assert (changed["schema_version"], changed["rules"]) == ("2.0", RULES)


def test_a_mapping_without_a_version_has_the_first_and_keeps_what_it_has(keystone: Any, admin: str) -> None:
    """A stock client that is not told the version sends null."""
    response = put(keystone, admin, "mappings/rules", "mapping", rules=RULES, schema_version=None)
    assert (response.status, response.json()["mapping"]["schema_version"]) == (201, "1.0")
    for version, kept in (("2.0", "2.0"), (None, "2.0")):
        change = {"mapping": {"rules": RULES, "schema_version": version}}
        response = keystone.ask("PATCH", "/OS-FEDERATION/mappings/rules", change, admin)
        assert (response.status, response.json()["mapping"]["schema_version"]) == (200, kept)


def test_a_condition_of_a_mapping_has_one_test(keystone: Any, admin: str) -> None:
    tests = ("any_one_of", "not_any_of", "blacklist", "whitelist")
    assert put(keystone, admin, "mappings/rules", "mapping", rules=RULES).status == 201
    for one, other in combinations(tests, 2):
        both = [{"local": [], "remote": [{"type": "o", one: ["x"], other: []}]}]
        assert put(keystone, admin, f"mappings/{one}-{other}", "mapping", rules=both).status == 400, (one, other)
        change = {"mapping": {"rules": both}}
        assert keystone.ask("PATCH", "/OS-FEDERATION/mappings/rules", change, admin).status == 400, (one, other)
    each = [{"local": [], "remote": [{"type": "o", one: []} for one in tests]}]
    assert put(keystone, admin, "mappings/each", "mapping", rules=each).json()["mapping"]["rules"] == each


def test_service_providers(keystone: Any, admin: str) -> None:
    urls = {"auth_url": "https://sp.example.com/a", "sp_url": "https://sp.example.com/b"}
    made = put(keystone, admin, "service_providers/other", "service_provider", **urls).json()["service_provider"]
    assert (made["enabled"], made["relay_state_prefix"], made["sp_url"]) == (False, "ss:mem:", urls["sp_url"])
    path = "/OS-FEDERATION/service_providers/other"
    change = {"service_provider": {"description": "new"}}
    assert keystone.ask("PATCH", path, change, admin).json()["service_provider"]["description"] == "new"
    assert put(keystone, admin, "service_providers/bad", "service_provider", auth_url="x", sp_url="y").status == 400
    assert keystone.ask("DELETE", path, token=admin).status == 204


def test_tokens_tell_of_the_service_providers_that_are_enabled(keystone: Any, admin: str) -> None:
    def told() -> Any:
        shown = keystone.ask("GET", "/auth/tokens", token=admin, X_Subject_Token=admin).json()["token"]
        return shown.get("service_providers")

    assert told() is None
    urls = {"auth_url": "https://sp.example.com/a", "sp_url": "https://sp.example.com/b"}
    put(keystone, admin, "service_providers/off", "service_provider", **urls)
    put(keystone, admin, "service_providers/on", "service_provider", enabled=True, **urls)
    assert told() == [{"id": "on", **urls}]
    path = "/OS-FEDERATION/service_providers"
    assert keystone.ask("PATCH", f"{path}/off", {"service_provider": {"enabled": True}}, admin).status == 200
    assert [each["id"] for each in told()] == ["off", "on"]
    for each in ("off", "on"):
        assert keystone.ask("DELETE", f"{path}/{each}", token=admin).status == 204
    assert told() is None


def test_the_providers_of_a_domain_end_with_it(keystone: Any, admin: str) -> None:
    made = put(keystone, admin, "identity_providers/acme", "identity_provider").json()["identity_provider"]
    domain = f"/domains/{made['domain_id']}"
    keystone.ask("PATCH", domain, {"domain": {"enabled": False}}, admin)
    assert keystone.ask("DELETE", domain, token=admin).status == 204
    assert keystone.ask("GET", "/OS-FEDERATION/identity_providers/acme", token=admin).status == 404


def test_nobody_logs_in_through_a_provider(keystone: Any, admin: str) -> None:
    auth = {"identity": {"methods": ["mapped"], "mapped": {"identity_provider": "acme", "protocol": "saml2"}}}
    assert keystone.ask("POST", "/auth/tokens", {"auth": auth}).status == 401


def test_only_administrators_see_and_change_them(keystone: Any) -> None:
    demo = keystone.login("demo", scope="demo")
    assert keystone.ask("GET", "/OS-FEDERATION/mappings", token=demo).status == 403
    assert put(keystone, demo, "identity_providers/acme", "identity_provider").status == 403
