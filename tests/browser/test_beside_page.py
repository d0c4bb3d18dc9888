"""Two plans beside each other in a real browser."""

from __future__ import annotations

import json

import cases
import pytest
from driving import until

from planguard.cli import main


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The page of GPipe beside 1F1B: equal bytes, another order."""
    folder = tmp_path_factory.mktemp("beside")
    for kind in ("gpipe", "1f1b"):
        (folder / f"{kind}.json").write_text(json.dumps(cases.pipeline(kind)))
    page = folder / "both.html"
    assert (
        main(["report", str(folder / "gpipe.json"), str(folder / "1f1b.json"), "-o", str(page)])
        == 0
    )
    return page


@pytest.mark.parametrize("width", [1440, 390])
def test_both_plans_are_drawn_on_one_scale(open_page, both, width):
    """Sentence, two timelines with ink, and moved calls stand there; the page is not too wide."""
    tab = open_page(both, viewport={"width": width, "height": 900})
    assert "the same bytes move" in tab.inner_text("#difference")
    until(tab, "document.querySelectorAll('#panel-times canvas').length === 2")
    ink = "[...document.querySelectorAll('#panel-times canvas')].every((c) => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size > 8)"  # noqa: E501
    until(tab, ink)
    assert tab.locator("#panel-order tr[data-kind=moved]").count() > 0
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    heads = [head.inner_text() for head in tab.locator("h2").all()]
    assert [text.splitlines()[0] for text in heads[1:]] == ["Numbers", "Times", "Bytes", "Order"]


def test_a_phone_does_not_break_words_in_tables(open_page, both):
    """At 390 px a cell of one word is one line: the table scrolls instead."""
    tab = open_page(both, viewport={"width": 390, "height": 844})
    lines = "(() => { const range = document.createRange(); range.selectNodeContents(document.querySelector('#panel-numbers td')); return range.getClientRects().length; })()"  # noqa: E501
    assert tab.inner_text("#panel-numbers td >> nth=0") == "verdict"
    assert tab.evaluate(lines) == 1


def test_a_dark_page_is_printed_on_white(open_page, both):
    """Under a dark system theme the paper and the ink of a print are those of the light theme."""
    tab = open_page(both, color_scheme="dark")
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.emulate_media(media="print")
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    assert sum(int(part) for part in light.strip("rgb()").split(",")) > 700
    corner = "(() => { const c = document.querySelector('#panel-times canvas'); return [...c.getContext('2d').getImageData(c.width - 12, 4, 1, 1).data].slice(0, 3).reduce((a, b) => a + b); })()"  # noqa: E501
    until(tab, f"{corner} > 600")
