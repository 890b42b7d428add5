"""The task engine understands what a driver raises."""

from __future__ import annotations

import pytest

from cloudctl.drivers import errors
from cloudctl.tasks.workflow import Transient, TryElsewhere

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.DriverError)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_each_error_is_retried_here_or_elsewhere_or_ends_the_task(cls: type[errors.DriverError]) -> None:
    assert issubclass(cls, Transient) is (cls.__name__ in {"Busy", "Unreachable"})
    assert issubclass(cls, TryElsewhere) is (cls.__name__ in {"HostDown", "NoCapacity"})
    assert cls.__doc__ or issubclass(cls, errors.Unknown)


def test_an_unknown_id_is_named() -> None:
    error = errors.UnknownGuest("g1")
    assert (str(error), error.id) == ("guest g1 is unknown to the driver", "g1")
