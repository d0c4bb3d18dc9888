from __future__ import annotations

import json

import cases
import pytest
from driving import ALL, shows, until

from planguard.cli import main


@pytest.fixture(scope="module")
def trace_page(tmp_path_factory, root):
    """The page of two recorded steps of DDP."""
    out = tmp_path_factory.mktemp("trace") / "trace.html"
    folder = root / "tests" / "corpus" / "traces" / "ddp-2-steps"
    assert main(["report", str(folder), "-o", str(out)]) == 0
    return out


def test_the_odd_operator_of_a_real_step_is_found_by_a_click(open_page, tmp_path, root):
    """ResNet-50: a click on the link of two devices chooses its largest operator, the one that
    does not belong to the step, in every view; rank and call are those of the trace.
    """
    out = tmp_path / "resnet50.html"
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    assert main(["report", str(folder), "-o", str(out)]) == 0
    tab = open_page(out, "open=topology")
    matrix = tab.locator("#panel-topology canvas[role=img]")
    matrix.scroll_into_view_if_needed()
    size = matrix.evaluate("(canvas) => (canvas.clientWidth - 62) / 4")
    matrix.click(position={"x": 54 + 1.5 * size, "y": 30 + 0.5 * size})
    assert "256 MiB" in tab.inner_text("#selection")
    assert "all_reduce" in tab.inner_text("#selection")


def test_a_step_of_a_trace_drives_every_view(open_page, trace_page):
    """A step chosen in the overview is the range of the timeline, the traffic of the matrices, the
    operators that stand out, the rows of the table; times are called measured.
    """
    tab = open_page(trace_page, ALL)
    assert "measured" in tab.inner_text("#panel-timeline summary")
    assert "modeled step" not in tab.evaluate("document.body.innerText")
    whole = tab.evaluate("planguard.matrixOf(planguard.data.traffic.views[0], false).messages")
    canvas = tab.locator("#panel-overview canvas").first
    canvas.scroll_into_view_if_needed()
    canvas.press("ArrowRight")
    canvas.press("ArrowRight")
    assert tab.evaluate("planguard.state.iteration") == 1
    begin, end = tab.evaluate(
        "(() => { const s = planguard.data.time.steps[1]; return [s.start, s.end]; })()"
    )
    assert tab.evaluate("planguard.plot.range()") == pytest.approx([begin, end], rel=1e-3)
    shows(tab, "matrices", "ProfilerStep#2, all traffic")
    part = tab.evaluate("planguard.matrixOf(planguard.data.traffic.views[0], false).messages")
    tab.click("#all-steps")
    assert tab.evaluate("planguard.state.iteration === undefined")
    canvas.press("ArrowRight")
    first = tab.evaluate("planguard.matrixOf(planguard.data.traffic.views[0], false).messages")
    assert part + first == whole
    tab.select_option("#table", "steps")
    until(tab, "document.querySelectorAll('#panel-tables tbody tr').length === 4")
    until(tab, "location.hash.includes('iteration=0')")
    box = canvas.bounding_box()
    tab.mouse.click(box["x"] + 62 + 0.75 * (box["width"] - 128), box["y"] + 80)
    assert tab.evaluate("planguard.state.iteration") == 1


def test_the_page_of_a_store_chooses_trials(open_page, tmp_path, monkeypatch):
    """Outcomes filter, a search narrows, a trial shows its family's witness, step by step, and the
    address brings it back; hostile names stay text.
    """
    monkeypatch.chdir(tmp_path)
    calls = [{"op": "all_reduce", "bytes": 8}, {"op": "barrier"}]
    plans = []
    for number, name in enumerate(["good", "bad", cases.HOSTILE[0], cases.HOSTILE[1]]):
        other = calls if name == "good" else calls[::-1]
        ranks = {"0": {"actions": calls}, "1": {"actions": other}}
        plan = {"schema": cases.SCHEMA, "world_size": 2, "ranks": ranks}
        named = {} if name == "bad" else {"name": name}
        plans.append(json.dumps({**named, "plan": plan, "params": {"n": number}}))
    (tmp_path / "trials.jsonl").write_text("\n".join([*plans, json.dumps({**plan, "name": "x"})]))
    assert main(["screen", "trials.jsonl", "--store", "s.db", "--quiet", "--jobs", "1"]) == 1
    assert main(["report", "s.db", "-o", "s.html"]) == 0
    tab = open_page(tmp_path / "s.html")
    rows = "document.querySelectorAll('#panel-trials tbody tr').length"
    assert tab.evaluate(rows) == 5
    tab.click("[data-outcome=SAFE]")
    until(tab, f"{rows} === 1")
    tab.click("#all-trials")
    tab.fill("#find", "script")
    until(tab, f"{rows} === 2")
    tab.locator("#panel-trials tbody tr").first.press("Enter")
    shows(tab, "chosen", "planguard report")
    assert tab.evaluate("globalThis.pwned") is None
    tab.click("#all-trials")
    until(tab, f"{rows} === 5")
    tab.click("#panel-trials th button >> text=n")
    tab.locator("#panel-families tbody tr").first.click()
    until(tab, "document.querySelectorAll('#panel-chosen .act').length > 1")
    tab.fill("#panel-chosen input[type=range]", "1")
    shows(tab, "chosen", "step 1 of")
    assert "PG201" in tab.inner_text("#panel-chosen")
    tab.select_option("#theme", "dark")
    until(tab, "location.hash.includes('family=')")
