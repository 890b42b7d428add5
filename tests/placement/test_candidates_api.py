"""Allocation candidates: in which ways what is asked for could be given."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from cloudctl.placement.names import SHARES
from cloudctl.testing.http import Response
from tests.placement.conftest import Placing

# The hosts have these as well, so trees of our own are asked for what only they have.
CLASSES = ("CUSTOM_A", "CUSTOM_B")


@pytest.fixture(autouse=True)
def classes(placing: Placing) -> None:
    for name in CLASSES:
        assert placing.ask("PUT", f"/resource_classes/{name}").status == 201
    for trait in ("CUSTOM_GOLD", "CUSTOM_OLD"):
        assert placing.ask("PUT", f"/traits/{trait}").status == 201


def ways(placing: Placing, query: str, version: str = "1.39") -> list[dict[str, dict[str, int]]]:
    """Provider → amounts of each way."""
    found = placing.get(f"/allocation_candidates?{query}", version)["allocation_requests"]
    return [{id: share["resources"] for id, share in each["allocations"].items()} for each in found]


def test_hosts_are_candidates_for_servers(placing: Placing) -> None:
    found = placing.get("/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:1")
    assert len(found["allocation_requests"]) == 3
    (summary, *_) = found["provider_summaries"].values()
    assert summary["resources"]["VCPU"] == {"capacity": 256, "used": 0}
    assert (summary["traits"], summary["parent_provider_uuid"]) == (["COMPUTE_NODE"], None)
    assert len(ways(placing, "resources=VCPU:1&limit=2")) == 2
    assert ways(placing, "resources=VCPU:65") == []  # more than one machine has, whatever the ratio
    assert ways(placing, "resources=VCPU:1&required=!COMPUTE_NODE") == []


def test_what_is_taken_is_no_candidate(placing: Placing) -> None:
    pool = placing.provider("pool", CUSTOM_A=10)
    assert placing.take(str(uuid4()), of={pool: {"CUSTOM_A": 6}}).status == 204
    assert ways(placing, "resources=CUSTOM_A:4") == [{pool: {"CUSTOM_A": 4}}]
    assert ways(placing, "resources=CUSTOM_A:5") == []


def test_traits_and_aggregates_choose(placing: Placing) -> None:
    one, other = placing.provider("one", CUSTOM_A=10), placing.provider("other", CUSTOM_A=10)
    inside = str(uuid4())
    placing.put(one, "traits", traits=["CUSTOM_GOLD"])
    placing.put(other, "traits", traits=["CUSTOM_OLD"])
    placing.put(other, "aggregates", aggregates=[inside])

    def chosen(query: str) -> list[str]:
        return [id for way in ways(placing, f"resources=CUSTOM_A:1&{query}") for id in way]

    assert chosen("required=CUSTOM_GOLD") == [one]
    assert chosen("required=!CUSTOM_GOLD") == [other]
    assert chosen("required=in:CUSTOM_GOLD,CUSTOM_OLD") == [one, other]
    assert chosen("required=in:CUSTOM_GOLD,CUSTOM_OLD&required=!CUSTOM_OLD") == [one]
    assert chosen(f"member_of={inside}") == [other]
    assert chosen(f"member_of=!{inside}") == [one]
    assert chosen(f"in_tree={one}") == [one]
    assert chosen(f"in_tree={uuid4()}") == []
    assert chosen("root_required=CUSTOM_OLD") == [other]


@pytest.fixture
def tree(placing: Placing) -> dict[str, str]:
    """A root with A, and two children with B."""
    root = placing.provider("root", CUSTOM_A=4)
    left, right = placing.provider("left", root, CUSTOM_B=4), placing.provider("right", root, CUSTOM_B=4)
    return {"root": root, "left": left, "right": right}


def test_a_tree_gives_together(placing: Placing, tree: dict[str, str]) -> None:
    root, left, right = tree.values()
    expected = [{root: {"CUSTOM_A": 1}, left: {"CUSTOM_B": 2}}, {root: {"CUSTOM_A": 1}, right: {"CUSTOM_B": 2}}]
    assert ways(placing, "resources=CUSTOM_A:1,CUSTOM_B:2") == expected
    assert ways(placing, "resources=CUSTOM_A:1,CUSTOM_B:2", "1.28") == []
    found = placing.get("/allocation_candidates?resources=CUSTOM_A:1,CUSTOM_B:2&limit=1")
    assert set(found["provider_summaries"]) == {root, left, right}
    assert found["allocation_requests"][0]["mappings"] == {"": [root, left]}


def test_before_1_29_a_tree_gives_from_one_provider(placing: Placing, tree: dict[str, str]) -> None:
    _, left, right = tree.values()
    store, inside = placing.provider("store", CUSTOM_A=100), str(uuid4())
    placing.put(store, "traits", traits=[SHARES])
    for each in (left, store):
        placing.put(each, "aggregates", aggregates=[inside])
    assert ways(placing, "resources=CUSTOM_B:2", "1.28") == [{left: {"CUSTOM_B": 2}}, {right: {"CUSTOM_B": 2}}]
    found = ways(placing, "resources=CUSTOM_A:9,CUSTOM_B:2", "1.28")
    assert {frozenset(way) for way in found} == {frozenset((left, store)), frozenset((right, store))}


def test_aggregates_of_a_root_are_those_of_its_tree_but_for_groups_with_a_suffix(
    placing: Placing, tree: dict[str, str]
) -> None:
    root, left, right = tree.values()
    whole, part = str(uuid4()), str(uuid4())
    placing.put(root, "aggregates", aggregates=[whole])
    placing.put(left, "aggregates", aggregates=[part])

    def chosen(query: str) -> list[str]:
        return [id for way in ways(placing, query) for id in way]

    assert chosen(f"resources=CUSTOM_B:1&member_of={whole}") == [left, right]
    assert chosen(f"resources=CUSTOM_B:1&member_of={part}") == [left]
    assert chosen(f"resources=CUSTOM_B:1&member_of={whole}&member_of=!{part}") == [right]
    assert chosen(f"resources=CUSTOM_B:1&member_of=!{whole}") == []
    # One provider must be in all that are asked for.
    assert chosen(f"resources=CUSTOM_B:1&member_of={whole}&member_of={part}") == []
    assert chosen(f"resources1=CUSTOM_B:1&member_of1={whole}") == []
    assert chosen(f"resources1=CUSTOM_B:1&member_of1={part}") == [left]
    # A list of providers is of single ones.
    assert len(placing.get(f"/resource_providers?member_of={whole}")["resource_providers"]) == 1


def test_space_after_an_amount_or_a_trait_counts_for_nothing(placing: Placing, tree: dict[str, str]) -> None:
    assert len(ways(placing, "resources=CUSTOM_A:1%20,CUSTOM_B:2%20")) == 2
    assert len(ways(placing, "resources=CUSTOM_A:1&required=!CUSTOM_GOLD%20,!CUSTOM_OLD%20")) == 1


def test_groups_come_from_one_provider_each(placing: Placing, tree: dict[str, str]) -> None:
    root, left, right = tree.values()
    query = "resources=CUSTOM_A:1&resources1=CUSTOM_B:2&resources2=CUSTOM_B:2"
    together = ways(placing, f"{query}&group_policy=none")
    assert {root: {"CUSTOM_A": 1}, left: {"CUSTOM_B": 4}} in together
    apart = ways(placing, f"{query}&group_policy=isolate")
    assert {frozenset(way) for way in apart} == {frozenset((root, left, right))}
    assert placing.ask("GET", f"/allocation_candidates?{query}").status == 400
    # Groups that fit one by one may be too much together.
    more = "resources1=CUSTOM_B:3&resources2=CUSTOM_B:3&group_policy=none"
    assert {frozenset(way) for way in ways(placing, more)} == {frozenset((left, right))}
    named = "resources_NIC=CUSTOM_B:1&required_NIC=!CUSTOM_OLD"
    assert len(ways(placing, named)) == 2
    assert placing.ask("GET", f"/allocation_candidates?{named}", version="1.32").status == 400


def test_groups_are_kept_below_one_provider(placing: Placing, tree: dict[str, str]) -> None:
    root, left, right = tree.values()
    query = "resources_A=CUSTOM_A:1&resources_B=CUSTOM_B:1&group_policy=none&same_subtree=_A,_B"
    assert {frozenset(way) for way in ways(placing, query)} == {frozenset((root, left)), frozenset((root, right))}
    assert ways(placing, query.replace("_A,_B", "_A,%20_B%20")) == ways(placing, query)
    apart = "resources_B=CUSTOM_B:3&resources_C=CUSTOM_B:3&group_policy=none&same_subtree=_B,_C"
    assert ways(placing, apart) == []
    assert placing.ask("GET", "/allocation_candidates?resources_A=CUSTOM_A:1&same_subtree=_X").status == 400


def test_what_is_shared_is_given_to_those_of_the_aggregate(placing: Placing) -> None:
    inside = str(uuid4())
    near, far = placing.provider("near", CUSTOM_A=4), placing.provider("far", CUSTOM_A=4)
    store = placing.provider("store", CUSTOM_B=100)
    placing.put(store, "traits", traits=[SHARES])
    for each in (near, store):
        placing.put(each, "aggregates", aggregates=[inside])
    found = ways(placing, "resources=CUSTOM_A:1,CUSTOM_B:10")
    assert found == [{near: {"CUSTOM_A": 1}, store: {"CUSTOM_B": 10}}]
    assert far not in str(found)


def test_candidates_of_old_are_lists(placing: Placing) -> None:
    pool = placing.provider("pool", CUSTOM_A=4)
    (found,) = placing.get("/allocation_candidates?resources=CUSTOM_A:1", "1.10")["allocation_requests"]
    assert found == {"allocations": [{"resource_provider": {"uuid": pool}, "resources": {"CUSTOM_A": 1}}]}
    assert placing.ask("GET", "/allocation_candidates?resources=CUSTOM_A:1", version="1.9").status == 404


def test_a_candidate_can_be_claimed_as_it_is(placing: Placing, tree: dict[str, str]) -> None:
    me = str(uuid4())
    (way,) = placing.get("/allocation_candidates?resources=CUSTOM_A:4,CUSTOM_B:4&limit=1")["allocation_requests"]
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
    assert placing.ask("PUT", f"/allocations/{me}", {**way, **owner}).status == 204
    assert placing.usages(tree["root"]) == {"CUSTOM_A": 4}


@pytest.mark.parametrize(
    "query",
    [
        "",
        "required=CUSTOM_GOLD",
        "resources=CUSTOM_NONE:1",
        "resources=CUSTOM_A:1&required=CUSTOM_NONE",
        "resources=CUSTOM_A:1&limit=0",
        "resources=CUSTOM_A:1&root_required=CUSTOM_GOLD&root_required=CUSTOM_OLD",
        "resources=CUSTOM_A:1&group_policy=some",
        "resources=CUSTOM_A:1&colour=red",
        "resources1=CUSTOM_A:1&required2=CUSTOM_GOLD&group_policy=none",
        # These say nothing about the group 1.
        "resources1=CUSTOM_A:1&required=CUSTOM_GOLD",
        "resources1=CUSTOM_A:1&member_of=6f1d2c3b-0000-4000-8000-000000000000",
        "resources1=CUSTOM_A:1&in_tree=6f1d2c3b-0000-4000-8000-000000000000",
    ],
)
def test_a_wrong_request_is_refused(placing: Placing, query: str) -> None:
    answer: Any = placing.ask("GET", f"/allocation_candidates?{query}")
    assert answer.status == 400


def test_what_is_required_and_forbidden_is_told(placing: Placing) -> None:
    answer = placing.ask("GET", "/allocation_candidates?resources=CUSTOM_A:1&required=CUSTOM_GOLD,!CUSTOM_GOLD")
    assert "Conflicting required and forbidden traits found in required: CUSTOM_GOLD" in answer.body.decode()
    wrong = placing.ask("GET", "/allocation_candidates?resources=CUSTOM_A:1&required=gold")
    assert "'required' takes names of traits, not gold" in wrong.body.decode()


def test_who_reads_and_takes_no_json_is_told_so(placing: Placing) -> None:
    def status(method: str, accept: str) -> int:
        body = {"name": "pool"} if method == "POST" else None
        answer = placing.client.request(method, "/placement/resource_providers", body, headers={"Accept": accept})
        if answer.status == 406:
            assert "Only application/json is provided" in answer.json()["errors"][0]["detail"]
        return answer.status

    assert [status("GET", each) for each in ("text/plain", "application/json;q=0", "image/*, text/*")] == [406] * 3
    assert [status("GET", each) for each in ("*/*", "text/plain, application/*;q=0.1", "", "?")] == [200] * 4
    assert status("POST", "text/plain") == 201


def test_the_largest_ratio_can_be_asked_for_and_a_larger_one_is_said_to_be_too_large(placing: Placing) -> None:
    pool = placing.provider("pool", CUSTOM_A=10)

    def put(ratio: float) -> Response:
        body = {"total": 2**31 - 1, "allocation_ratio": ratio, "resource_provider_generation": placing.generation(pool)}
        return placing.ask("PUT", f"/resource_providers/{pool}/inventories/CUSTOM_A", body)

    answer = put(1e308)
    assert (answer.status, "must be at most 3.40282e+38" in str(answer.json())) == (400, True)
    assert put(3.40282e38).status == 200
    assert ways(placing, "resources=CUSTOM_A:11") == [{pool: {"CUSTOM_A": 11}}]
