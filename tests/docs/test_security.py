"""docs/security.md claims nothing that no test holds."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_claim_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs/security.md").read_text()
    claimed = page[page.index("## Anonymous and tenants") : page.index("## Not defended")]
    claims = [line for line in claimed.splitlines() if re.match(r"\| (?!claim|---)", line)]
    assert claims and all(NAMED.search(claim) for claim in claims), [c for c in claims if not NAMED.search(c)]
    for file, name in NAMED.findall(page):
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), (file, name)
