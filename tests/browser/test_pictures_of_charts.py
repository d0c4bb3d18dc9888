"""Every chart of the page saves itself as SVG and as PNG, with title, scales and legend."""

from __future__ import annotations

import struct
import zlib
from xml.etree import ElementTree as ET

import pytest
from driving import ALL

SVG = "{http://www.w3.org/2000/svg}"
PLANS = ("head-to-head.plan.json", "resnet50", "pangu", "1f1b", "hostile")


def saved(tab, button):
    """Press a button and return the file that the browser saves."""
    with tab.expect_download() as waiting:
        button.click()
    name = waiting.value.suggested_filename
    return name, waiting.value.path().read_bytes()


def parsed(data):
    """Return the root of an SVG that the page wrote."""
    return ET.fromstring(data)  # noqa: S314 - the file is the page's own


def colors_of(png):
    """Return size and the number of different bytes of pixels of a PNG that Chromium wrote."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        packed += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return struct.unpack(">II", png[16:24]), len(set(zlib.decompress(packed)))


@pytest.mark.parametrize("name", PLANS)
def test_every_chart_is_saved_as_svg_and_png(visit, name):
    """Each visible chart has both buttons; the SVG is well formed, without scripts and addresses,
    with a title, texts of axes or scales and several colors; the PNG is twice as large, not blank.
    """
    tab = visit(name, ALL)
    tab.wait_for_timeout(300)
    rows = [row for row in tab.query_selector_all(".save") if row.is_visible()]
    charts = tab.evaluate(
        """() => [...document.querySelectorAll('.body canvas, .body svg')].filter((one) =>
        one.offsetParent !== null || one.tagName === 'svg').filter((one) => one.getAttribute('role')
        && one.getAttribute('aria-hidden') !== 'true' && one.getBoundingClientRect().height > 12)
        .length"""
    )
    assert len(rows) == charts >= 4
    for row in rows:
        file, data = saved(tab, row.query_selector("[data-save=svg]"))
        assert file.endswith(".svg")
        tree = parsed(data)
        texts = ["".join(one.itertext()) for one in tree.iter(f"{SVG}text")]
        title = tree.findtext(f"{SVG}title")
        assert title
        assert texts[0].split()[0] == title.split()[0]
        assert len(texts) > 4, title
        assert not list(tree.iter(f"{SVG}script"))
        inks = {one.get("fill") for one in tree.iter()} | {one.get("stroke") for one in tree.iter()}
        assert len(inks - {None, "none"}) > 3, title
        used = {ink[5:-1] for ink in inks if ink and ink.startswith("url(")}
        assert used <= {one.get("id") for one in tree.iter()}
        values = [v for one in tree.iter() for v in one.attrib.values()]
        assert not any("NaN" in v or "Infinity" in v or "undefined" in v for v in values), title
        file, png = saved(tab, row.query_selector("[data-save=png]"))
        assert file.endswith(".png")
        (width, height), many = colors_of(png)
        assert (width, height) == (2 * int(tree.get("width")), 2 * int(tree.get("height")))
        assert many > 8, title


def test_a_matrix_says_its_scale_axes_and_legend(visit):
    """Bytes of a matrix: ranks on both axes, sender and receiver, the kind of scale, no traffic."""
    tab = visit("resnet50", "open=matrices&scale=linear")
    row = tab.query_selector("#panel-matrices .save")
    _, data = saved(tab, row.query_selector("[data-save=svg]"))
    said = " ".join("".join(one.itertext()) for one in parsed(data).iter(f"{SVG}text"))
    for word in ("sender", "receiver", "linear scale", "no traffic", "MiB", "stays on the device"):
        assert word in said
    tab.click("#scale")
    tab.wait_for_timeout(100)
    _, data = saved(tab, row.query_selector("[data-save=svg]"))
    assert b"logarithmic" in data


def test_a_whole_timeline_is_saved_and_the_page_stays_as_it_was(visit):
    """All rows with names are in the file, also those that are scrolled away; the canvas of the
    page has the size that it had.
    """
    tab = visit("dense", "open=timeline")
    size = "[planguard.plot.canvas.width, planguard.plot.canvas.height]"
    before = tab.evaluate(size)
    _, data = saved(tab, tab.query_selector("#panel-timeline [data-save=svg]"))
    texts = {"".join(one.itertext()) for one in parsed(data).iter(f"{SVG}text")}
    assert {f"rank {rank}" for rank in range(16)} <= texts
    assert any(text.endswith((" us", " ms", " s")) for text in texts)
    assert tab.evaluate(size) == before


def test_hostile_names_stay_text_in_files(visit):
    """Tags in names are text in an SVG: nothing of it is an element that runs."""
    tab = visit("hostile", ALL)
    for row in tab.query_selector_all(".save"):
        if not row.is_visible():
            continue
        _, data = saved(tab, row.query_selector("[data-save=svg]"))
        tags = {one.tag.removeprefix(SVG) for one in parsed(data).iter()}
        assert tags <= {"svg", "title", "desc", "defs", "pattern", "radialGradient", "stop",
                        "path", "rect", "text"}  # fmt: skip


def test_unified_and_zero_copy_memory_have_bars(open_page, tmp_path):
    """What each device takes and gives by Unified Memory and by zero-copy stands in bars of its
    own, with bytes and devices on the axes; explicit copies have none.
    """
    import planguard

    builder = planguard.PlanBuilder(world_size=2)
    for rank in range(2):
        builder.program(rank).h2d(bytes=4096)
        builder.program(rank).barrier()
    builder.program(0).h2d(bytes=3 << 20, memory="unified")
    builder.program(1).d2d(peer=0, bytes=1 << 20, memory="zero-copy")
    page = tmp_path / "page.html"
    planguard.check(builder.build()).report().save(page)
    tab = open_page(page, "open=matrices")
    assert tab.locator("canvas[data-memory]").count() == 2
    texts = []
    for memory in ("unified", "zero-copy"):
        button = tab.query_selector(f".chart:has(canvas[data-memory={memory}]) [data-save=svg]")
        _, data = saved(tab, button)
        texts.append({"".join(one.itertext()) for one in parsed(data).iter(f"{SVG}text")})
    assert {"3.00 MiB", "H", "0", "received", "transmitted", "bytes"} <= texts[0]
    assert {"1.00 MiB", "0", "1"} <= texts[1]
    assert "H" not in texts[1]
