"""The adapter: programs of XLA in, one plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.files.heads import HEAD, head_of

from ..common.reading import starts_with_schema
from .alike import alike
from .collectives import Translator
from .emit import emit
from .mpmd import bundle_doubts, read_bundle, trace_bundle
from .options import XlaOptions, read_options
from .programs import MPMD, Program, is_program_set, program_doubts, read_programs
from .reach import Reach
from .reading import looks_like_shardy, text_of
from .shardy import read_shardy
from .walk import Walker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .mpmd import Bundle
    from .steps import Doubt, Trace

_TOOL = "XLA"


class XlaAdapter:
    """Reads HLO, StableHLO and Shardy's MPMD text, and what jax's ``lower`` and ``compile`` return.

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
                manifest ``planguard.xla/1`` or ``planguard.mpmd/1``.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``XlaOptions``.

        Raises:
            PlanError: A program is malformed; the message names its file and line.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        bundle = _bundle(obj)
        if bundle is not None:
            return _adapt_bundle(*bundle, builder, settings)
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
        doubts = program_doubts([p.module for p in programs], apart=len(programs) > 1)
        return emit(
            traces,
            files,
            plan,
            settings,
            doubts,
            families=None if same is None else same.families,
        )


def _bundle(obj: object) -> tuple[Bundle, list[Doubt]] | None:
    """Return programs with an order for each device, and what is open; None for other inputs."""
    if isinstance(obj, str | Path) and starts_with_schema(obj, MPMD):
        return read_bundle(Path(obj)), []
    if isinstance(obj, str | Path | bytes | bytearray):
        head = bytes(obj[:HEAD]) if isinstance(obj, bytes | bytearray) else head_of(obj)
        if looks_like_shardy(head):
            return read_shardy(*text_of(obj))
    return None


def _adapt_bundle(
    bundle: Bundle, doubts: list[Doubt], builder: type[PlanBuilder], settings: XlaOptions
) -> Plan:
    traces = trace_bundle(bundle, settings)
    plan = builder(
        len(traces), name=settings.name or bundle.name, model=settings.model, producer=_TOOL
    )
    return emit(traces, bundle.files, plan, settings, doubts + bundle_doubts(bundle))


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


adapter = XlaAdapter()
"""The instance behind the entry point ``xla``."""
