"""The adapter: a dump of Alpa's instruction lists in, one plan out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError
from planguard.files.heads import head_of

from ..xla.emit import emit
from ..xla.options import XlaOptions
from ..xla.steps import Doubt, Trace
from .dump import SCHEMA, read_dump
from .expand import HostExpander
from .options import AlpaOptions, read_options
from .stages import StageSteps

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .model import Dump


class AlpaAdapter:
    """Reads dumps ``planguard.alpa/1`` of Alpa's pipeline instructions.

    Attributes:
        name: ``alpa``.
    """

    name = "alpa"

    def sniff(self, obj: object) -> bool:
        """Recognize a dump: a path, or the parsed object."""
        if isinstance(obj, Mapping):
            return obj.get("schema") == SCHEMA or ("alpa" in obj and "instructions" in obj)
        if isinstance(obj, str | Path):
            head = head_of(obj)
            return f'"{SCHEMA}"'.encode() in head or all(
                word in head for word in (b'"alpa"', b'"meshes"', b'"instructions"')
            )
        return False

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a dump into a plan.

        Args:
            obj: The path of a dump, gzipped or not, or the parsed object.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``AlpaOptions``.

        Raises:
            PlanError: The dump is malformed; the message has the JSON path.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        dump = _read(obj)
        traces, shared, bare = _expanded(dump, settings)
        plan = builder(
            dump.world_size,
            name=settings.name or Path(dump.file).name.removesuffix(".json").removesuffix(".alpa"),
            model=settings.model,
            producer=("alpa", dump.version),
        )
        for name, ranks in shared.items():
            plan.group(name, ranks)
        doubts = _doubts(dump, settings, bare)
        return emit(traces, [dump.file], plan, XlaOptions(), doubts, overlap=False)


def _read(obj: object) -> Dump:
    if isinstance(obj, Mapping):
        return read_dump(dict(obj))
    if isinstance(obj, str | Path):
        return read_dump(Path(obj))
    raise PlanError(
        "not a dump of Alpa's instructions",
        value=type(obj).__name__,
        hint="give the path of a dump, or the parsed object; hook.py writes it",
    )


def _expanded(
    dump: Dump, options: AlpaOptions
) -> tuple[dict[int, Trace], dict[str, tuple[int, ...]], list[str]]:
    traces: dict[int, Trace] = {}
    shared: dict[str, tuple[int, ...]] = {}
    bare: dict[str, None] = {}
    stages = StageSteps(dump)
    for host in dump.hosts:
        expander = HostExpander(dump, host, stages, options)
        traces |= expander.run()
        shared |= expander.waits
        bare |= expander.bare
    return traces, shared, list(bare)


def _doubts(dump: Dump, options: AlpaOptions, bare: list[str]) -> list[Doubt]:
    doubts = []
    if bare:
        named = ", ".join(bare[:6]) + (", ..." if len(bare) > 6 else "")
        if options.local_stages:
            message = f"no text of {named}: taken to communicate nothing inside their mesh"
            doubts.append(Doubt("local-stages", message, "exact"))
        else:
            message = f"no text of {named}: what they communicate inside their mesh is not known"
            doubts.append(Doubt("stage-without-text", message))
    if dump.inputs is None:
        message = "the dump has no inputs: buffers that nothing made are not noticed"
        doubts.append(Doubt("buffers-unchecked", message, "exact"))
    if dump.signals:
        doubts.append(Doubt("signals", "messages are signals; their sizes are not known", "exact"))
    return doubts


adapter = AlpaAdapter()
"""The instance behind the entry point ``alpa``."""
