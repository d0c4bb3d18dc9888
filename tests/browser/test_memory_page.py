"""Memory snapshots in a real browser: what is drawn is what the allocator booked."""

from __future__ import annotations

import pickle

import pytest
from driving import shows, until
from memory_cases import MIB, played
from test_for_everybody import UNNAMED, WIDER
from test_saved_charts import png_size, saved, words

from planguard.cli import main

OUT = 110 * MIB


@pytest.fixture(scope="module")
def made():
    """Two ranks: one that fits, and one that is out of memory."""
    return [played(20, 400, 400 * MIB), played(21, 600, OUT)]


@pytest.fixture(scope="module")
def both(made, tmp_path_factory):
    """The page of both snapshots, the second with the end of its history only."""
    folder = tmp_path_factory.mktemp("memory")
    documents = made[0].snapshot(), made[1].snapshot(500)
    for rank, document in enumerate(documents):
        (folder / f"rank{rank}.pickle").write_bytes(pickle.dumps(document))
    page = folder / "memory.html"
    files = [str(folder / f"rank{rank}.pickle") for rank in (0, 1)]
    assert main(["report", *files, "-o", str(page)]) == 0
    return page


INK = "[...document.querySelectorAll('#panel-memory canvas')].every((c) => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 12)"  # noqa: E501


