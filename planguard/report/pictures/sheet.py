"""A sheet of pixels to draw on, by Pillow: boxes, hatching, texts, in units of two pixels."""

from __future__ import annotations

import io
from typing import Any

from planguard.errors import MissingPackageError

Color = tuple[int, int, int]
_SCALE = 2
_INK: Color = (20, 23, 27)


class Sheet:
    """A white sheet.

    Args:
        width: In units of two pixels.
        height: Same.

    Raises:
        MissingPackageError: Pillow is not installed.
    """

    def __init__(self, width: float, height: float) -> None:
        try:
            from PIL import Image, ImageDraw
        except ImportError:
            raise MissingPackageError("PIL", "a PNG") from None
        shape = (round(width * _SCALE), round(height * _SCALE))
        self._image = Image.new("RGB", shape, (255, 255, 255))
        self._draw = ImageDraw.Draw(self._image)

    def box(self, x: float, y: float, width: float, height: float, ink: Color) -> None:
        """Fill a rectangle."""
        right, bottom = (x + width) * _SCALE - 1, (y + height) * _SCALE - 1
        self._draw.rectangle((x * _SCALE, y * _SCALE, right, bottom), fill=ink)

    def hatch(self, x: float, y: float, width: float, height: float) -> None:
        """Draw lines from lower left to upper right over a rectangle."""
        left, top, wide, tall = (round(value * _SCALE) for value in (x, y, width, height))
        for start in range(8, wide + tall, 8):
            low, high = max(0, start - tall + 1), min(wide - 1, start)
            ends = (left + low, top + start - low, left + high, top + start - high)
            self._draw.line(ends, fill=(68, 68, 68))

    def text(
        self,
        x: float,
        y: float,
        said: str,
        *,
        ink: Color = _INK,
        size: int = 11,
        anchor: str = "lm",
    ) -> None:
        """Write a line; ``anchor`` is Pillow's: left, middle or right, and middle of its height."""
        place = (x * _SCALE, y * _SCALE)
        self._draw.text(place, said, fill=ink, font=_font(size), anchor=anchor)

    def upright(self, x: float, y: float, said: str) -> None:
        """Write a line from below to above, its middle at a place."""
        from PIL import Image, ImageDraw

        _, _, wide, tall = self._draw.textbbox((0, 0), said, font=_font(11))
        line = Image.new("RGB", (round(wide) + 2, round(tall) + 2), (255, 255, 255))
        ImageDraw.Draw(line).text((0, 0), said, fill=_INK, font=_font(11))
        turned = line.transpose(Image.Transpose.ROTATE_90)
        place = (x * _SCALE - turned.width / 2, y * _SCALE - turned.height / 2)
        self._image.paste(turned, (round(place[0]), round(place[1])))

    def png(self) -> bytes:
        """Return the sheet as a file."""
        out = io.BytesIO()
        self._image.save(out, "PNG")
        return out.getvalue()


def _font(size: int) -> Any:
    """Return Pillow's own font, so that no font of a machine decides what a picture looks like."""
    from PIL import ImageFont

    return ImageFont.load_default(size * _SCALE)
