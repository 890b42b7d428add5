from __future__ import annotations

import pytest

# The suites assert outside test files; without this a failure shows no values.
pytest.register_assert_rewrite("cloudctl.testing")
