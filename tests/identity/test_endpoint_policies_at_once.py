"""Policies of endpoints, on PostgreSQL: what is being deleted is given none, and the same one twice is no error."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select

from cloudctl.identity import endpoint_policies, records, services
from cloudctl.identity.api import policies
from cloudctl.identity.endpoint_policies import Target
from cloudctl.identity.tables import Endpoint, PolicyAssociation, PolicyBlob

from .test_identity_races import NOW, an_endpoint, at_once
from .test_identity_races import keystone as keystone

ANY: Any = None  # a call that is not looked at


def a_policy(conn: Any) -> str:
    return str(records.create(conn, PolicyBlob, {"type": "x", "blob": "x"}, NOW).id)


def associations(conn: Any) -> int:
    return int(conn.execute(select(func.count()).select_from(PolicyAssociation.table)).scalar())


@pytest.mark.parametrize("delete_first", [False, True])
@pytest.mark.parametrize("deleted", ["policy", "endpoint", "service", "region"])
def test_what_is_being_deleted_is_not_associated(keystone: Any, deleted: str, delete_first: bool) -> None:
    """A region may be made again under its name, and would have a policy then that may not exist any more."""
    endpoint_id, service_id = keystone.db.transact(True, an_endpoint)
    policy_id = keystone.db.transact(False, a_policy)
    keystone.db.transact(False, services.create_region, {"id": "land"}, NOW)
    target = Target(service_id=service_id, region_id="land")
    if deleted in ("policy", "endpoint"):
        target = Target(endpoint_id=endpoint_id)
    delete = {
        "policy": lambda conn: policies.remove(conn, ANY, policy_id),
        "endpoint": lambda conn: services.remove_endpoint(conn, endpoint_id),
        "service": lambda conn: services.remove_service(conn, service_id),
        "region": lambda conn: services.remove_region(conn, "land"),
    }
    both = [lambda conn: endpoint_policies.associate(conn, policy_id, target), delete[deleted]]
    at_once(keystone.db, *(reversed(both) if delete_first else both))
    assert keystone.db.transact(True, associations) == 0


def test_two_policies_that_are_given_at_once_leave_one(keystone: Any) -> None:
    endpoint_id, _ = keystone.db.transact(True, an_endpoint)
    each = [keystone.db.transact(False, a_policy) for _ in range(2)]
    target = Target(endpoint_id=endpoint_id)
    both = [lambda conn, id=id: endpoint_policies.associate(conn, id, target) for id in each]
    assert at_once(keystone.db, *both) == []
    assert keystone.db.transact(True, associations) == 1


def test_regions_are_walked_up_and_down(keystone: Any) -> None:
    """PostgreSQL is particular about the types of what a query goes through again and again."""

    def look(conn: Any) -> None:
        endpoint_id, service_id = an_endpoint(conn)
        policy_id = a_policy(conn)
        services.create_region(conn, {"id": "land"}, NOW)
        services.change_region(conn, "RegionOne", {"parent_region_id": "land"})
        endpoint_policies.associate(conn, policy_id, Target(service_id=service_id, region_id="land"))
        assert endpoint_policies.of_endpoint(conn, endpoint_id).id == policy_id
        found = conn.execute(select(Endpoint.service_id).where(endpoint_policies.of_policy(conn, policy_id)))
        assert found.scalars().all() == [service_id] * 3

    keystone.db.transact(False, look)
