"""Verdicts in Python: print, notebook, explain(), with and without the plan."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

import planguard
from planguard.explain import explain
from planguard.explain.context import Context
from planguard.explain.lines import Style, flow, line, render
from planguard.explain.reasons import around, label, sentence
from planguard.result import verdict_from_json
from planguard.verdict import CycleEdge, Finding, Location, Outcome, Verdict


def head_to_head() -> planguard.Plan:
    """Two ranks that send before they receive."""
    builder = planguard.PlanBuilder(2, name="pair")
    for rank in (0, 1):
        program = builder.program(rank)
        program.compute(op_name="before")
        program.send(1 - rank, bytes=4)
        program.recv(1 - rank, bytes=4)
        program.compute(op_name="after")
    return builder.build()


def test_print_shows_the_full_diagnostic() -> None:
    """print(verdict) is the diagnostic, the verdict line last, without escape sequences."""
    text = str(planguard.check(head_to_head()))
    assert text.startswith("error[PG001]: point-to-point deadlock: ranks 0 and 1 wait in send()")
    assert text.splitlines()[-1].startswith("verdict: DEADLOCK   model nccl")
    assert "^^^^ cannot complete before rank 1 starts the matching recv (its #2)" in text
    assert "\x1b" not in text


def test_with_the_plan_the_neighbors_are_shown() -> None:
    """explain(verdict, plan) adds one action before and one after; without it nothing is wrong."""
    plan = head_to_head()
    verdict = planguard.check(plan)
    alone, full = planguard.explain(verdict), planguard.explain(verdict, plan)
    assert "compute  before" in full
    assert "compute  after" in full
    assert "compute  before" not in alone
    assert {line for line in alone.splitlines() if "#1" in line} <= set(full.splitlines())


def test_a_saved_result_reads_like_the_verdict() -> None:
    """A verdict that went through its result file gives the same text."""
    verdict = planguard.check(head_to_head())
    assert explain(verdict_from_json(verdict.to_json())) == explain(verdict)


@pytest.mark.parametrize(
    "order",
    [
        "import planguard; planguard.explain(v); import planguard.explain.codes",
        "import planguard.explain.codes; import planguard; planguard.explain(v)",
        "from planguard import explain; explain(v); import planguard.explain.html",
        "import planguard as pg; pg.check; pg.explain(v)",
    ],
)
def test_explain_is_a_function_and_a_package_in_any_order(order: str) -> None:
    """planguard.explain(...) and planguard.explain.codes work whatever was imported before."""
    script = (
        "from planguard.verdict import Outcome, Verdict\n"
        "v = Verdict(Outcome.SAFE, 'nccl')\n"
        f"{order}\n"
        "import planguard, planguard.explain.codes\n"
        "assert 'verdict: SAFE' in planguard.explain(v)\n"
        "assert planguard.explain.codes.page('PG001').code.number == 'PG001'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class Tags(HTMLParser):
    """Collects the tags of a fragment and checks that they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_notebook_shows_a_table_and_runs_nothing() -> None:
    """The HTML nests, has the verdict and every finding, and no script, link or handler."""
    verdict = planguard.check(head_to_head())
    html = verdict._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert tags.seen <= {
        "div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre",
    }  # fmt: skip
    assert tags.attributes <= {"style", "colspan"}
    assert "DEADLOCK" in html
    assert "PG001 p2p-deadlock" in html


def test_names_from_a_plan_are_escaped_everywhere() -> None:
    """Markup, ANSI escapes and bidirectional marks of a plan reach neither terminal nor page."""
    evil = "<img src=x onerror=alert(1)>\x1b[2J\u202e"
    place = Location(0, 0, text=f"send {evil}", op="send")
    edge = CycleEdge(place, place, place, "send-unmatched")
    finding = Finding(
        "PG001", "p2p-deadlock", "error", "all-executions", "P", f"message {evil}",
        (0,), place, cycle=(edge, edge), notes=(evil,), help=evil,
    )  # fmt: skip
    verdict = Verdict(Outcome.DEADLOCK, evil, (finding,))
    text, html = explain(verdict), verdict._repr_html_()
    for shown in (text, html):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "<img" not in html


# --- parts ---------------------------------------------------------------------------------------


def ring(size: int) -> tuple[CycleEdge, ...]:
    """A ring of sends."""
    places = [Location(rank, 0, op="send", text="send") for rank in range(size)]
    owed = [Location(rank, 1, op="recv", text="recv") for rank in range(size)]
    return tuple(
        CycleEdge(places[i], owed[(i + 1) % size], places[(i + 1) % size], "send-unmatched")
        for i in range(size)
    )


def test_the_way_around_a_cycle() -> None:
    """A cycle is written once around; a long one leaves its middle out and says how much."""
    assert around(ring(2)) == "r0#0 -[send]-> r1#0 -[send]-> r0#0"
    assert around(ring(9)).endswith("r4#0 -[send]-> (4 more) -> r0#0")


@pytest.mark.parametrize(
    "why",
    [
        "send-unmatched", "recv-unmatched", "collective-incomplete", "wait-handle", "stream-edge",
        "event", "queue", "dependency", "init", "exited",
    ],
)  # fmt: skip
def test_every_reason_has_words(why: str) -> None:
    """Each reason of the result schema has a label and a sentence, with and without a goal."""
    here, goal = Location(0, 0, op="wait"), Location(1, 4, op="recv")
    edge = CycleEdge(here, goal, here, why)
    assert label(edge)
    assert "rank 1" in sentence(edge)
    assert "#4" in sentence(edge)
    assert len(sentence(CycleEdge(here, None, None, why)).split()) > 3


def test_at_most_six_ranks_are_shown() -> None:
    """The context of a large cycle stays readable."""
    finding = Finding(
        "PG001",
        "p2p-deadlock",
        "error",
        "all-executions",
        "P",
        "m",
        (),
        ring(9)[0].at,
        cycle=ring(9),
    )
    shown = {row[0][1].split()[0] for row in Context(finding, None, blocks_host=True).lines(80)
             if row[0][1].strip().startswith("r")}  # fmt: skip
    assert shown == {f"r{rank}" for rank in range(6)}


def test_words_are_never_cut() -> None:
    """Wrapping breaks between words only, and indents below the first word."""
    lines = flow(line("key: "), "aaa " * 10 + "b" * 60, width=40)
    text = render(lines, Style())
    assert "b" * 60 in text
    assert all(row.startswith("     ") for row in text.splitlines()[1:])
    assert re.sub(r"\s+", " ", text).strip() == "key: " + "aaa " * 10 + "b" * 60


def test_unsafe_plan_errors_carry_their_verdict() -> None:
    """require() raises with the verdict; printed, the error is the full diagnostic."""
    with pytest.raises(planguard.UnsafePlanError) as caught:
        planguard.require(head_to_head())
    assert caught.value.findings == caught.value.verdict.findings
    assert planguard.explain(caught.value.verdict).strip() in str(caught.value)


def test_the_same_bug_of_many_pairs_is_told_once() -> None:
    """Findings that differ in rank numbers only are one block with the ranks of the others; a
    finding at another action stays its own.
    """
    builder = planguard.PlanBuilder(8)
    for rank in range(8):
        program = builder.program(rank)
        if rank > 5:
            program.compute(op_name="late")
        program.send(rank ^ 1, bytes=4)
        program.recv(rank ^ 1, bytes=4)
    verdict = planguard.check(builder.build())
    text = planguard.explain(verdict)
    assert len(verdict.findings) == 4
    assert text.count("error[PG001]") == 2
    assert "= same bug: ranks (2,3) (4,5), folded by symmetry" in text
