from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in (DOCS / "upstream").glob("*.md") if page.name != "README.md")
REPORTS = [page for page in PAGES if not page.name.startswith("hook-")]
PARTS = ("Versions", "Script", "Expected", "Happens", "Proposed patch", "Proof")


def bugs():
    """Return the text of every bug that was found, by its number."""
    found = {}
    for name in ("bugs-found.md", "bugs-found-2.md"):
        text = (DOCS / name).read_text(encoding="utf-8")
        for part in re.split(r"^(?=## \d+\. )", text, flags=re.MULTILINE)[1:]:
            found[int(re.match(r"## (\d+)", part)[1])] = part
    return found


@pytest.mark.parametrize("number", bugs())
def test_each_bug_says_what_became_of_it_upstream(number):
    """Every bug is reported, or has a page that can be filed, or says why there is nothing to."""
    (line,) = re.findall(r"^\*\*Upstream\.\*\* (.*)$", bugs()[number], re.MULTILINE)
    page = re.search(r"\(upstream/([a-z0-9-]+\.md)\)", line)
    if page is None:
        assert re.match(r"Reported: [\w-]+/[\w-]+#\d+\.|Nothing to report: \w", line)
    else:
        text = (DOCS / "upstream" / page[1]).read_text(encoding="utf-8")
        assert re.search(rf"^Bug {number} of ", text, re.MULTILINE)


@pytest.mark.parametrize("page", REPORTS, ids=lambda page: page.stem)
def test_each_report_has_its_parts(page):
    """Versions, script, what is expected, what happens, patch and proof, in this order; a patch
    that was not run says so.
    """
    text = page.read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\*\*([A-Z][a-z ]+)\.\*\*", text, re.MULTILINE)) == PARTS
    patch, proof = text.partition("**Proposed patch.**")[2].split("**Proof.**")
    if proof.startswith(" None yet"):
        assert "(not tried)" in patch or patch.startswith(" None")
    assert f"({page.name})" in (DOCS / "upstream" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_script_that_is_named_exists(page):
    """What a report tells a reader to run, or refers to, is in the repository."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?:tests|examples|benchmarks)/[\w./-]+[\w]", text)
    assert [one for one in named if not (ROOT / one).exists()] == []
    assert named or page.stem in ("hook-graphtrainer", "msgspec-import")
