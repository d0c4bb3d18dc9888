"""The pages of the finding codes: complete, true to the catalog, and their examples run."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from planguard.catalog import CATALOG
from planguard.explain.codes import headings, page
from planguard.result import dumps, result_schema, verdict_from_json
from planguard.verdict import Verdict

DOCS = Path(__file__).resolve().parents[1] / "docs" / "codes"
RESULTS = jsonschema.Draft202012Validator(result_schema())
CODES = pytest.mark.parametrize("number", list(CATALOG))


def example_params() -> list[object]:
    """Return one test case per page; an example marked `later` must fail until its code exists.

    Strict: the day a check yields the code, the mark on the page has to go.
    """
    later = pytest.mark.xfail(strict=True, reason="no check yields this code yet")
    params = []
    for number in CATALOG:
        example = page(number).example
        marks = [later] if example.status == "later" and asserts(example.source, number) else []
        params.append(pytest.param(number, marks=marks))
    return params


def asserts(source: str, number: str) -> bool:
    """Tell whether an assert of the example names the code."""
    return any(
        isinstance(part, ast.Constant) and part.value == number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert)
        for part in ast.walk(node)
    )


def run_example(number: str) -> dict[str, object]:
    """Run the example of a page and return its names."""
    namespace: dict[str, object] = {"__name__": f"example_{number}"}
    code = compile(page(number).example.source, f"{number}.md", "exec")
    exec(code, namespace)  # noqa: S102 - the pages are our own
    return namespace


@CODES
def test_page_matches_the_catalog(number: str) -> None:
    """A page begins with number, name and traits of its catalog entry, then the fixed headings."""
    code = CATALOG[number]
    shown = page(number)
    title, _, rest = shown.text.partition("\n")
    traits = rest.partition("\n## ")[0]

    assert title == f"# {number} {code.name}"
    assert " ".join(traits.split()) == code.traits
    assert tuple(heading for heading, _ in shown.sections) == headings(code)
    assert all(body for _, body in shown.sections)


@CODES
def test_cited_codes_exist(number: str) -> None:
    """Every code a page cites is in the catalog, under the name the page gives it."""
    text = page(number).text
    related = dict(page(number).sections)["Related codes"]

    assert set(re.findall(r"PG\d{3}", text)) <= set(CATALOG)
    links = re.findall(r"^- \[(PG\d{3})\]\((PG\d{3})\.md\) ([a-z0-9-]+): \S", related, re.MULTILINE)
    assert len(links) == len(related.splitlines()) >= 1
    for shown, target, name in links:
        assert shown == target != number
        assert CATALOG[shown].name == name


@CODES
def test_page_is_readable_in_a_terminal(number: str) -> None:
    """Outside of the example a page is plain ASCII of at most 80 columns, links aside."""
    shown = page(number).plain
    prose = re.sub(r"```python\n.*?\n```", "", shown, flags=re.DOTALL)
    prose = prose.partition("## Related codes")[0]

    assert shown.isascii()
    assert max(map(len, prose.splitlines())) <= 80
    assert "](" not in prose
    assert "<!--" not in shown


@CODES
def test_example_asserts_its_code(number: str) -> None:
    """An example that runs claims, by the public API alone, that its plan yields the code."""
    example = page(number).example
    imported = {
        name.name
        for node in ast.walk(ast.parse(example.source))
        if isinstance(node, ast.Import)
        for name in node.names
    }

    if example.status == "run":
        assert imported == {"planguard"}
        assert asserts(example.source, number)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", example_params())
def test_example(number: str) -> None:
    """The example of a page finds what it says; its result file validates and reads back."""
    namespace = run_example(number)
    verdict = namespace.get("verdict")
    if isinstance(verdict, Verdict):
        document = json.loads(dumps(verdict.to_json()))
        RESULTS.validate(document)
        assert verdict_from_json(document) == replace(verdict, certificate=None)


def test_pages_and_catalog_agree() -> None:
    """Every code has a page and every page a code; the index lists all of them."""
    assert {file.stem for file in DOCS.glob("PG*.md")} == set(CATALOG)
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for code in CATALOG.values():
        row = f"| [{code.number}]({code.number}.md) | {code.name} | {code.severity} |"
        assert f"{row} {code.summary} |" in index


def test_only_what_cannot_be_provoked_has_no_example() -> None:
    """The tool's own failure is the only code without a plan that shows it."""
    without = {number for number in CATALOG if page(number).example.status == "none"}
    assert without == {"PG999"}


def test_a_code_is_emitted_or_reserved() -> None:
    """Every listed code is emitted somewhere in the source; the six that nothing emits are marked
    as reserved where they are listed, and the mark goes the day a check emits one.
    """
    root = DOCS.parents[1]
    emitted: set[str] = set()
    for file in [*(root / "planguard").rglob("*.py"), *(root / "planners").rglob("*.py")]:
        if file.name == "catalog.py":
            continue
        for part in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                emitted |= {part.value} & set(CATALOG)
    assert {number for number, code in CATALOG.items() if code.reserved} == set(CATALOG) - emitted


def test_every_code_that_is_not_reserved_is_shown_by_some_test() -> None:
    """An example that runs asserts the code, or a test or snapshot names it."""
    told = "".join(
        file.read_text(encoding="utf-8")
        for file in (DOCS.parents[1] / "tests").rglob("*")
        if file.suffix in {".py", ".txt", ".toml"}
        and file.name not in ("test_codes.py", "test_catalog.py")
    )
    # Emitted by the guard of a live job and by `audit`; no test names them yet.
    untold = {"PG502", "PG913", "PG914"}
    for number, code in CATALOG.items():
        shown = page(number).example.status == "run" or number in told
        assert code.reserved or shown or number in untold, number


def test_reserved_codes_are_listed_as_such() -> None:
    """``planguard explain --list`` does not list a code that nothing emits as if it worked."""
    from planguard.explain.codes import list_text

    for line in list_text().splitlines():
        assert ("  reserved  " in line) == CATALOG[line[:5]].reserved
