"""Records: a table and the type of its rows, said once."""

from __future__ import annotations

import pytest
from sqlalchemy import Integer

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text
from cloudctl.db.records import Record, record_of


class Aged(Record):
    """For others to inherit."""

    age: Field[int] = column(Integer)
    retired: Field[int | None] = column(Integer)


class Horse(Aged, table="test_horses"):
    id: Field[str] = identifier(primary_key=True)
    name: Field[str] = text()
    rider: Field[str | None] = optional_text()
    shod: Field[bool] = flag(False)
    races: Field[dict[str, int]] = json(dict)


class Donkey(Aged, table="test_donkeys"):
    id: Field[str] = identifier(primary_key=True)


@pytest.mark.parametrize("record", [Horse, Donkey])
def test_a_column_may_be_null_if_the_type_of_its_field_says_so(record: type[Record]) -> None:
    may_be = {column.key for column in record.table.columns if column.nullable}
    assert may_be == {"rider", "retired"} & {column.key for column in record.table.columns}


def test_tables_that_inherit_columns_have_their_own() -> None:
    assert Horse.table.c.age is not Donkey.table.c.age
    assert [column.key for column in Donkey.table.columns] == ["age", "retired", "id"]
    assert record_of(Horse.table) is Horse and record_of(Donkey.table) is Donkey


def test_a_record_that_is_made_has_the_defaults_of_its_columns() -> None:
    horse, other = Horse(id="h", age=3), Horse(id="o", age=4)
    assert (horse.name, horse.rider, horse.shod, horse.races) == ("", None, False, {})
    assert horse.races is not other.races


def test_a_record_has_no_other_names() -> None:
    with pytest.raises(TypeError, match="Horse has no saddle"):
        Horse(id="h", age=3, saddle="red")  # type: ignore[call-arg]  # as the type checker says
