"""Encryption of types over HTTP. Reference: volume.md, section 7."""

from __future__ import annotations

from typing import Any

import pytest

from tests.volume.asking import V3

WISH = {"provider": "luks", "control_location": "front-end", "cipher": "aes-xts-plain64", "key_size": 256}


@pytest.fixture
def url(admin: Any) -> str:
    made = admin.post(f"{V3}/types", {"volume_type": {"name": "secret"}}).json()["volume_type"]["id"]
    return f"{V3}/types/{made}/encryption"


def test_a_type_that_is_not_encrypted_says_nothing(admin: Any, url: str) -> None:
    answer = admin.get(url)
    assert (answer.status, answer.json()) == (200, {})
    assert admin.get(f"{V3}/types/none/encryption").status == 404


def test_the_encryption_of_a_type_lives_and_goes(admin: Any, url: str) -> None:
    made = admin.post(url, {"encryption": WISH}).json()["encryption"]
    id = made.pop("encryption_id")
    assert made == {"volume_type_id": url.split("/")[-2], **WISH}
    assert admin.post(url, {"encryption": WISH}).status == 400
    shown = admin.get(url).json()
    assert shown["encryption_id"] == id and shown["deleted"] is False and shown["created_at"]
    assert admin.get(f"{url}/cipher").json() == {"cipher": "aes-xts-plain64"}
    assert admin.get(f"{url}/colour").status == 404
    change = {"provider": "plain", "key_size": None}
    assert admin.put(f"{url}/{id}", {"encryption": change}).json() == {"encryption": change}
    assert admin.get(url).json() == {**shown, **change, "updated_at": admin.get(url).json()["updated_at"]}
    assert admin.put(f"{url}/none", {"encryption": change}).status == 404
    assert admin.delete(f"{url}/{id}").status == 202
    assert admin.get(url).json() == {}
    assert admin.delete(f"{url}/{id}").status == 404


@pytest.mark.parametrize(
    "change", [{"provider": None}, {"control_location": "nowhere"}, {"key_size": -1}, {"key_size": "x"}, {"x": "y"}]
)
def test_wrong_values_are_refused(admin: Any, url: str, change: Any) -> None:
    assert admin.post(url, {"encryption": {**WISH, **change}}).status == 400


def test_no_volume_is_left_plain_that_should_be_encrypted(admin: Any, demo: Any, url: str) -> None:
    admin.post(url, {"encryption": WISH})
    answer = demo.post(f"{V3}/volumes", {"volume": {"size": 1, "volume_type": "secret"}})
    assert answer.status == 400 and "encrypt" in answer.json()["badRequest"]["message"]
    assert demo.get(url).status == 403


def test_a_type_in_use_or_multiattach_is_not_encrypted(admin: Any, make: Any, url: str) -> None:
    make(volume_type="secret")
    assert admin.post(url, {"encryption": WISH}).status == 409
    shared = {"name": "shared", "extra_specs": {"multiattach": "<is> True"}}
    made = admin.post(f"{V3}/types", {"volume_type": shared}).json()["volume_type"]["id"]
    assert admin.post(f"{V3}/types/{made}/encryption", {"encryption": WISH}).status == 400
