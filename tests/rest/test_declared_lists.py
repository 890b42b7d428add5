"""How lists are declared."""

from __future__ import annotations

import pytest

from cloudctl.compute.tables import Keypair
from cloudctl.rest.listing import Listing


def test_a_list_whose_usual_order_is_no_sort_key_is_refused_where_it_is_declared() -> None:
    """Else whoever asks for no order is told that his sort key is wrong."""
    with pytest.raises(ValueError, match="keypairs is listed by what is no sort key: created_at"):
        Listing(Keypair.table, {"name": Keypair.name})
    Listing(Keypair.table, {"name": Keypair.name}, order=(("name", "asc"),))
