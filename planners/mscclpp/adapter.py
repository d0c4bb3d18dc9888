"""The adapter: an execution plan of MSCCL++ in, one plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.files.heads import head_of

from .emit import emit
from .options import read_options
from .reading import read_program

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

_WORDS = (b'"collective"', b'"gpus"', b'"threadblocks"')
_ONE_OF = (b'"input_chunks"', b'"inputChunks"', b'"protocol"')


class MscclppAdapter:
    """Reads the JSON of MSCCL++.

    Attributes:
        name: ``mscclpp``.
    """

    name = "mscclpp"

    def sniff(self, obj: object) -> bool:
        """Recognize an execution plan: a path, or the parsed object."""
        if isinstance(obj, dict):
            return isinstance(obj.get("gpus"), list) and "collective" in obj and "protocol" in obj
        if isinstance(obj, str | Path):
            head = head_of(obj)
            return all(word in head for word in _WORDS) and any(one in head for one in _ONE_OF)
        return False

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn an execution plan into a plan.

        Args:
            obj: The path of a JSON file, gzipped or not, or the parsed object.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``MscclppOptions``.

        Raises:
            PlanError: The execution plan is malformed; the message has the JSON path.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        return emit(read_program(obj, settings), settings, builder)


adapter = MscclppAdapter()
"""The instance behind the entry point ``mscclpp``."""
