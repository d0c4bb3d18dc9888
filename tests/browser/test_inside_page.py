"""The panel of a rank's inside, and the critical path, in a real browser."""

from __future__ import annotations

import json

import pytest
from driving import shows, until
from test_saved_charts import png_size, saved, words

from planguard.cli import main


@pytest.fixture(scope="module")
def trace(tmp_path_factory, root):
    """The page of a real trace of a GPU."""
    out = tmp_path_factory.mktemp("inside") / "gpu.html"
    file = root / "tests" / "corpus" / "traces" / "gpu" / "alexnet.json.gz"
    assert main(["report", str(file), "-o", str(out)]) == 0
    return out


@pytest.fixture
def memory(tmp_path):
    """The page of a trace with nested operators, a counter and two allocations."""

    def took(time, size, address, total):
        told = {"Bytes": size, "Addr": address, "Device Type": 0, "Total Allocated": total}
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": time, "args": told}

    def ran(name, start, lasts):
        return {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 2,
            "ts": start,
            "dur": lasts,
        }

    given = [
        ran("aten::linear", 0, 100), ran("aten::t", 10, 20), ran("aten::addmm", 40, 50),
        ran("c10d::barrier", 120, 10), took(50, 4096, 1, 4096), took(60, 1024, 2, 5120),
        took(95, -1024, 2, 4096),
        {"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": 30, "args": {"watts": 250}},
    ]  # fmt: skip
    info = {"rank": 0, "world_size": 1, "backend": "gloo"}
    trace = tmp_path / "rank0.json"
    trace.write_text(json.dumps({"traceEvents": given, "distributedInfo": info}))
    assert main(["report", str(trace), "-o", str(tmp_path / "memory.html")]) == 0
    return tmp_path / "memory.html"


def test_a_kernel_is_framed_with_its_call(open_page, trace):
    """A click on a kernel tells it and the call that launched it; the range is the timeline's."""
    tab = open_page(trace, "open=inside,timeline")
    own = "planguard.inside.own()"
    at = tab.evaluate(
        f"(() => {{ const o = {own}; let best = -1; o.kind.forEach((k, i) => {{ if (k === 4 &&"
        " (best < 0 || o.end[i] - o.start[i] > o.end[best] - o.start[best])) best = i; });"
        " planguard.plot.zoom(o.start[best] - 50, o.end[best] + 50);"
        " return [o.start[best], o.end[best], o.lane[best]]; })()"
    )
    shown = tab.evaluate("planguard.plot.range()")
    assert shown[0] < at[0] < at[1] < shown[1]
    canvas = tab.locator("#panel-inside canvas")
    canvas.scroll_into_view_if_needed()
    y = tab.evaluate(f"planguard.inside.rows().find((row) => row.lane === {at[2]}).y + 21")
    middle = ((at[0] + at[1]) / 2 - shown[0]) / (shown[1] - shown[0])
    canvas.click(position={"x": middle * canvas.bounding_box()["width"], "y": y})
    shows(tab, "inside", "launched by cudaLaunchKernel")
    canvas.press("]")
    until(tab, "document.querySelector('#panel-inside p.mono').innerText.includes('stream 7')")
    canvas.press("Home")
    assert tab.evaluate("planguard.state.range === undefined")
    canvas.press("Escape")
    until(tab, "document.querySelector('#panel-inside p.mono').innerText === ''")


def test_the_tables_of_the_inside_have_its_numbers(open_page, trace):
    """Idle time by reason, launches, sequences and the path, as they were computed."""
    tab = open_page(trace, "open=tables")
    rows = "[...document.querySelectorAll('#panel-tables tbody tr')].map((r) => r.innerText)"
    for name, text in (("idle", "12,855,007"), ("launches", "Memcpy HtoD"),
                       ("sequences", "aten::_convolution"), ("path inside", "a kernel runs"),
                       ("counters", "queue of device 0 stream 7"), ("slices", "aten::conv2d"),
                       ):  # fmt: skip
        tab.select_option("#table", name)
        until(tab, f"{rows}.some((row) => row.includes({text!r}))")
    assert "allocations" not in tab.locator("#table option").all_inner_texts()


def test_what_a_trace_does_not_have_is_not_shown(open_page, visit, memory):
    """No device: no path, no queue; nested operators, a counter and allocations are there."""
    tab = open_page(memory, "open=inside")
    names = tab.evaluate("planguard.inside.rows().map((row) => row.name)")
    assert [name.split(",")[0] for name in names] == [
        "thread 2", "allocated on the host", "power", "allocations on the host",
    ]  # fmt: skip
    assert tab.locator("#inside-path").count() == 0
    depths = tab.evaluate("[...planguard.inside.own().depth]")
    assert depths == [0, 1, 1, 0]
    tab.click("#panel-inside [data-table=allocations]")
    texts = tab.locator("#panel-tables tbody tr").all_inner_texts()
    assert [text.split("\t")[2] for text in texts] == ["4,096", "1,024"]
    assert all("aten::addmm" in text for text in texts)
    assert visit("mesh-3d.plan.json").locator("#panel-inside").count() == 0


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=lambda size: str(size[0]))
def test_the_inside_is_saved_and_fits(open_page, trace, size):
    """SVG and PNG with title, axis, names of lanes and legend; nothing is wider than the screen."""
    tab = open_page(trace, "open=inside", viewport={"width": size[0], "height": size[1]})
    said = words(saved(tab, "inside", "SVG"))
    for word in ("alexnet", "threads, streams", "rank 0", "stream 7", " s", "kernel"):
        assert word in said
    assert png_size(saved(tab, "inside", "PNG"))[0] > 300
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_critical_path_is_drawn_and_listed(visit):
    """The number leads to the timeline with the path on; the table adds up to the whole run."""
    tab = visit("1f1b", "open=timeline,tables")
    assert not tab.locator("text=what the end waits for").first.is_visible()
    tab.locator("#numbers button", has_text="critical path").click()
    until(tab, "planguard.state.path === 'on'")
    assert tab.locator("#toggle-path").get_attribute("aria-pressed") == "true"
    assert tab.locator("text=what the end waits for").first.is_visible()
    pieces = tab.evaluate("planguard.time.path.map((p) => [p.start, p.end])")
    assert pieces[0][0] == 0
    assert pieces[-1][1] == pytest.approx(tab.evaluate("planguard.time.last"), rel=1e-6)
    tab.select_option("#table", "critical path")
    until(tab, "document.querySelectorAll('#panel-tables tbody tr').length > 2")
    shares = [
        float(row.locator("td").nth(5).inner_text().rstrip("%"))
        for row in tab.locator("#panel-tables tbody tr").all()
    ]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    stuck = visit("head-to-head.plan.json", "open=timeline,tables")
    assert stuck.locator("#toggle-path").count() == 0
