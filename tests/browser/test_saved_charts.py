"""Every chart of a page as a file: SVG and PNG with a title, axes, a scale and a legend."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET

import pytest
from driving import ALL

SPACE = "{http://www.w3.org/2000/svg}"
SAYS = {
    "timeline": ("rank 0", "ms", "compute, forward"),
    "steps": ("time of a device", "mean communication cost", "rank 0"),
    "devices": ("time of a device", "communication, waiting", "rank"),
    "matrix-bytes": ("sender", "receiver"),
    "matrix-counts": ("sender", "receiver", "no traffic"),
    "strategy": ("rank 0", "the order of execution", "communication", "edge: "),
    "topology": ("line width: bytes, at most", "largest node", "0"),
    "links": ("source", "target", "bytes", "full at"),
}
"""Charts of a pipeline, and words of their axes, scales and legends."""
OTHERS = {
    "steps": ("step tail", "line: communication"),
    "devices": ("dashed black line",),
    "topology": ("duration", "bandwidth"),
}
"""Words of legends of charts beside them."""


def saved(tab, chart, kind):
    """The file that a button of a chart saves.

    A page that is still being drawn may move the button away below the pointer: it is clicked again
    then, as a person would.
    """
    from playwright.sync_api import TimeoutError as PlaywrightTimeout  # may be missing

    for wait in (10_000, 20_000, 60_000):
        try:
            with tab.expect_download(timeout=wait) as found:
                tab.click(f'.save[data-chart="{chart}"] button:has-text("{kind}")')
            break
        except PlaywrightTimeout:
            if wait == 60_000:
                raise
    assert found.value.suggested_filename.endswith(f"-{chart}.{kind.lower()}")
    return found.value.path().read_bytes()


def words(svg):
    """All texts of a picture, in one."""
    root = ET.fromstring(svg)  # noqa: S314 - made by the page under test
    return " | ".join("".join(one.itertext()) for one in root.iter(f"{SPACE}text"))


def png_size(data):
    """Width and height of a PNG, pixels."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def test_every_chart_of_a_pipeline_is_saved(visit):
    """Both forms of all eight, each with its title and words, and no legend of another chart; the
    PNG is as wide as the SVG.
    """
    tab = visit("pipelining/interleaved1f1b-4x8.csv", ALL)
    charts = [one.get_attribute("data-chart") for one in tab.query_selector_all(".save")]
    assert set(charts) == SAYS.keys()
    for chart, wanted in SAYS.items():
        svg = saved(tab, chart, "SVG")
        said = words(svg)
        for word in ("interleaved1f1b-4x8", "4 ranks", *wanted):
            assert word in said, (chart, word, said)
        assert [word for word in OTHERS.get(chart, ()) if word in said] == [], chart
        wide, tall = png_size(saved(tab, chart, "PNG"))
        root = ET.fromstring(svg)  # noqa: S314 - made by the page under test
        scale = wide / float(root.get("width"))
        assert scale >= 1
        assert abs(tall - float(root.get("height")) * scale) <= 1
        outside = [
            one
            for one in root.iter(f"{SPACE}text")
            if one.get("transform") is None and float(one.get("y")) > float(root.get("height"))
        ]
        assert outside == [], chart


@pytest.mark.parametrize("name", ["head-to-head.plan.json"])
def test_a_wait_for_graph_and_the_repaired_plan_are_saved(visit, name):
    """The circle with its ranks; the timelines before and after, each with an axis of time."""
    tab = visit(name, ALL)
    said = words(saved(tab, "waits", "SVG"))
    assert "rank 0" in said
    assert "rank 1" in said
    assert "waits" in said
    assert png_size(saved(tab, "waits", "PNG"))[0] > 300
    for chart in ("as-planned", "repaired"):
        assert "us" in words(saved(tab, chart, "SVG"))


def test_a_hostile_name_stays_text(visit):
    """Names of a plan are text in an SVG, and no part of the file's name but letters and digits."""
    tab = visit("hostile", ALL)
    for chart in {one.get_attribute("data-chart") for one in tab.query_selector_all(".save")}:
        root = ET.fromstring(saved(tab, chart, "SVG"))  # noqa: S314 - same
        assert {one.tag for one in root.iter()} <= {
            f"{SPACE}{tag}"
            for tag in (
                "svg", "title", "defs", "g", "rect", "path", "text", "pattern", "clipPath",
                "radialGradient", "stop",
            )
        }  # fmt: skip


def test_a_chart_looks_the_same_behind_its_saving(visit):
    """Drawing on another sheet leaves the chart's own canvas as it is."""
    tab = visit("pipelining/interleaved1f1b-4x8.csv", ALL)
    shot = "document.querySelector('#panel-timeline canvas').toDataURL()"
    before = tab.evaluate(shot)
    saved(tab, "timeline", "SVG")
    saved(tab, "timeline", "PNG")
    assert tab.evaluate(shot) == before


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
    unified, zero_copy = (
        words(saved(tab, f"{memory}-memory", "SVG")).split(" | ")
        for memory in ("unified", "zero-copy")
    )
    assert {"3.00 MiB", "H", "0", "received", "transmitted", "bytes"} <= set(unified)
    assert {"1.00 MiB", "0", "1"} <= set(zero_copy)
    assert "H" not in zero_copy