def test_what_the_page_adds_up_is_what_was_booked(open_page, both, made):
    """Bytes in use and reserved of every entry, and what was alive at some, in the browser."""
    tab = open_page(both)
    for rank, (one, kept) in enumerate(zip(made, (len(made[0].trace), 500), strict=True)):
        assert tab.evaluate(f"planguard.used({rank})")[1:] == one.used[-kept:]
        assert tab.evaluate(f"planguard.reserved({rank})")[1:] == one.reserved[-kept:]
        for at in (0, kept // 3, kept - 1):
            found = tab.evaluate(f"planguard.alive({rank}, {at + 1})")
            truth = [size for size, _ in one.states[len(one.trace) - kept + at].values()]
            assert sorted(size for size, _ in found) == sorted(truth)


def test_segments_at_a_moment_are_those_that_were_held(open_page, both, made):
    """Taken back from the end entry by entry, with the blocks that were in each of them."""
    tab = open_page(both)
    for rank, (one, kept) in enumerate(zip(made, (len(made[0].trace), 500), strict=True)):
        for at in range(0, kept, 37):
            found = tab.evaluate(f"planguard.segments({rank}, {at + 1})")
            place = len(one.trace) - kept + at
            assert {address: size for address, size, _ in found} == one.held[place]
            blocks = sorted(address for _, _, own in found for address in own)
            assert blocks == sorted(one.states[place])


def test_stacks_at_a_moment_add_up(open_page, both, made):
    """The tree of stacks: every frame has the bytes of what it called, the outermost is main."""
    tab = open_page(both)
    _, size, outer = tab.evaluate("planguard.stacks(0, 300)")
    assert size == made[0].used[299]
    ((name, own, inner),) = outer
    assert (name, own) == ("/job/train.py:99 main", size)
    assert sum(one[1] for one in inner) == size
    canvas = tab.locator("#panel-stacks canvas")
    canvas.scroll_into_view_if_needed()
    canvas.click(position={"x": 30, "y": 40})
    canvas.press("Escape")
    tab.select_option("#when", "moment")
    shows(tab, "allocator", "blocks as they were asked for")


@pytest.mark.parametrize("width", [1440, 390])
def test_the_cause_is_on_the_first_screen_and_everything_fits(open_page, both, width):
    """Who was out of memory, what was asked for and by which line; nothing is too wide."""
    tab = open_page(both, viewport={"width": width, "height": 844})
    box = tab.locator("#cause").bounding_box()
    assert box["y"] + box["height"] < 844
    said = tab.inner_text("#cause")
    assert "out of memory" in said
    assert "were asked for and the device had" in said
    assert "job/model" in said
    until(tab, INK)
    assert tab.locator("#panel-memory canvas").count() == 2
    assert tab.evaluate(WIDER) == []
    assert tab.evaluate(UNNAMED) == []


def test_a_click_chooses_a_moment_and_the_address_keeps_it(open_page, both, made):
    """The peak of the other rank, its sites, their blocks and a stack; the link shows the same."""
    tab = open_page(both)
    peak = made[0].used.index(max(made[0].used)) + 1
    tab.select_option("#moment", f"0,{peak}")
    shows(tab, "alive", f"{max(made[0].used):,} B")
    tab.locator("#panel-alive tbody tr").first.click()
    shows(tab, "alive", "Blocks of job/model")
    tab.locator("#panel-alive tbody").nth(1).locator("tr").first.press("Enter")
    shows(tab, "alive", "/job/train.py:99 main")
    until(tab, "location.hash.includes('moment=') && location.hash.includes('stack=')")
    state = tab.evaluate("location.hash.slice(1)")
    again = open_page(both, state)
    shows(again, "alive", f"{max(made[0].used):,} B")
    shows(again, "alive", "/job/train.py:99 main")
    chart = again.locator("#panel-memory canvas").first
    chart.scroll_into_view_if_needed()
    chart.press("[")
    shows(again, "alive", f"after entry {peak - 1:,} of")
    chart.press("+")
    until(again, "planguard.state.range !== undefined")
    chart.press("Home")
    again.select_option("#stacked", "block")
    again.select_option("#axis", "time")
    until(again, INK)
    box = chart.bounding_box()
    again.mouse.click(box["x"] + box["width"] / 2, box["y"] + 100)
    until(again, f"planguard.state.moment[1] !== {peak - 1}")


def test_a_dark_page_is_printed_on_white(open_page, both):
    """In either theme paper is white, charts are redrawn and controls are left out."""
    tab = open_page(both, color_scheme="dark")
    until(tab, INK)
    tab.emulate_media(media="print")
    until(tab, "getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
    corner = "(() => { const c = document.querySelector('#panel-memory canvas'); return [...c.getContext('2d').getImageData(4, 40, 1, 1).data].slice(0, 3).reduce((a, b) => a + b); })()"  # noqa: E501
    until(tab, f"{corner} > 600")
    assert not any(one.is_visible() for one in tab.locator(".bar select").all())
    assert tab.pdf().startswith(b"%PDF")


def test_a_chart_is_saved_as_it_is_seen(open_page, both):
    """As SVG with its title, axis and legend, and as PNG."""
    tab = open_page(both)
    until(tab, INK)
    said = words(saved(tab, "memory-rank1", "SVG"))
    for word in ("memory of rank1", "entry ", "OOM", "job/model", "dashed: reserved"):
        assert word in said
    assert "segments of rank0" in words(saved(tab, "segments-rank0", "SVG"))
    assert min(png_size(saved(tab, "memory-rank0", "PNG"))) > 300


def test_names_of_a_hostile_snapshot_stay_text(open_page, tmp_path, monkeypatch):
    """Markup in functions and files is text on the page."""
    monkeypatch.chdir(tmp_path)
    one = played(3, 40)
    evil = "</script><img src=x onerror=globalThis.pwned=1>"
    for entry in one.trace:
        entry["frames"] = [{"name": evil, "filename": f"/a/{evil}.py", "line": 1}]
    name = "<b>x<b>.pickle"
    (tmp_path / name).write_bytes(pickle.dumps(one.snapshot()))
    assert main(["report", name, "-o", "out.html"]) == 0
    tab = open_page(tmp_path / "out.html")
    assert f"from {evil[:40]}" in tab.inner_text("#cause")
    assert evil in tab.evaluate("planguard.data.names.join()")
    assert tab.evaluate("globalThis.pwned") is None
    assert tab.inner_text("h1") == name


def test_an_end_without_a_history_is_drawn(open_page, tmp_path):
    """A snapshot of segments alone: no chart over time, and the page says why."""
    one = played(5, 120)
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(one.segments))
    out = tmp_path / "s.html"
    assert main(["report", str(tmp_path / "s.pickle"), "-o", str(out)]) == 0
    tab = open_page(out)
    assert tab.locator("#panel-memory").count() == 0
    shows(tab, "alive", f"{one.used[-1]:,} B")
    assert "no history was recorded" in tab.inner_text("body")


def test_parts_of_an_expandable_segment_are_taken_back(open_page, tmp_path):
    """Mapped in two steps, a hole unmapped: at every moment the ranges that were mapped."""
    base, two = 0x70_0000_0000, 2 * MIB

    def entry(action, at, size):
        return {"action": action, "addr": base + at, "size": size, "stream": 0, "frames": []}

    trace = [entry("segment_map", 0, 2 * two), entry("segment_map", 2 * two, 2 * two),
             entry("segment_unmap", 2 * two, two)]  # fmt: skip
    segments = [{"device": 0, "address": base + at, "total_size": size, "stream": 0,
                 "is_expandable": True,
                 "blocks": [{"size": size, "requested_size": 0, "state": "inactive"}]}
                for at, size in ((0, 2 * two), (3 * two, two))]  # fmt: skip
    document = {"segments": segments, "device_traces": [trace]}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(document))
    assert main(["report", str(tmp_path / "s.pickle"), "-o", str(tmp_path / "s.html")]) == 0
    tab = open_page(tmp_path / "s.html")
    assert tab.evaluate("planguard.reserved(0)") == [0, 2 * two, 4 * two, 3 * two]
    found = [tab.evaluate(f"planguard.segments(0, {state})") for state in range(4)]
    assert found[0] == []
    assert found[1] == [[base, 2 * two, []]]
    assert sorted(found[2]) in (
        [[base, 4 * two, []]],
        [[base, 2 * two, []], [base + 2 * two, 2 * two, []]],
    )
    assert sorted(found[3]) == [[base, 2 * two, []], [base + 3 * two, two, []]]
