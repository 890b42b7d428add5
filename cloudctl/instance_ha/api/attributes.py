"""What the attributes of all resources share. Reference: instance-ha.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, func

from cloudctl.errors import Invalid
from cloudctl.rest.formats import micros
from cloudctl.rest.listing import Condition, Filter
from cloudctl.rest.resource import Attribute, always, of_each

LONG_AGO = datetime(1970, 1, 1)


def times(record: Any) -> tuple[Attribute, ...]:
    """Deleted records are never shown, but clients look for the fields that say so."""
    return (
        moment("created_at", record.created_at, sort=True),
        moment("updated_at", record.updated_at, sort=func.coalesce(record.updated_at, LONG_AGO)),
        Attribute("deleted_at", view=always(None)),
        Attribute("deleted", view=always(False)),
    )


def moment(name: str, column: Column[Any], **options: Any) -> Attribute:
    return Attribute(name, column, view=of_each(lambda each: micros(getattr(each, column.key))), **options)


def one_of(*words: str) -> Callable[[Column[Any]], Filter]:
    """Equal to one of these words; any other is refused."""

    def make(column: Column[Any]) -> Filter:
        def test(values: Sequence[str]) -> Condition:
            if values[-1] not in words:
                raise Invalid(f"Invalid value {values[-1][:64]!r} for the filter: it is one of {', '.join(words)}.")
            return column == values[-1]

        return test

    return make
