"""What identity providers call a user: shown, changed, filtered by, and gone with any of the three."""

from __future__ import annotations

from typing import Any

import pytest

from tests.statements import asked

RULES = [{"local": [{"user": {"name": "{0}"}}], "remote": [{"type": "UserName"}]}]


@pytest.fixture
def admin(keystone: Any) -> str:
    """Two providers with two protocols each."""
    token: str = keystone.admin()

    def put(path: str, kind: str, **fields: Any) -> None:
        assert keystone.ask("PUT", f"/OS-FEDERATION/{path}", {kind: fields}, token).status == 201

    put("mappings/rules", "mapping", rules=RULES)
    for provider in ("acme", "other"):
        put(f"identity_providers/{provider}", "identity_provider", domain_id="default")
        for protocol in ("openid", "saml2"):
            put(f"identity_providers/{provider}/protocols/{protocol}", "protocol", mapping_id="rules")
    return token


def called(provider: str, *protocols: tuple[str, str]) -> dict[str, Any]:
    return {"idp_id": provider, "protocols": [{"protocol_id": id, "unique_id": name} for id, name in protocols]}


def make(keystone: Any, admin: str, name: str, *federated: Any) -> str:
    made = keystone.make(admin, "users", "user", name=name, federated=federated)
    return str(made["id"])


def names(keystone: Any, admin: str, query: str) -> list[str]:
    response = keystone.ask("GET", f"/users?{query}", token=admin)
    assert response.status == 200, response
    return [user["name"] for user in response.json()["users"]]


def test_a_user_is_shown_with_what_providers_call_it(keystone: Any, admin: str) -> None:
    both = [called("acme", ("openid", "a"), ("saml2", "b")), called("other", ("saml2", "b"))]
    made = keystone.make(admin, "users", "user", name="jane", federated=[both[1], both[0]])
    assert made["federated"] == both
    path = f"/users/{made['id']}"
    assert keystone.ask("GET", path, token=admin).json()["user"]["federated"] == both
    # A change of something else leaves it, and a list of its own replaces it.
    for change, left in (
        ({"description": "d"}, both),
        ({"federated": [called("acme", ("openid", "c"))]}, [called("acme", ("openid", "c"))]),
        ({"federated": []}, []),
    ):
        response = keystone.ask("PATCH", path, {"user": change}, admin)
        assert response.status == 200 and response.json()["user"]["federated"] == left
        assert keystone.ask("GET", path, token=admin).json()["user"]["federated"] == left


def test_users_are_found_by_what_providers_call_them(keystone: Any, admin: str) -> None:
    make(keystone, admin, "one", called("acme", ("openid", "x"), ("saml2", "y")), called("other", ("saml2", "z")))
    two = make(keystone, admin, "two", called("other", ("openid", "x")))
    for query, found in (
        ("idp_id=acme", ["one"]),
        ("idp_id=other", ["one", "two"]),
        ("protocol_id=openid", ["one", "two"]),
        ("unique_id=x", ["one", "two"]),
        ("unique_id=y", ["one"]),
        ("idp_id=other&unique_id=x", ["two"]),
        ("idp_id=acme&protocol_id=openid&unique_id=x", ["one"]),
        # Of one name, not of several.
        ("idp_id=acme&unique_id=z", []),
        ("protocol_id=openid&unique_id=x&name=two", ["two"]),
        ("unique_id=x&limit=1&sort_key=name&sort_dir=desc", ["two"]),
        ("idp_id=unknown", []),
    ):
        assert names(keystone, admin, query) == found, query
    group = keystone.make(admin, "groups", "group", name="few")["id"]
    assert keystone.ask("PUT", f"/groups/{group}/users/{two}", token=admin).status == 204
    members = keystone.ask("GET", f"/groups/{group}/users?unique_id=x", token=admin).json()["users"]
    assert [(user["name"], user["federated"]) for user in members] == [("two", [called("other", ("openid", "x"))])]


def test_a_list_costs_the_same_however_many_users_are_on_it(keystone: Any, admin: str) -> None:
    def cost() -> int:
        with asked() as seen:
            assert keystone.ask("GET", "/users", token=admin).status == 200
        return len(seen)

    make(keystone, admin, "first", called("acme", ("openid", "first")))
    cost()
    before = cost()
    for number in range(5):
        make(keystone, admin, f"user-{number}", called("acme", ("openid", str(number))))
    cost()
    assert cost() == before


def test_a_name_is_one_users_and_of_a_protocol_that_exists(keystone: Any, admin: str) -> None:
    one = make(keystone, admin, "one", called("acme", ("openid", "x")))
    two = make(keystone, admin, "two")
    for wrong, status in (
        ([called("unknown", ("openid", "y"))], 400),
        ([called("acme", ("unknown", "y"))], 400),
        ([called("acme")], 400),
        ([called("acme", ("openid", ""))], 400),
        ([called("acme", ("openid", "x" * 256))], 400),
        ([{"idp_id": "acme"}], 400),
        ("acme", 400),
        (None, 400),
        ([called("acme", ("openid", "x"))], 409),
    ):
        body = {"user": {"name": "three", "federated": wrong}}
        assert keystone.ask("POST", "/users", body, admin).status == status, wrong
        change = {"user": {"description": "d", "federated": wrong}}
        assert keystone.ask("PATCH", f"/users/{two}", change, admin).status == status, wrong
    # What was refused has left nothing.
    assert names(keystone, admin, "name=three") == []
    shown = keystone.ask("GET", f"/users/{two}", token=admin).json()["user"]
    assert (shown["federated"], shown["description"]) == ([], None)
    # One's own is no other's, and another protocol's is another name.
    mine = {"user": {"federated": [called("acme", ("openid", "x"), ("saml2", "x"))]}}
    assert keystone.ask("PATCH", f"/users/{one}", mine, admin).json()["user"]["federated"] == mine["user"]["federated"]


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("identity_providers/acme", [called("other", ("saml2", "c"))]),
        (
            "identity_providers/acme/protocols/saml2",
            [called("acme", ("openid", "a")), called("other", ("saml2", "c"))],
        ),
    ],
)
def test_names_go_with_the_provider_and_with_the_protocol(
    keystone: Any, admin: str, gone: str, left: list[Any]
) -> None:
    names_of = (called("acme", ("openid", "a"), ("saml2", "b")), called("other", ("saml2", "c")))
    user = make(keystone, admin, "one", *names_of)
    assert keystone.ask("DELETE", f"/OS-FEDERATION/{gone}", token=admin).status == 204
    assert keystone.ask("GET", f"/users/{user}", token=admin).json()["user"]["federated"] == left


def test_the_name_of_a_deleted_user_is_free_again(keystone: Any, admin: str) -> None:
    user = make(keystone, admin, "one", called("acme", ("openid", "a")))
    assert keystone.ask("DELETE", f"/users/{user}", token=admin).status == 204
    assert names(keystone, admin, "unique_id=a") == []
    make(keystone, admin, "two", called("acme", ("openid", "a")))
    assert names(keystone, admin, "unique_id=a") == ["two"]
