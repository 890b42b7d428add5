"""A cloud and its users. None of these tests may leave a file that no object has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloudctl.testing.cloud import MemoryCloud
from tests.image.conftest import admin, alt, demo, persona, reader
from tests.object_store.asking import Account, files, rows

__all__ = ["admin", "alt", "demo", "persona", "reader"]


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    assert files(made) == rows(made)
    made.close()


@pytest.fixture
def mine(cloud: MemoryCloud) -> Account:
    return Account(cloud.client("demo"))
