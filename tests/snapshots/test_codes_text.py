"""The text of every code that a check can give today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import planguard
from planguard.catalog import CATALOG
from planguard.explain.codes import page

HERE = Path(__file__).resolve().parent


class Seen(BaseException):
    """The arguments with which an example calls the check; nothing of an example catches it."""


def example(number: str) -> tuple[dict[str, object], list[str]] | None:
    """Return plan and options of a page's example, None if it checks no plan in memory.

    Budgets in seconds are left out: golden text does not depend on the speed of a machine.
    """

    def look(plan: object, **options: object) -> None:
        raise Seen(plan, options)

    namespace: dict[str, object] = {"__name__": f"example_{number}"}
    code = compile(page(number).example.source, f"{number}.md", "exec")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planguard, "check", look)
        patch.setattr(planguard, "load", look)
        try:
            exec(code, namespace)  # noqa: S102 - the pages are our own
        except Seen as seen:
            plan, options = seen.args
        else:
            return None
    model = [] if options.get("model") is None else ["--model", str(options["model"])]
    rules = ["--rules"] if options.get("rules") else []
    return (plan, [*model, *rules]) if isinstance(plan, dict) else None


EXAMPLES = {
    number: found
    for number in CATALOG
    if page(number).example.status == "run" and (found := example(number)) is not None
}


@pytest.mark.parametrize("number", list(EXAMPLES))
def test_text_of_code(number: str, shell, snapshot) -> None:
    """The example of a code's page prints its golden diagnostic: the code is named, the last line
    is the verdict, and nothing but a single long word leaves the 80 columns.
    """
    plan, arguments = EXAMPLES[number]
    text = shell({f"{number}.plan.json": plan}, *arguments)

    snapshot(f"text/{number}.txt", text)
    assert number in text
    *body, last, _, code = text.splitlines()
    assert last.startswith("verdict: ")
    assert code in {"0", "1", "2", "3"}
    assert text.isascii()
    assert all(len(line) <= 80 or len(line.split()) < 3 for line in body[1:])


@pytest.mark.parametrize("number", list(EXAMPLES))
def test_a_diagnostic_answers_the_four_questions(number: str) -> None:
    """An error of an unsafe plan says which rank, which action, why, and what to change."""
    text = (HERE / "text" / f"{number}.txt").read_text(encoding="utf-8")
    for block in re.split(r"\n\n", text):
        refused = "  $." in block
        if refused or not re.search(r"^error\[PG[012]\d\d\]", block, re.MULTILINE):
            continue
        assert re.search(r"\branks? \[?\d", block)
        assert re.search(r"--> \S+  rank \d+, action \d+", block)
        assert re.search(r"\^\^\^\^ \w", block)
        assert re.search(r"^help: ", block, re.MULTILINE)
        assert "planguard explain PG" in block


@pytest.mark.parametrize("number", ["PG006", "PG007", "PG009", "PG207", "PG208", "PG209", "PG210"])
def test_a_missing_participant_is_never_called_a_cycle(number: str) -> None:
    """Where somebody never comes, nothing waits in a circle: the text names who is missing."""
    text = (HERE / "text" / f"{number}.txt").read_text(encoding="utf-8")
    assert "cycle" not in text
    assert "= missing:  rank" in text


def test_every_code_of_today_has_a_golden_text() -> None:
    """No golden file without its example, no example without its golden file."""
    golden = {path.stem for path in (HERE / "text").glob("PG*.txt")}
    assert golden == set(EXAMPLES)
