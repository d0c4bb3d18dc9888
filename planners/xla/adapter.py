"""The adapter: programs of XLA in, one plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .alike import alike
from .collectives import Translator
from .emit import emit
from .options import XlaOptions, read_options
from .programs import Program, is_program_set, read_programs
from .reach import Reach
from .steps import Doubt, Trace
from .walk import Walker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

_TOOL = "XLA"


class XlaAdapter:
    """Reads HLO text, StableHLO text, and what jax's ``lower`` and ``compile`` return.

    Attributes:
        name: ``xla``.
    """

    name = "xla"

    def sniff(self, obj: object) -> bool:
        """Recognize a program, a manifest of programs, or a map from ranks to programs."""
        return is_program_set(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn programs into a plan.

        Args:
            obj: A path, bytes, an object of jax, ``{"0-3": path, "4-7": path}``, or the path of a
                manifest ``planguard.xla/1``.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``XlaOptions``.

        Raises:
            PlanError: A program is malformed; the message names its file and line.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        programs, world = read_programs(obj)
        translators = _translators(programs)
        same = alike(programs, settings, translators[0])
        if same is None:
            traces = trace_programs(programs, settings, translators)
        else:
            traces = {0: same.trace}
        plan = builder(
            world,
            mesh=None if same is None else same.mesh,
            name=settings.name or programs[0].module.name or Path(programs[0].module.file).stem,
            model=settings.model,
            producer=_TOOL,
        )
        files = [program.module.file for program in programs]
        return emit(
            traces,
            files,
            plan,
            settings,
            _doubts(programs),
            families=None if same is None else same.families,
        )


def trace_programs(
    programs: Sequence[Program],
    options: XlaOptions,
    translators: Sequence[Translator] | None = None,
) -> dict[int, Trace]:
    """Walk every program for every rank that runs it.

    Args:
        programs: The programs, and where each runs.
        options: Options of the adapter.
        translators: One for each program, where there are some already.

    Raises:
        PlanError: A communicating instruction is malformed.
    """
    traces = {}
    for program, translator in zip(programs, translators or _translators(programs), strict=True):
        reach = Reach(program.module, options)
        for device, rank in enumerate(program.devices):
            if rank in program.ranks:
                traces[rank] = Walker(translator, reach, options, device).run()
    return traces


def _translators(programs: Sequence[Program]) -> list[Translator]:
    return [
        Translator(program.module, number, program.devices)
        for number, program in enumerate(programs)
    ]


def _doubts(programs: Sequence[Program]) -> list[Doubt]:
    doubts = []
    loose = [program.module for program in programs if not program.module.scheduled]
    if loose and len(programs) > 1:
        message = (
            f"{loose[0].file} is not scheduled: the order of the text may not be the order run"
        )
        doubts.append(Doubt("not-scheduled", message))
    elif loose:
        message = "not scheduled: every device is taken to run the order of the text, or one other"
        doubts.append(Doubt("not-scheduled", message, "exact"))
    return doubts + [
        Doubt("not-partitioned", program.module.sharded)
        for program in programs
        if program.module.sharded
    ]


adapter = XlaAdapter()
"""The instance behind the entry point ``xla``."""
