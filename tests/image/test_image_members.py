"""Sharing: who may share with whom, who sees what, and who answers."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.testing.cloud import Client
from tests.image.asking import IMAGES, create, names, patch, project_of, stored
from tests.image.conftest import Persona


class Shared:
    """An image of demo that is shared with alt."""

    def __init__(self, demo: Client, alt: Client) -> None:
        self.demo, self.alt = demo, alt
        self.member = project_of(alt)
        self.id = stored(demo, name="shared")["id"]
        self.path = f"{IMAGES}/{self.id}"
        self.members = f"{self.path}/members"
        self.mine = f"{self.members}/{self.member}"
        answer = demo.post(self.members, {"member": self.member})
        assert answer.status == 200, answer
        self.made: dict[str, Any] = answer.json()

    def answer(self, status: str) -> int:
        return self.alt.put(self.mine, {"status": status}).status


@pytest.fixture
def shared(demo: Client, alt: Client) -> Shared:
    return Shared(demo, alt)


def test_a_membership_begins_pending(shared: Shared) -> None:
    assert shared.made == {
        "image_id": shared.id, "member_id": shared.member, "status": "pending", "schema": "/v2/schemas/member",
        "created_at": "2027-01-15T08:00:00Z", "updated_at": "2027-01-15T08:00:00Z",
    }  # fmt: skip
    assert shared.demo.get(shared.members).json() == {"members": [shared.made], "schema": "/v2/schemas/members"}
    assert shared.alt.get(shared.mine).json() == shared.made


def test_a_pending_image_is_seen_and_not_listed(shared: Shared) -> None:
    assert shared.alt.get(shared.path).status == 200
    assert names(shared.alt) == []
    assert names(shared.alt, "member_status=pending") == ["shared"]
    assert names(shared.alt, "visibility=shared&member_status=all") == ["shared"]


def test_an_accepted_image_is_listed_and_read(shared: Shared) -> None:
    assert shared.answer("accepted") == 200
    assert names(shared.alt) == ["shared"]
    assert names(shared.alt, "visibility=shared") == ["shared"]
    assert names(shared.alt, "member_status=pending") == []
    assert shared.alt.get(f"{shared.path}/file").status == 200


def test_a_rejected_image_is_not_seen_and_may_be_accepted_again(shared: Shared) -> None:
    shared.answer("rejected")
    assert names(shared.alt) == []
    assert shared.alt.get(shared.path).status == 404
    assert names(shared.alt, "member_status=rejected") == ["shared"]
    assert shared.answer("accepted") == 200
    assert shared.alt.get(shared.path).status == 200


def test_a_member_changes_nothing_but_its_answer(shared: Shared) -> None:
    shared.answer("accepted")
    asked = [
        shared.alt.delete(shared.path),
        patch(shared.alt, shared.id),
        shared.alt.delete(shared.mine),
        shared.alt.post(shared.members, {"member": "another"}),
        shared.alt.put(f"{shared.path}/tags/x"),
    ]
    assert [answer.status for answer in asked] == [403] * 5


def test_the_owner_does_not_answer_for_a_member(shared: Shared, admin: Client) -> None:
    assert shared.demo.put(shared.mine, {"status": "accepted"}).status == 403
    assert admin.put(shared.mine, {"status": "accepted"}).json()["status"] == "accepted"


def test_a_member_sees_no_other_member(shared: Shared) -> None:
    shared.demo.post(shared.members, {"member": "another"})
    assert [each["member_id"] for each in shared.alt.get(shared.members).json()["members"]] == [shared.member]
    assert shared.alt.get(f"{shared.members}/another").status == 404
    assert shared.alt.put(f"{shared.members}/another", {"status": "accepted"}).status == 404
    assert len(shared.demo.get(shared.members).json()["members"]) == 2


def test_a_third_project_sees_nothing(shared: Shared, persona: Persona) -> None:
    third = persona("third", "third", "member")
    asked = [third.get(shared.members), third.get(shared.mine), third.put(shared.mine, {"status": "accepted"})]
    assert [answer.status for answer in asked] == [404] * 3


def test_a_reader_of_the_member_project_does_not_answer(shared: Shared, persona: Persona) -> None:
    reader = persona("reader", "alt", "reader")
    assert reader.get(shared.mine).status == 200
    assert reader.put(shared.mine, {"status": "accepted"}).status == 403


def test_sharing_ends(shared: Shared) -> None:
    assert [shared.demo.delete(shared.mine).status for _ in range(2)] == [204, 404]
    assert shared.alt.get(shared.path).status == 404
    assert shared.demo.get(shared.members).json()["members"] == []


def test_sharing_twice_is_409(shared: Shared) -> None:
    assert shared.demo.post(shared.members, {"member": shared.member}).status == 409


@pytest.mark.parametrize("visibility", ["private", "community"])
def test_only_shared_images_have_members(demo: Client, visibility: str) -> None:
    path = f"{IMAGES}/{create(demo, visibility=visibility)['id']}/members"
    assert demo.post(path, {"member": "x"}).status == 403
    assert demo.get(path).json()["members"] == []


def test_members_are_kept_and_do_not_count_while_an_image_is_private(shared: Shared) -> None:
    shared.answer("accepted")
    patch(shared.demo, shared.id, {"op": "replace", "path": "/visibility", "value": "private"})
    assert shared.alt.get(shared.path).status == 404
    assert names(shared.alt) == []
    assert shared.demo.get(shared.members).json()["members"] == []
    patch(shared.demo, shared.id, {"op": "replace", "path": "/visibility", "value": "shared"})
    assert names(shared.alt) == ["shared"]


def test_the_members_of_a_public_image_are_nobodys_business(demo: Client, admin: Client) -> None:
    image_id = stored(admin, visibility="public")["id"]
    assert demo.get(f"{IMAGES}/{image_id}/members").status == 403


@pytest.mark.parametrize("body", [{}, {"member": ""}, {"member": 5}, {"member": "x" * 256}, {"other": "x"}, []])
def test_a_wrong_member_is_400(demo: Client, body: Any) -> None:
    assert demo.post(f"{IMAGES}/{create(demo)['id']}/members", body).status == 400


@pytest.mark.parametrize("body", [{}, {"status": "maybe"}, {"status": None}, {"member": "x"}])
def test_a_wrong_answer_is_400(shared: Shared, body: Any) -> None:
    assert shared.alt.put(shared.mine, body).status == 400


def test_what_an_answer_says_beside_its_status_is_ignored(shared: Shared) -> None:
    answer = shared.alt.put(shared.mine, {"member": shared.member, "status": "accepted"})
    assert (answer.status, answer.json()["status"]) == (200, "accepted")


def test_too_many_members_are_413(demo: Client) -> None:
    path = f"{IMAGES}/{create(demo)['id']}/members"
    statuses = [demo.post(path, {"member": f"m{number}"}).status for number in range(129)]
    assert statuses == [200] * 128 + [413]
