"""The adapter: a strategy of Hetu-Galvatron in, one plan out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError
from planguard.files.heads import head_of

from ..common.options import options_of_ranks, wrong
from ..common.reading import At, load_json
from ..megatron.emit import write_events
from .options import DTYPES, read_options
from .steps import RankSteps
from .strategy import FIELDS, read_strategy

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .groups import Group
    from .options import GalvatronOptions
    from .strategy import Strategy

_MARKS = ("pp_deg", "tp_sizes_enc")
_OWN = tuple(name for name in FIELDS if name != "world_size")


class GalvatronAdapter:
    """Reads strategies of Hetu-Galvatron; neither it nor torch is needed.

    Attributes:
        name: ``galvatron``.
    """

    name = "galvatron"

    def sniff(self, obj: object) -> bool:
        """Recognize a strategy by its fields: a path, or the parsed object."""
        if isinstance(obj, Mapping):
            return all(mark in obj for mark in _MARKS)
        if not isinstance(obj, str | Path):
            return False
        head = head_of(obj)
        return head.lstrip()[:1] == b"{" and all(f'"{mark}"'.encode() in head for mark in _MARKS)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a strategy into a plan of one iteration.

        Args:
            obj: A ``galvatron_config_*.json`` as path or parsed object.
            builder: The ``PlanBuilder`` class.
            options: Fields of ``GalvatronOptions``.

        Raises:
            PlanError: The strategy is malformed, or the runtime would refuse it; the message has
                the place.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        top = _read(obj)
        strategies = _strategies(top, settings)
        common = strategies[-1]
        stem = Path(common.file).name.removesuffix(".json").removeprefix("galvatron_config_")
        plan = builder(
            common.world,
            name=settings.name or f"galvatron {stem}",
            model=settings.model,
            producer="hetu-galvatron",
        )
        _write(plan, strategies, settings)
        _ledger(plan, strategies, settings)
        return plan.build()


def _read(obj: object) -> At:
    if isinstance(obj, Mapping):
        return At(dict(obj))
    if isinstance(obj, str | Path):
        return load_json(Path(obj))
    raise PlanError(
        "not a strategy of Hetu-Galvatron",
        path="input",
        value=type(obj).__name__,
        hint="give a galvatron_config_*.json",
    )


def _strategies(top: At, options: GalvatronOptions) -> dict[int, Strategy]:
    """Return the strategy of each rank that reads its own, and that of all others as -1."""
    common = read_strategy(top, options)
    own = options_of_ranks("galvatron", options.rank_options, common.world, _known)
    found = {-1: common}
    for rank, fields in own.items():
        try:
            found[rank] = read_strategy(At({**top.value, **fields}, file=top.file), options)
        except PlanError as error:
            raise UsageError(
                f"rank {rank} of rank_options: {error.message} ({error.path})", hint=error.hint
            ) from error
    return found


def _known(own: Mapping[str, object], where: str) -> dict[str, Any]:
    unknown = [name for name in own if name not in _OWN]
    if unknown:
        raise wrong("galvatron", "rank_options", unknown[0], f"fields of a strategy{where}")
    return dict(own)


def _write(plan: PlanBuilder, strategies: dict[int, Strategy], options: GalvatronOptions) -> None:
    dtype = DTYPES[options.mixed_precision]
    used: dict[str, Group] = {}
    programs = []
    for rank in range(strategies[-1].world):
        steps = RankSteps(strategies.get(rank, strategies[-1]), rank, options, dtype)
        programs.append(steps.run())
        used |= steps.used
    for name in sorted(used, key=lambda name: (used[name].kind, used[name].first, name)):
        plan.group(name, used[name].ranks)
    for rank, events in enumerate(programs):
        write_events(plan.program(rank), events)


def _ledger(plan: PlanBuilder, strategies: dict[int, Strategy], options: GalvatronOptions) -> None:
    common = strategies[-1]
    plan.approximate(
        "layers-only",
        "what a layer calls inside (tensor, sequence and context parallelism), the loss and the "
        "optimizer are left out; they are taken to be the same on all ranks of their groups",
        scope="plan",
    )
    plan.approximate(
        "prefetch",
        "parameters are gathered where a module needs them; FSDP asks for some of them one module "
        "earlier, on all ranks of a stage alike",
        scope="plan",
    )
    plan.approximate(
        "defaults",
        "the model is an embedding, the layers, a norm and a head, its embeddings are not tied, "
        "and the runtime's sequence_parallel and async_grad_reduce are on, as they are by default",
        scope="plan",
    )
    if options.seq_length is None:
        differ = any(own.activations != common.activations for own in strategies.values())
        plan.approximate(
            "no-sizes",
            "messages have no sizes: the strategy does not say seq_length and hidden_size"
            + (", and ranks disagree about how activations are cut" if differ else ""),
            "under" if differ else "exact",
            scope="plan",
        )
    for name in sorted({name for own in strategies.values() for name in own.unread}):
        plan.approximate("unread", f"the runtime does not read {name!r}", scope="plan")
    if any(own.recomputes != common.recomputes for own in strategies.values()):
        plan.approximate(
            "recomputation",
            "ranks disagree about 'checkpoint': what a layer calls again in backward is left out",
            "under",
            scope="plan",
        )


adapter = GalvatronAdapter()
"""The instance behind the entry point ``galvatron``."""
