"""The adapter: an algorithm of MSCCL in, one plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.files.heads import head_of

from .emit import emit
from .options import read_options
from .reading import load

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan


def _begins(text: bytes) -> bool:
    """Tell whether XML begins with ``<algo``, behind a declaration and comments; linear in it."""
    place = len(text) - len(text.lstrip())
    for opening, closing in ((b"<?xml", b"?>"), (b"<!--", b"-->")):
        while text.startswith(opening, place):
            end = text.find(closing, place + len(opening))
            if end < 0:
                return False
            place = end + len(closing)
            while text[place : place + 1] in (b" ", b"\t", b"\r", b"\n"):
                place += 1
    return text.startswith(b"<algo", place) and text[place + 5 : place + 6].isspace()


class MscclAdapter:
    """Reads the XML of MSCCL.

    Attributes:
        name: ``msccl``.
    """

    name = "msccl"

    def sniff(self, obj: object) -> bool:
        """Recognize an algorithm: a path or bytes that begin with ``<algo``."""
        if isinstance(obj, bytes | bytearray):
            head = bytes(obj[: 1 << 16])
        elif isinstance(obj, str | Path):
            head = head_of(obj)
        else:
            return False
        return _begins(head.removeprefix(b"\xef\xbb\xbf"))

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn an algorithm into a plan.

        Args:
            obj: The path of an XML file, gzipped or not, or its bytes.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``MscclOptions``.

        Raises:
            PlanError: The algorithm is malformed; the message has the line.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        return emit(load(obj), settings, builder)


adapter = MscclAdapter()
"""The instance behind the entry point ``msccl``."""
