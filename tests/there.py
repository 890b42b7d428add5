"""What a test knows to exist, although the type says that it may be None."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def there(found: T | None) -> T:
    assert found is not None
    return found
