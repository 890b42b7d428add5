"""Logins that need several methods: passcodes, rules, receipts."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from cloudctl.errors import Invalid
from cloudctl.identity import totp
from cloudctl.identity.options import IdentityOptions, PasswordOptions
from cloudctl.identity.payload import Unreadable, unseal
from cloudctl.testing.cloud import empty_database
from cloudctl.testing.http import Response
from tests.identity.conftest import CHEAP, START, Keystone, make_keystone

SECRET = b"12345678901234567890"
BLOB = base64.b32encode(SECRET).decode()
RECEIPT = "Openstack-Auth-Receipt"
BOTH = [["password", "totp"]]


def locking(**rules: Any) -> Keystone:
    clock = Clock()
    clock.advance(START)
    options = IdentityOptions(argon2=CHEAP, passwords=PasswordOptions(**rules))
    return make_keystone(empty_database(clock), clock, options)


def require(keystone: Any, rules: Any, **options: Any) -> Response:
    """Set the rules of demo."""
    wanted = {"multi_factor_auth_enabled": True, "multi_factor_auth_rules": rules, **options}
    path = f"/users/{keystone.made.demo_user_id}"
    answer: Response = keystone.ask("PATCH", path, {"user": {"options": wanted}}, keystone.admin())
    return answer


def give_device(keystone: Any, blob: str = BLOB) -> str:
    found: str = keystone.make(
        keystone.admin(), "credentials", "credential", type="totp", blob=blob, user_id=keystone.made.demo_user_id
    )["id"]
    return found


def code(keystone: Any, steps: int = 0) -> str:
    return totp.passcode(SECRET, int(keystone.clock.seconds()) // totp.STEP + steps)


def parts(keystone: Any, passcode: str = "", password: str = "") -> dict[str, Any]:
    """The identity part of a login of demo."""
    user = {"name": "demo", "domain": {"id": "default"}}
    found: dict[str, Any] = {"methods": []}
    if password:
        found["methods"].append("password")
        found["password"] = {"user": {**user, "password": password}}
    if passcode:
        found["methods"].append("totp")
        found["totp"] = {"user": {**user, "passcode": passcode}}
    return found


def login(keystone: Any, passcode: str = "", password: str = "", receipt: str = "", scope: Any = None) -> Response:
    auth: dict[str, Any] = {"identity": parts(keystone, passcode, password)}
    if scope is not None:
        auth["scope"] = scope
    headers = {RECEIPT: receipt} if receipt else {}
    answer: Response = keystone.ask("POST", "/auth/tokens", {"auth": auth}, **headers)
    return answer


# -- passcodes


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(59, "287082"), (1111111109, "081804"), (1111111111, "050471"), (1234567890, "005924"), (2000000000, "279037")],
)
def test_passcodes_are_those_of_rfc_6238(seconds: int, expected: str) -> None:
    assert totp.passcode(SECRET, seconds // totp.STEP) == expected


@pytest.mark.parametrize("blob", [BLOB, BLOB.lower(), "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ", "GEZDGNBVGY3TQOJQ"])
def test_a_secret_is_taken_as_devices_show_it(blob: str) -> None:
    assert SECRET.startswith(totp.shared_secret(blob))


@pytest.mark.parametrize("blob", ["", "ABC", "0189", "{}", "GEZDGNBV", "é" * 32])
def test_a_secret_that_no_device_could_use_is_refused(keystone: Any, blob: str) -> None:
    with pytest.raises(Invalid):
        totp.shared_secret(blob)
    body = {"credential": {"type": "totp", "blob": blob, "user_id": keystone.made.demo_user_id}}
    assert keystone.ask("POST", "/credentials", body, keystone.admin()).status == 400


def test_a_passcode_is_a_method_of_its_own(keystone: Any) -> None:
    give_device(keystone)
    answer = login(keystone, code(keystone), scope={"project": {"name": "demo", "domain": {"id": "default"}}})
    assert answer.status == 201
    assert answer.json()["token"]["methods"] == ["totp"]
    assert keystone.is_valid(answer.headers["X-Subject-Token"])


def test_a_passcode_counts_for_its_half_minute_and_the_next(keystone: Any) -> None:
    for steps, status in ((-2, 401), (1, 401), (-1, 201), (0, 201)):
        device = give_device(keystone)
        assert login(keystone, code(keystone, steps)).status == status
        assert keystone.ask("DELETE", f"/credentials/{device}", token=keystone.admin()).status == 204


def test_a_passcode_is_taken_once_and_so_are_earlier_ones(keystone: Any) -> None:
    give_device(keystone)
    now, before = code(keystone), code(keystone, -1)
    assert [login(keystone, one).status for one in (now, now, before)] == [201, 401, 401]
    keystone.clock.advance(totp.STEP)
    assert login(keystone, code(keystone)).status == 201


def test_any_device_of_the_user_will_do(keystone: Any) -> None:
    give_device(keystone, base64.b32encode(b"another secret").decode())
    give_device(keystone)
    assert login(keystone, code(keystone)).status == 201
    wrong = {"id": keystone.made.admin_user_id, "passcode": code(keystone)}
    auth = {"auth": {"identity": {"methods": ["totp"], "totp": {"user": wrong}}}}
    assert keystone.ask("POST", "/auth/tokens", auth).status == 401


def test_a_new_secret_of_a_device_replaces_the_old_one(keystone: Any) -> None:
    path = f"/credentials/{give_device(keystone, base64.b32encode(b'another secret').decode())}"
    assert login(keystone, code(keystone)).status == 401
    assert keystone.ask("PATCH", path, {"credential": {"blob": BLOB}}, keystone.admin()).status == 200
    assert keystone.ask("PATCH", path, {"credential": {"blob": "?"}}, keystone.admin()).status == 400
    assert login(keystone, code(keystone)).status == 201


@pytest.mark.parametrize("passcode", ["000000", "12345", "x", "é", "1" * 5000, "１２３４５６"])
def test_a_wrong_passcode_is_answered_like_a_wrong_password(keystone: Any, passcode: str) -> None:
    give_device(keystone)
    answer = login(keystone, passcode)
    assert (answer.status, answer.body) == (401, login(keystone, password="wrong").body)


def test_a_restricted_application_credential_makes_no_second_factor(keystone: Any) -> None:
    user_id = keystone.made.demo_user_id
    path = f"users/{user_id}/application_credentials"
    demo = keystone.login("demo", scope="demo")
    made = keystone.make(demo, path, "application_credential", name="x")
    shown = {"id": made["id"], "secret": made["secret"]}
    auth = {"auth": {"identity": {"methods": ["application_credential"], "application_credential": shown}}}
    token = keystone.ask("POST", "/auth/tokens", auth).headers["X-Subject-Token"]
    body = {"credential": {"type": "totp", "blob": BLOB, "user_id": user_id}}
    assert keystone.ask("POST", "/credentials", body, token).status == 403
    device = f"/credentials/{give_device(keystone)}"
    assert keystone.ask("PATCH", device, {"credential": {"blob": BLOB}}, token).status == 403
    assert keystone.ask("DELETE", device, token=token).status == 403


# -- rules


def test_both_methods_at_once_meet_the_rule(keystone: Any) -> None:
    give_device(keystone)
    assert require(keystone, BOTH).status == 200
    answer = login(keystone, code(keystone), "secret")
    assert answer.status == 201
    assert sorted(answer.json()["token"]["methods"]) == ["password", "totp"]
    keystone.clock.advance(totp.STEP)
    assert login(keystone, code(keystone), "wrong").status == 401
    assert login(keystone, "000000", "secret").status == 401
    assert RECEIPT not in login(keystone, "000000", "secret").headers


def test_one_rule_of_several_is_enough(keystone: Any) -> None:
    give_device(keystone)
    assert require(keystone, [["password", "totp"], ["totp"]]).status == 200
    assert login(keystone, code(keystone)).status == 201
    assert login(keystone, password="secret").status == 401


@pytest.mark.parametrize("enabled", [False, None])
def test_rules_count_only_while_they_are_switched_on(keystone: Any, enabled: bool | None) -> None:
    assert require(keystone, BOTH, multi_factor_auth_enabled=enabled).status == 200
    assert login(keystone, password="secret").status == 201


def test_without_rules_one_method_is_enough(keystone: Any) -> None:
    rules: Any
    for rules in ([], None):
        assert require(keystone, rules).status == 200
        assert login(keystone, password="secret").status == 201


@pytest.mark.parametrize(
    "rules",
    [
        [[]], ["password"], "password", [["password"], 1], [["password", "password"]], [["password"], ["password"]],
        [["totp"] * 17], [[""]],
    ],
)  # fmt: skip
def test_what_is_no_list_of_rules_is_refused(keystone: Any, rules: Any) -> None:
    assert require(keystone, rules).status == 400


def test_a_method_that_nobody_can_prove_asks_for_nothing(keystone: Any) -> None:
    """As in Keystone: a method of another cloud, or of one that is not set up yet, locks nobody out."""
    assert require(keystone, [["password", "fingerprint"]]).status == 200
    assert login(keystone, password="secret").status == 201
    give_device(keystone)
    assert require(keystone, [["password", "totp", "fingerprint"]]).status == 200
    assert login(keystone, password="secret").status == 401
    assert login(keystone, code(keystone), "secret").status == 201


def test_a_token_is_exchanged_with_the_methods_that_it_was_made_by(keystone: Any) -> None:
    give_device(keystone)
    assert require(keystone, BOTH).status == 200
    token = login(keystone, code(keystone), "secret").headers["X-Subject-Token"]
    scope = {"project": {"id": keystone.made.demo_project_id}}
    auth = {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": scope}
    answer = keystone.ask("POST", "/auth/tokens", {"auth": auth})
    assert answer.status == 201
    assert set(answer.json()["token"]["methods"]) == {"password", "totp", "token"}


def test_an_application_credential_needs_a_rule_that_names_it(keystone: Any) -> None:
    demo = keystone.login("demo", scope="demo")
    path = f"users/{keystone.made.demo_user_id}/application_credentials"
    made = keystone.make(demo, path, "application_credential", name="x")
    shown = {"id": made["id"], "secret": made["secret"]}
    auth = {"auth": {"identity": {"methods": ["application_credential"], "application_credential": shown}}}
    assert require(keystone, BOTH).status == 200
    answer = keystone.ask("POST", "/auth/tokens", auth)
    # No receipt: with one, the next method would be free of the credential's limits.
    assert (answer.status, RECEIPT in answer.headers) == (401, False)
    assert require(keystone, [*BOTH, ["application_credential"]]).status == 200
    assert keystone.ask("POST", "/auth/tokens", auth).status == 201


# -- receipts


def test_who_lacks_a_method_gets_a_receipt_and_goes_on_with_it(keystone: Any) -> None:
    give_device(keystone)
    require(keystone, [*BOTH, ["application_credential"]])
    answer = login(keystone, password="secret")
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Keystone uri=")
    found = answer.json()
    assert found["required_auth_methods"] == BOTH
    assert found["receipt"]["methods"] == ["password"]
    user = {"id": keystone.made.demo_user_id, "name": "demo", "domain": {"id": "default", "name": "Default"}}
    assert found["receipt"]["user"] == user
    assert found["receipt"]["expires_at"] > found["receipt"]["issued_at"]
    done = login(keystone, code(keystone), receipt=answer.headers[RECEIPT])
    assert done.status == 201
    assert sorted(done.json()["token"]["methods"]) == ["password", "totp"]


def test_a_receipt_is_no_token_and_a_token_no_receipt(keystone: Any) -> None:
    give_device(keystone)
    token = keystone.login("demo")
    require(keystone, BOTH)
    receipt = login(keystone, password="secret").headers[RECEIPT]
    assert not keystone.is_valid(receipt)
    with pytest.raises(Unreadable):
        unseal(receipt, keystone.tokens.keys)
    by_token = {"auth": {"identity": {"methods": ["token"], "token": {"id": receipt}}}}
    assert keystone.ask("POST", "/auth/tokens", by_token).status == 401
    assert login(keystone, code(keystone), receipt=token).status == 401


def end_by_time(keystone: Any) -> None:
    keystone.clock.advance(301)


def end_by_password(keystone: Any) -> None:
    path = f"/users/{keystone.made.demo_user_id}"
    assert keystone.ask("PATCH", path, {"user": {"password": "other"}}, keystone.admin()).status == 200


def end_by_disabling(keystone: Any) -> None:
    path = f"/users/{keystone.made.demo_user_id}"
    for enabled in (False, True):
        assert keystone.ask("PATCH", path, {"user": {"enabled": enabled}}, keystone.admin()).status == 200


@pytest.mark.parametrize("end", [end_by_time, end_by_password, end_by_disabling])
def test_a_receipt_ends(keystone: Any, end: Callable[[Any], None]) -> None:
    give_device(keystone)
    require(keystone, BOTH)
    receipt = login(keystone, password="secret").headers[RECEIPT]
    end(keystone)
    assert login(keystone, code(keystone), receipt=receipt).status == 401


def test_a_receipt_is_good_for_its_own_user_only(keystone: Any) -> None:
    give_device(keystone)
    require(keystone, BOTH)
    receipt = login(keystone, password="secret").headers[RECEIPT]
    user = {"name": "admin", "domain": {"id": "default"}, "password": "secret"}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    assert keystone.ask("POST", "/auth/tokens", auth, **{RECEIPT: receipt}).status == 401
    for junk in ("x", "gAAAA" + "x" * 300, "é"):
        assert login(keystone, code(keystone), receipt=junk).status == 401


# -- guessing


def test_wrong_passcodes_lock_out_even_who_knows_the_password() -> None:
    keystone = locking(lockout_failure_attempts=3, lockout_duration=60)
    give_device(keystone)
    require(keystone, BOTH)
    receipt = login(keystone, password="secret").headers[RECEIPT]
    for _ in range(3):
        # A good password in between does not make the failures forgotten.
        assert login(keystone, password="secret").headers[RECEIPT]
        assert login(keystone, "000000", receipt=receipt).status == 401
    assert login(keystone, code(keystone), "secret").status == 401
    assert RECEIPT not in login(keystone, password="secret").headers
    keystone.clock.advance(61)
    assert login(keystone, code(keystone), "secret").status == 201


def tries(keystone: Any, *passcodes: str) -> list[int]:
    return [login(keystone, passcode=each).status for each in passcodes]


def test_passcodes_cannot_be_tried_for_ever_by_default(keystone: Any) -> None:
    give_device(keystone)
    assert tries(keystone, *["000000"] * 5) == [401] * 5
    assert tries(keystone, code(keystone)) == [401]
    keystone.clock.advance(1799)
    assert tries(keystone, code(keystone)) == [401]
    keystone.clock.advance(1)
    assert tries(keystone, code(keystone)) == [201]


def test_lock_out_of_passcodes_stays_where_that_of_passwords_is_off() -> None:
    keystone = locking(lockout_failure_attempts=0)
    give_device(keystone)
    options = {"options": {"ignore_lockout_failure_attempts": True}}
    keystone.ask("PATCH", f"/users/{keystone.made.demo_user_id}", {"user": options}, keystone.admin())
    for _ in range(20):
        assert login(keystone, password="wrong").status == 401
    assert tries(keystone, *["000000"] * 5, code(keystone)) == [401] * 6


def test_a_login_by_password_gives_a_guesser_of_passcodes_no_new_attempts(keystone: Any) -> None:
    give_device(keystone)
    for _ in range(5):
        assert tries(keystone, "000000") == [401]
        assert login(keystone, password="secret").status == 201
    assert tries(keystone, code(keystone)) == [401]


def test_a_new_password_gives_a_guesser_of_passcodes_no_new_attempts(keystone: Any) -> None:
    give_device(keystone)
    assert tries(keystone, *["000000"] * 4) == [401] * 4
    changed = {"user": {"original_password": "secret", "password": "other"}}
    assert keystone.ask("POST", f"/users/{keystone.made.demo_user_id}/password", changed).status == 204
    assert tries(keystone, "000000", code(keystone)) == [401] * 2


def test_passcodes_tried_at_once_are_counted_before_any_of_them_has_failed(keystone: Any) -> None:
    """While one is looked at, others come: all that are underway count."""
    give_device(keystone)
    real, left = keystone.db.run, [5]

    def slow(fn: Any, *args: Any) -> Any:
        if fn is totp.take and left[0]:
            left[0] -= 1
            assert tries(keystone, code(keystone) if not left[0] else "000000") == [401]
        return real(fn, *args)

    keystone.db.run = slow
    assert tries(keystone, "000000") == [401]
    assert left == [0]
