"""Six kinds of reports for everybody: headings, names, keyboard, phone, paper, color sight."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import cases
import pytest
from driving import ALL, until

from planguard.cli import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
REPORTS = {
    "safe": [EXAMPLES / "mesh-3d.plan.json"],
    "stuck": [ROOT / "tests" / "corpus" / "bugs" / "megatron-lm-5100.bug.plan.json"],
    "audit": [EXAMPLES / "audit" / "skipped"],
    "two": [EXAMPLES / "head-to-head.plan.json", EXAMPLES / "mesh-3d.plan.json"],
    "store": [],
    "memory": [EXAMPLES / "memory"],
}
WIDER = """() => [...document.querySelectorAll("body *")].filter((one) => {
  if (one.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let up = one.parentElement; up && up !== document.body; up = up.parentElement)
    if (getComputedStyle(up).overflowX !== "visible") return false;
  return one.getBoundingClientRect().width > 0;
}).map((one) => `${one.tagName} ${one.id} ${(one.closest(".panel") || {}).id}`)"""
UNNAMED = """() => [...document.querySelectorAll("button, select, input, canvas[tabindex], [role=img]")]
  .filter((one) => !one.closest("[aria-hidden=true]") && one.tabIndex >= 0)
  .filter((one) => !(one.getAttribute("aria-label") || one.innerText || (one.labels && one.labels.length)))
  .map((one) => one.outerHTML.slice(0, 120))"""  # noqa: E501


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Return the page of a kind of report, written once."""
    folder = tmp_path_factory.mktemp("five")

    def make(name):
        out = folder / f"{name}.html"
        given = [str(path) for path in REPORTS[name]]
        if name == "store" and not out.exists():
            calls = [{"op": "all_reduce", "bytes": 8}, {"op": "barrier"}]
            rows = [{"name": "good", "plan": {"schema": cases.SCHEMA, "world_size": 2,
                     "ranks": {"0": {"actions": calls}, "1": {"actions": other}}}}
                    for other in (calls, calls[::-1])]  # fmt: skip
            trials, store = folder / "trials.jsonl", folder / "s.db"
            trials.write_text("\n".join(json.dumps(row) for row in rows))
            main(["screen", str(trials), "--store", str(store), "--quiet", "--jobs", "1"])
            given = [str(store)]
        if not out.exists():
            assert main(["report", *given, "-o", str(out)]) == 0
        return out

    return make


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_walked_and_fits(open_page, reports, name):
    """No heading skips a level, every control has a name, Tab shows where it is, and on a phone
    nothing is wider than the screen, whatever is open.
    """
    state = "" if name in {"two", "store", "memory"} else ALL
    tab = open_page(reports(name), state, viewport={"width": 390, "height": 844})
    levels = [int(one.evaluate("(e) => e.tagName[1]")) for one in tab.locator("h1,h2,h3,h4").all()]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), levels
    assert tab.evaluate(UNNAMED) == []
    assert tab.evaluate(WIDER) == []
    seen = set()
    for _ in range(12):
        tab.keyboard.press("Tab")
        focus = "document.activeElement"
        seen.add(tab.evaluate(f"{focus}.outerHTML.slice(0, 200)"))
        if tab.evaluate(f"{focus} !== document.body"):
            assert tab.evaluate(f"getComputedStyle({focus}).outlineStyle") != "none"
    assert len(seen) > 6


def test_on_paper_there_are_no_controls(open_page, reports):
    """What can be pressed is not printed, in either theme paper is white, charts are redrawn."""
    tab = open_page(reports("stuck"), color_scheme="dark")
    tab.emulate_media(media="print")
    until(tab, "getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
    for selector in ("#theme", ".bar button", ".next button", "input", ".save"):
        assert not any(one.is_visible() for one in tab.locator(selector).all()), selector
    assert tab.locator("#cause").is_visible()
    assert tab.pdf().startswith(b"%PDF")


def test_findings_do_not_need_green_and_red(open_page, reports):
    """As someone without green receptors sees it, the outcome is a word and stuck rows are hatched
    and have a cross.
    """
    tab = open_page(reports("stuck"))
    sight = {"type": "deuteranopia"}
    tab.context.new_cdp_session(tab).send("Emulation.setEmulatedVisionDeficiency", sight)
    assert tab.locator("header .outcome").inner_text() == "DEADLOCK"
    assert tab.locator(".row .cross").count() == 4
    assert "never completes" in tab.inner_text("#panel-timeline .legend >> nth=0")
