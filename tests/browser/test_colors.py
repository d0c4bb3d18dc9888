"""What stands in one chart is told apart by everybody, also without receptors for red or green.

Colors as the page paints them; distances in CAM02-UCS, where one step is just seen; missing
receptors after Machado, Oliveira and Fernandes (IEEE TVCG 15(6), 2009), at their full strength.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from driving import ALL

colorspacious = pytest.importorskip("colorspacious")

ASSETS = Path(__file__).resolve().parents[2] / "planguard/report/page/assets"
KINDS = ("forward", "backward", "weight", "other", "collective", "send", "recv", "wait", "copy")
SIGHTS = (None, "deuteranomaly", "protanomaly")
LEAST = 18.0
CONTRAST = 3.0
"""Of what is drawn on dark paper, by WCAG 2.2, 1.4.11."""


def rgb(text):
    """The parts of ``#rrggbb`` or ``rgb(r, g, b)``, each from 0 to 1."""
    if text.startswith("#"):
        return [int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [int(part) / 255 for part in re.findall(r"\d+", text)[:3]]


def seen(color, sight):
    """A color as someone without one kind of receptor sees it."""
    if sight is None:
        return rgb(color)
    space = {"name": "sRGB1+CVD", "cvd_type": sight, "severity": 100}
    return colorspacious.cspace_convert(rgb(color), space, "sRGB1").clip(0, 1)


def nearest(colors):
    """The smallest distance between two of some colors, for all three, and who they are."""
    return min(
        (colorspacious.deltaE(seen(one, s), seen(other, s), input_space="sRGB1"), s, one, other)
        for s in SIGHTS
        for one, other in itertools.combinations(colors, 2)
    )


def luminance(color):
    """The relative luminance of WCAG 2.2."""
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in rgb(color)]
    return sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one, other):
    """The contrast of two colors by WCAG 2.2, at least 1."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def painted(tab):
    """The colors of all kinds, as an element of each is painted."""
    return {
        kind: tab.evaluate(
            "(kind) => { const one = document.body.appendChild(document.createElement('i'));"
            " one.style.background = `var(--${kind})`;"
            " const found = getComputedStyle(one).backgroundColor; one.remove(); return found; }",
            kind,
        )
        for kind in KINDS
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_kinds_are_told_apart(visit, theme):
    """Every pair of kinds, and each kind and the paper; the text on a box is read."""
    tab = visit("pipelining/interleaved1f1b-4x8.csv", f"theme={theme}")
    colors = painted(tab)
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    distance, *who = nearest([*colors.values(), paper])
    assert distance >= (LEAST if theme == "dark" else 12.0), who
    assert nearest(colors.values())[0] >= LEAST, nearest(colors.values())
    if theme == "dark":
        assert min(contrast(one, paper) for one in colors.values()) >= CONTRAST
    inks = tab.evaluate("planguard.inks")
    for kind, color in colors.items():
        assert contrast(inks[kind], color) >= 4.5, kind


def test_these_are_the_colors_of_the_timeline(visit):
    """The boxes that are drawn have them: of four kinds a pixel each at the least."""
    tab = visit("pipelining/interleaved1f1b-4x8.csv", f"{ALL}&view=gantt&theme=light")
    pixels = set(
        tab.evaluate(
            "[...new Set([...document.querySelectorAll('#panel-timeline canvas')].flatMap("
            "(one) => {"
            " const data = one.getContext('2d').getImageData(0, 0, one.width, one.height).data;"
            " const found = new Set();"
            " for (let i = 0; i < data.length; i += 4)"
            "   found.add(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]);"
            " return [...found]; }))]"
        )
    )
    colors = painted(tab)
    for kind in ("forward", "backward", "send", "recv"):
        red, green, blue = (round(part * 255) for part in rgb(colors[kind]))
        assert red * 65536 + green * 256 + blue in pixels, kind


@pytest.mark.parametrize(
    ("file", "name"), [("strategy.js", "SPACE_COLORS"), ("topology.js", "LINK_COLORS")]
)
def test_colors_of_namespaces_and_links_are_told_apart(file, name):
    """The lists that a chart goes through."""
    text = (ASSETS / file).read_text(encoding="utf-8")
    found = re.search(rf"const {name} = \[(.*?)\]", text)
    assert found is not None
    assert nearest(re.findall(r"#[0-9a-f]{6}", found[1]))[0] >= LEAST
