"""Key pairs over HTTP. Reference: compute.md, section 10."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import load_pem_x509_certificate

from tests.compute.asking import LATEST, Asking, refusal

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMWMt1Xa2WgXBQEQqbqWPV0A2pW0k2XW3mXQkPLo4Gq9 me@home"


def create(demo: Asking, version: str | None = None, **wishes: Any) -> Any:
    return demo.post("/os-keypairs", {"keypair": {"name": "mine", **wishes}}, version)


def test_a_public_key_is_registered(demo: Asking) -> None:
    answer = create(demo, "2.2", public_key=KEY)
    assert answer.status == 201
    made = answer.json()["keypair"]
    assert made.keys() == {"name", "public_key", "fingerprint", "type", "user_id"}
    assert (made["public_key"], made["type"]) == (KEY, "ssh")
    assert len(made["fingerprint"]) == 47
    shown = demo.get("/os-keypairs/mine").json()["keypair"]
    assert shown["deleted"] is False
    assert isinstance(shown["id"], int)
    assert demo.get("/os-keypairs", "2.2").json()["keypairs"] == [
        {"keypair": {key: made[key] for key in ("name", "public_key", "fingerprint", "type")}}
    ]


def test_a_pair_is_made_and_its_private_half_shown_once(demo: Asking) -> None:
    made = create(demo).json()["keypair"]
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    line = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert made["public_key"].startswith(line.decode())
    assert made["public_key"].rstrip().endswith("Generated-by-Nova")
    assert "private_key" not in demo.get("/os-keypairs/mine").json()["keypair"]


def test_a_certificate_is_made(demo: Asking) -> None:
    made = create(demo, "2.2", type="x509").json()["keypair"]
    found = load_pem_x509_certificate(made["public_key"].encode())
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    assert found.public_key() == private.public_key()
    assert made["fingerprint"].count(":") == 19
    again = create(demo, "2.2", name="again", type="x509", public_key=made["public_key"]).json()["keypair"]
    assert again["fingerprint"] == made["fingerprint"]


def test_statuses_change_with_2_2(demo: Asking) -> None:
    assert create(demo, "2.1", public_key=KEY).status == 200
    assert demo.delete("/os-keypairs/mine", "2.1").status == 202
    assert create(demo, "2.2", public_key=KEY).status == 201
    assert demo.delete("/os-keypairs/mine", "2.2").status == 204
    assert demo.delete("/os-keypairs/mine", "2.2").status == 404


def test_a_name_is_taken_once_by_a_user(demo: Asking, reader: Asking) -> None:
    create(demo, public_key=KEY)
    assert refusal(create(demo, public_key=KEY)) == (409, "conflictingRequest", "Key pair 'mine' already exists.")
    assert create(reader, public_key=KEY).status == 200


@pytest.mark.parametrize(
    ("wishes", "version"),
    [
        ({"public_key": "not a key"}, None),
        ({"public_key": "ssh-rsa AAAA"}, None),
        ({"public_key": ""}, None),
        ({"public_key": KEY, "type": "x509"}, "2.2"),
        ({"name": "a/b"}, None),
        ({"name": "a.b"}, "2.91"),
        ({"name": ""}, None),
        ({"name": "   "}, None),
        ({"name": "x" * 256}, None),
        ({"type": "ssh"}, "2.1"),
        ({"type": "dsa"}, "2.2"),
        ({"user_id": "x"}, "2.9"),
        ({}, "2.92"),
        ({"public_key": None}, None),
    ],
)
def test_a_wrong_key_pair_is_refused(demo: Asking, wishes: dict[str, Any], version: str | None) -> None:
    assert create(demo, version, **wishes).status == 400


def test_a_key_that_is_none_is_told_so(demo: Asking) -> None:
    message = refusal(create(demo, public_key="not a key"))[2]
    assert message.startswith("Keypair data is invalid: ")


def test_more_names_are_allowed_from_2_92_on(demo: Asking) -> None:
    assert create(demo, "2.92", name="me@home.example", public_key=KEY).status == 201


def test_key_pairs_come_in_pages_from_2_35_on(demo: Asking) -> None:
    for name in ("b", "a", "c"):
        create(demo, name=name, public_key=KEY)

    def names(query: str, version: str) -> list[str]:
        return [item["keypair"]["name"] for item in demo.get(f"/os-keypairs{query}", version).json()["keypairs"]]

    assert names("?limit=1", "2.34") == ["a", "b", "c"]
    assert names("?limit=2", "2.35") == ["a", "b"]
    assert names("?marker=b", "2.35") == ["c"]
    assert "marker=b" in demo.get("/os-keypairs?limit=2", "2.35").json()["keypairs_links"][0]["href"]
    assert demo.get("/os-keypairs?marker=none", "2.35").status == 400


def test_other_users_key_pairs_are_for_administrators(demo: Asking, admin: Asking, reader: Asking) -> None:
    create(demo, public_key=KEY)
    user_id = demo.get("/os-keypairs/mine").json()["keypair"]["user_id"]
    path = f"?user_id={user_id}"
    assert [k["keypair"]["name"] for k in admin.get(f"/os-keypairs{path}", "2.10").json()["keypairs"]] == ["mine"]
    assert admin.get(f"/os-keypairs/mine{path}", "2.10").status == 200
    assert admin.get(f"/os-keypairs/mine{path}", "2.9").status == 404
    assert reader.get(f"/os-keypairs{path}", "2.10").status == 403
    assert reader.get("/os-keypairs/mine", LATEST).status == 404
    assert create(admin, "2.10", name="for you", public_key=KEY, user_id=user_id).status == 201
    assert demo.get("/os-keypairs/for you".replace(" ", "%20")).status == 200


def test_there_is_a_limit(demo: Asking, admin: Asking) -> None:
    project = demo.client.get("/networking/v2.0/networks?name=private").json()["networks"][0]["tenant_id"]
    assert admin.put(f"/os-quota-sets/{project}", {"quota_set": {"key_pairs": 1}}).status == 200
    create(demo, public_key=KEY)
    assert refusal(create(demo, name="two", public_key=KEY)) == (
        413,
        "entityTooLarge",
        "Quota exceeded, too many key pairs.",
    )
