"""The adapter: the Chakra traces of all ranks in, one plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.files.heads import head_of

from .emit import emit
from .options import read_options
from .reading import files_of, read_workload

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan


class ChakraAdapter:
    """Reads workloads of Chakra execution traces.

    Attributes:
        name: ``chakra``.
    """

    name = "chakra"

    def sniff(self, obj: object) -> bool:
        """Recognize a folder of ``NAME.RANK.et`` or ``.json`` files, or one such file."""
        if not isinstance(obj, str | Path):
            return False
        try:
            found = files_of(Path(obj)) if Path(obj).exists() else {}
        except (OSError, ValueError):
            return False
        return any(
            kind == "et" or b'"workload_graph"' in head_of(next(iter(files.values())))
            for (_, kind), files in found.items()
        )

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a workload into a plan.

        Args:
            obj: The folder of the files of all ranks, or one of these files.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``ChakraOptions``.

        Raises:
            PlanError: A file is missing or malformed; the message names the node.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        return emit(read_workload(obj, settings.groups), settings, builder)


adapter = ChakraAdapter()
"""The instance behind the entry point ``chakra``."""
