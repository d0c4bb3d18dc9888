"""Rows that are pinned to the top, by mouse and by keyboard, kept in the address."""

from __future__ import annotations

import pytest
from driving import until

from planguard.cli import main

ROWS = (
    "planguard.plot.items().filter((item) => item.row !== undefined)"
    ".map((item) => planguard.time.head.ranks[item.row].rank)"
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory, root):
    """The page of a real trace of a GPU."""
    out = tmp_path_factory.mktemp("pins") / "gpu.html"
    file = root / "tests" / "corpus" / "traces" / "gpu" / "alexnet.json.gz"
    assert main(["report", str(file), "-o", str(out)]) == 0
    return out


def _pin(tab, key, panel="timeline"):
    return tab.locator(f'#panel-{panel} .pin[data-pin="{key}"]')


def test_ranks_are_pinned_moved_and_let_go(visit):
    """A click pins, arrow keys and dragging move, the same button lets go; the address keeps it."""
    tab = visit("dense", "open=timeline")
    assert tab.evaluate(ROWS)[:3] == [0, 1, 2]
    _pin(tab, 5).click()
    _pin(tab, 9).press("Enter")
    assert tab.evaluate(ROWS) == [5, 9, *(rank for rank in range(16) if rank not in (5, 9))]
    until(tab, "location.hash.includes('pins=5%2C9')")
    _pin(tab, 9).press("ArrowUp")
    assert tab.evaluate(ROWS)[:3] == [9, 5, 0]
    assert tab.evaluate("document.activeElement.dataset.pin") == "9"
    assert "place 1 of 2" in _pin(tab, 9).get_attribute("aria-label")
    box, other = _pin(tab, 9).bounding_box(), _pin(tab, 5).bounding_box()
    tab.mouse.move(box["x"] + 5, box["y"] + 5)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 5, other["y"] + 60, steps=4)
    tab.mouse.up()
    assert tab.evaluate(ROWS)[:3] == [5, 9, 0]
    _pin(tab, 5).click()
    _pin(tab, 9).click()
    assert tab.evaluate(ROWS) == list(range(16))
    until(tab, "!location.hash.includes('pins')")


def test_a_pinned_rank_stays_while_rows_scroll_and_is_hit_there(visit):
    """Below a scrolled frame the pinned row is the one that a spot at the top means."""
    tab = visit("dense", "open=timeline&pins=12")
    assert tab.evaluate(ROWS)[0] == 12
    tab.evaluate(
        "(() => { const frame = document.querySelector('.time'); frame.style.maxHeight = '300px';"
        " frame.scrollTop = 100; })()"
    )
    until(tab, "document.querySelector('.time').scrollTop > 0")
    found = tab.evaluate(
        "(() => { const item = planguard.plot.items()[0], top = document.querySelector('.time')"
        ".scrollTop; const i = planguard.plot.hit({ t: planguard.plot.end / 2, x: 500, width: 900,"
        " y: item.middle + top }); return planguard.time.row[i]; })()"
    )
    assert found == 12
    frame = tab.locator(".time").bounding_box()["y"]
    assert _pin(tab, 12).bounding_box()["y"] < frame + 80


def test_what_is_no_rank_is_not_pinned(visit):
    """A rank that is not there, one named twice, and a text: the address is not trusted."""
    tab = visit("dense", "open=timeline&pins=3,3,99")
    assert tab.evaluate(ROWS) == [3, *(rank for rank in range(16) if rank != 3)]
    tab = visit("dense", "open=timeline&pins=x&pinned=%25")
    assert tab.evaluate(ROWS) == list(range(16))
    tab.emulate_media(media="print")
    assert not _pin(tab, 0).is_visible()


def test_threads_streams_and_counters_are_pinned(open_page, trace):
    """Inside a rank a row goes to the top, and a page opened at the address has it there."""
    tab = open_page(trace, "open=inside")
    names = tab.evaluate("planguard.inside.rows().map((row) => row.title)")
    pins = tab.locator("#panel-inside .pin")
    assert pins.count() == len(names) > 2
    pins.nth(len(names) - 1).click()
    tab.locator("#panel-inside .pin").nth(2).press("Enter")
    now = tab.evaluate("planguard.inside.rows().map((row) => row.title)")
    assert now[:2] == [names[-1], names[1]]
    assert sorted(now) == sorted(names)
    ys = tab.evaluate("planguard.inside.rows().map((row) => row.y)")
    assert ys == sorted(ys)
    until(tab, "/pinned=[^&]*(,|%2C)/.test(location.hash)")  # both are there
    again = open_page(trace, tab.evaluate("location.hash.slice(1)"))
    assert again.evaluate("planguard.inside.rows().map((row) => row.title)") == now
