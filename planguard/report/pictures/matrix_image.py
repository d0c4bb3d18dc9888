"""Communication matrices as SVG and PNG, the same bytes for the same matrix."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from planguard.simulate.patterns import patterns
from planguard.words import clean, size

if TYPE_CHECKING:
    from planguard.simulate.matrix import Matrix

# Viridis, five stops: readable without color vision and in gray.
_STOPS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_NONE = (238, 238, 238)
_LEFT, _TOP, _EDGE = 64, 72, 24
_SOFT = (85, 85, 85)


def color(share: float) -> tuple[int, int, int]:
    """Return the color of a value between 0 and 1."""
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    low = min(int(place), len(_STOPS) - 2)
    part = place - low
    pairs = zip(_STOPS[low], _STOPS[low + 1], strict=True)
    red, green, blue = (round(a + (b - a) * part) for a, b in pairs)
    return red, green, blue


def shares(numbers: Any, *, log: bool = True) -> Any:
    """Return where the values of a matrix lie on its scale, 0 to 1; -1: nothing.

    A log scale, the default, begins at the smallest value that is there, a linear one at 0: values
    that differ by a factor of four have colors of their own, however large they are.
    """
    import numpy as np

    least, most = _ends(numbers)
    moved = np.maximum(numbers.astype(float), 1.0)
    if not log:
        share = moved / max(most, 1)
    elif least == most:
        share = np.ones(numbers.shape)
    else:
        share = np.log(moved / least) / np.log(most / least)
    return np.where(numbers > 0, share, -1.0)


def _ends(numbers: Any) -> tuple[int, int]:
    """Return the smallest value above 0 and the largest; 0 where there is none."""
    moved = numbers[numbers > 0]
    return (int(moved.min()), int(moved.max())) if moved.size else (0, 0)


def matrix_svg(matrix: Matrix, *, counts: bool = False, log: bool = True) -> str:
    """Return a matrix as SVG, sender on x and receiver on y.

    Args:
        matrix: The matrix.
        counts: Draw messages instead of bytes.
        log: Logarithmic color scale.
    """
    numbers = matrix.counts if counts else matrix.bytes
    n = len(matrix.labels)
    cell = _cell(n)
    width, height = _LEFT + n * cell + _EDGE + 96, _TOP + n * cell + 48
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" role="img">'
        ),
        f"<title>{_text(_title(matrix, counts=counts))}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        (
            '<defs><pattern id="own" width="4" height="4" patternUnits="userSpaceOnUse">'
            '<path d="M0 4L4 0" stroke="#444" stroke-width="0.7"/></pattern></defs>'
        ),
        f'<text x="{_LEFT}" y="20" font-size="14">{_text(_title(matrix, counts=counts))}</text>',
        f'<text x="{_LEFT}" y="38" fill="#555">{_text(_subtitle(matrix))}</text>',
        (
            f'<text x="{_LEFT + n * cell / 2:g}" y="{_TOP + n * cell + 34}" text-anchor="middle">'
            "sender</text>"
        ),
        (
            f'<text transform="translate(14 {_TOP + n * cell / 2:g}) rotate(-90)" '
            'text-anchor="middle">receiver</text>'
        ),
    ]
    out += _cells(matrix, numbers, shares(numbers, log=log), cell)
    out += _axis(matrix.labels, cell, n)
    out += _legend(numbers, cell, n, counts=counts, log=log)
    return "\n".join([*out, "</svg>"]) + "\n"


def _title(matrix: Matrix, *, counts: bool) -> str:
    what = "messages" if counts else "bytes"
    return f"{matrix.title}: {what} between ranks"


def _subtitle(matrix: Matrix) -> str:
    named = ", ".join(p.name for p in patterns(matrix))
    return f"{matrix.algorithm}, {matrix.basis}" + (f"; {named}" if named else "")


def _cells(matrix: Matrix, numbers: Any, share: Any, cell: int) -> list[str]:
    out = []
    for src, sender in enumerate(matrix.labels):
        for dst, receiver in enumerate(matrix.labels):
            value = float(share[src, dst])
            red, green, blue = _NONE if value < 0 else color(value)
            x, y = _LEFT + src * cell, _TOP + dst * cell
            number = int(numbers[src, dst])
            said = f"{sender} to {receiver}: {number:,}"
            out.append(
                f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" '
                f'fill="#{red:02x}{green:02x}{blue:02x}"><title>{_text(said)}</title></rect>'
            )
            if src == dst and number:
                out.append(
                    f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" '
                    'fill="url(#own)"/>'
                )
    return out


def _axis(labels: tuple[str, ...], cell: int, n: int) -> list[str]:
    out = []
    for at in range(0, n, _every(cell, n)):
        middle = at * cell + cell / 2
        name = _text(labels[at])
        out.append(
            f'<text x="{_LEFT + middle:g}" y="{_TOP + n * cell + 14}" text-anchor="middle">'
            f"{name}</text>"
        )
        out.append(
            f'<text x="{_LEFT - 6}" y="{_TOP + middle + 4:g}" text-anchor="end">{name}</text>'
        )
    return out


def _legend(numbers: Any, cell: int, n: int, *, counts: bool, log: bool) -> list[str]:
    x, out = _LEFT + n * cell + _EDGE, []
    for y, (red, green, blue), said in _steps(numbers, counts=counts, log=log):
        out.append(
            f'<rect x="{x}" y="{y}" width="14" height="16" fill="#{red:02x}{green:02x}{blue:02x}"/>'
        )
        out.append(f'<text x="{x + 20}" y="{y + 12}">{_text(said)}</text>')
    return out


def _steps(numbers: Any, *, counts: bool, log: bool) -> list[tuple[int, tuple[int, int, int], str]]:
    """Return the legend: place from the top, color and words of each step, and of no traffic."""
    least, most = _ends(numbers)
    steps = 9 if most and not (log and least == most) else min(most, 1)
    out = []
    for step in range(steps):
        share = 1 - step / max(1, steps - 1)
        value = round(least * (most / least) ** share if log else most * share)
        out.append((_TOP + step * 16, color(share), f"{value:,}" if counts else size(value)))
    return [*out, (_TOP + steps * 16 + 4, _NONE, "no traffic")]


def _cell(n: int) -> int:
    return max(4, min(32, 640 // max(n, 1)))


def _every(cell: int, n: int) -> int:
    """Return which labels are written: every so many."""
    return max(1, math.ceil(14 / cell), math.ceil(n / 32))


def _text(text: str) -> str:
    return escape(clean(text), quote=True)


def matrix_png(matrix: Matrix, *, counts: bool = False, log: bool = True) -> bytes:
    """Return a matrix as PNG: what ``matrix_svg`` draws, two pixels for each of its units.

    Args:
        matrix: The matrix.
        counts: Draw messages instead of bytes.
        log: Logarithmic color scale.

    Raises:
        MissingPackageError: Pillow is not installed.
    """
    from planguard.report.pictures.sheet import Sheet

    numbers = matrix.counts if counts else matrix.bytes
    n = len(matrix.labels)
    cell = _cell(n)
    sheet = Sheet(_LEFT + n * cell + _EDGE + 96, _TOP + n * cell + 48)
    sheet.text(_LEFT, 16, clean(_title(matrix, counts=counts)), size=14)
    sheet.text(_LEFT, 34, clean(_subtitle(matrix)), ink=_SOFT)
    share = shares(numbers, log=log)
    for src in range(n):
        for dst in range(n):
            value, x, y = float(share[src, dst]), _LEFT + src * cell, _TOP + dst * cell
            sheet.box(x, y, cell - 1, cell - 1, _NONE if value < 0 else color(value))
            if src == dst and numbers[src, dst]:
                sheet.hatch(x, y, cell - 1, cell - 1)
    for at in range(0, n, _every(cell, n)):
        middle, name = at * cell + cell / 2, clean(matrix.labels[at])
        sheet.text(_LEFT + middle, _TOP + n * cell + 10, name, anchor="mm")
        sheet.text(_LEFT - 6, _TOP + middle, name, anchor="rm")
    sheet.text(_LEFT + n * cell / 2, _TOP + n * cell + 30, "sender", anchor="mm")
    sheet.upright(14, _TOP + n * cell / 2, "receiver")
    x = _LEFT + n * cell + _EDGE
    for y, ink, said in _steps(numbers, counts=counts, log=log):
        sheet.box(x, y, 14, 16, ink)
        sheet.text(x + 20, y + 8, said)
    return sheet.png()
