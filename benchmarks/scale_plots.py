"""Log-log pictures of benchmarks/scale.py as SVG: the same results give the same bytes."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50
# Okabe and Ito: told apart without color vision; dashes tell them apart without color.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
DASHES = ("", "6 3", "2 3", "9 3 2 3", "", "6 3", "2 3", "9 3 2 3")
COLUMN_BYTES, WORD_BYTES = 9, 4
LABELS = {
    "read": "read the text", "expand": "expand", "rounds": "rounds in order", "match": "match",
    "execute": "execute", "bags": "weak orders", "explain": "explain a deadlock",
    "check": "check, in all",
}  # fmt: skip
TITLES = {
    "fixed": "one fixed order",
    "free": "every order, no block mixes waits",
    "bags": "every order, blocks mix waits",
}
DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def power(exponent):
    """Write a power of ten."""
    sign = "⁻" if exponent < 0 else ""
    return "10" + sign + "".join(DIGITS[int(digit)] for digit in str(abs(exponent)))


class Picture:
    """One log-log picture; x and y ranges cover whole decades."""

    def __init__(self, title, x_name, y_name, series):
        self.title, self.x_name, self.y_name = title, x_name, y_name
        self.series = [(name, [p for p in points if p[1] > 0]) for name, points in series]
        xs = [x for _, points in self.series for x, _ in points]
        ys = [y for _, points in self.series for _, y in points]
        self.x = math.log10(min(xs)) - 0.05, math.log10(max(xs)) + 0.05
        self.y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))

    def across(self, x):
        low, high = self.x
        return LEFT + (math.log10(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def up(self, y):
        low, high = self.y
        return HEIGHT - BOTTOM - (math.log10(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def grid(self):
        """Lines and numbers of the decades."""
        floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for exponent in range(math.ceil(self.x[0]), math.floor(self.x[1]) + 1):
            x = self.across(10.0**exponent)
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{floor}" class="grid"/>'
            place = f'x="{x:.1f}" y="{floor + 16}" text-anchor="middle"'
            yield f"<text {place}>{power(exponent)}</text>"
        for exponent in range(self.y[0], self.y[1] + 1):
            y = self.up(10.0**exponent)
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{power(exponent)}</text>'

    def lines(self):
        """One line, with its points and its name, per series."""
        for number, (name, points) in enumerate(self.series):
            color, dash = COLORS[number % len(COLORS)], DASHES[number % len(DASHES)]
            path = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in points)
            style = f'stroke="{color}" stroke-dasharray="{dash}"'
            yield f'<polyline points="{path}" fill="none" stroke-width="2" {style}/>'
            for x, y in points:
                place = f'cx="{self.across(x):.1f}" cy="{self.up(y):.1f}"'
                yield f'<circle {place} r="2.5" fill="{color}"/>'
            left, top = WIDTH - RIGHT + 12, TOP + 10 + 20 * number
            ends = f'x1="{left}" y1="{top}" x2="{left + 24}" y2="{top}"'
            yield f'<line {ends} stroke-width="2" {style}/>'
            yield f'<text x="{left + 30}" y="{top + 4}">{escape(name)}</text>'

    def svg(self):
        """The picture as a document."""
        middle = (LEFT + WIDTH - RIGHT) / 2
        center = (TOP + HEIGHT - BOTTOM) / 2
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'font-family="sans-serif" font-size="12">'
        )
        below = f'x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle"'
        beside = f'x="16" y="{center:.0f}" text-anchor="middle"'
        parts = [
            head,
            f"<title>{escape(self.title)}</title>",
            "<style>.grid{stroke:#ddd;stroke-width:1}</style>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            f'<text x="{LEFT}" y="24" font-size="15">{escape(self.title)}</text>',
            *self.grid(),
            *self.lines(),
            f"<text {below}>{escape(self.x_name)}</text>",
            f'<text {beside} transform="rotate(-90 16 {center:.0f})">{escape(self.y_name)}</text>',
        ]
        return "\n".join([*parts, "</svg>\n"])


def limit(row, bandwidth):
    """Seconds to write and read once the columns and the words of a plan, one word an action."""
    return 2 * (COLUMN_BYTES + WORD_BYTES) * row["actions"] / bandwidth


def by_phase(rows, axis, bandwidth):
    """Series of seconds of every phase, and the limit of the memory."""
    phases = [phase for phase in LABELS if all(phase in row["seconds"] for row in rows)]
    found = [(LABELS[p], [(row[axis], row["seconds"][p]) for row in rows]) for p in phases]
    return [*found, ("limit: memory", [(row[axis], limit(row, bandwidth)) for row in rows])]


def draw(found):
    """Give every picture by name."""
    bandwidth, out = found["bandwidth"], {}
    for axis in ("actions", "ranks"):
        for form, rows in found[axis].items():
            series = by_phase(rows, axis, bandwidth)
            title = f"{TITLES[form]}: processor time over {axis}"
            out[f"{axis}-{form}"] = Picture(title, axis, "seconds", series).svg()
    series = [
        (form, [(row["actions"], row["bytes"]) for row in rows])
        for form, rows in found["actions"].items()
    ]
    out["memory"] = Picture(
        "peak memory of the process", "actions", "bytes an action", series
    ).svg()
    rows = [(row["window"], row["seconds"]) for row in found["windows"]]
    title = "pipeline of 3,500 to 4,000 actions, reordering within a window"
    out["windows"] = Picture(title, "window", "seconds", [("check", rows)]).svg()
    if found["trials"]:
        series = [("processor", [(row["trials"], row["seconds"]) for row in found["trials"]])]
        out["trials"] = Picture("planguard screen, one process", "trials", "seconds", series).svg()
    return out
