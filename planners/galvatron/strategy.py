"""A strategy as records: what each module of the model runs with, and what would be refused.

The rules are those of ``hybrid_parallel_config.py`` of Galvatron's runtime at commit cea12ff; where
it ends with an assertion on every rank, the strategy is a ``PlanError``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from planguard.errors import PlanError

from ..common.job import MAX_WORLD
from .options import DP_TYPES, PIPELINES

if TYPE_CHECKING:
    from ..common.reading import At
    from .options import GalvatronOptions

LISTS = ("tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "cp_sizes_enc", "ep_sizes_enc",
         "tp_of_ep_sizes_enc", "use_sp", "checkpoint", "pp_division")  # fmt: skip
"""Fields that are numbers in one string, with commas."""
FIELDS = (*LISTS, "pp_deg", "global_bsz", "chunks", "pipeline_type", "default_dp_type", "vtp",
          "vsp", "vcp", "vocab_sdp", "embed_sdp", "world_size")  # fmt: skip
_NEEDED = ("pp_deg", "tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "global_bsz", "chunks")
_MOST_NUMBERS = 1 << 16
MAX_STEPS = 1 << 23
"""Forwards and backwards of modules on all ranks: what is held in memory at once."""


@dataclass(frozen=True)
class Module:
    """One module of the model's sequence.

    Attributes:
        name: ``embedding``, ``layer 3``, ``norm`` or ``head``.
        stage: Pipeline stage that has it.
        tp: Ranks of tensor parallelism.
        sp: Ranks of Ulysses.
        cp: Ranks of context parallelism.
        dp: Ranks of data parallelism.
        dp_type: ``ddp``, ``zero2`` or ``zero3``.
        has_norms: Whether it has layer norms, whose gradients tensor parallel ranks sum.
        path: Where the strategy says so.
    """

    name: str
    stage: int
    tp: int
    sp: int
    cp: int
    dp: int
    dp_type: str
    has_norms: bool
    path: str

    @property
    def parts(self) -> int:
        """Ranks over which a sequence is split."""
        return self.tp * self.sp * self.cp


@dataclass(frozen=True)
class Strategy:
    """What a rank reads.

    Attributes:
        file: Where it was read.
        world: Number of ranks.
        stages: Pipeline stages.
        modules: Embedding, layers, norm and head.
        batches: Samples of each microbatch on a rank of the embedding.
        schedule: ``gpipe`` or ``pipedream_flush``.
        recomputes: Layers whose forward is repeated in backward.
        unread: Fields of the file that the runtime does not read.
    """

    file: str
    world: int
    stages: int
    modules: tuple[Module, ...]
    batches: tuple[int, ...]
    schedule: str
    recomputes: tuple[int, ...]
    unread: tuple[str, ...]

    @property
    def activations(self) -> tuple[object, ...]:
        """What decides how large activations are: as sizes are not known, it is compared itself."""
        return self.batches, tuple((module.parts, module.dp) for module in self.modules)


def read_strategy(top: At, options: GalvatronOptions) -> Strategy:
    """Read the JSON of a strategy.

    Raises:
        PlanError: It is malformed, or the runtime would refuse it; the message has the place.
    """
    found = top.fields(*FIELDS)
    for name in _NEEDED:
        if name not in found:
            top.fail(f"{name!r} is missing", hint="docs/planners/galvatron.md lists the fields")
    return _Reader(top, found, options).read()


class _Reader:
    def __init__(self, top: At, found: dict[str, At], options: GalvatronOptions) -> None:
        self.top, self.found, self.options = top, found, options
        self.sizes = self.numbers("tp_sizes_enc", 1, MAX_WORLD)
        self.layers = len(self.sizes)
        self.world = self._world()
        self.stages = found["pp_deg"].integer(1, self.world)
        if self.world % self.stages:
            found["pp_deg"].fail(f"{self.world} ranks cannot be divided into so many stages")

    def read(self) -> Strategy:
        if self.options.layers not in {None, self.layers}:
            self.found["tp_sizes_enc"].fail(
                f"the strategy has {self.layers} layers, the model {self.options.layers}",
                hint="the runtime ends with 'Layer_num in json config does not match'",
            )
        modules = self._modules()
        batches = self._batches(modules)
        steps = self.world // self.stages * len(modules) * len(batches) * 2
        if steps > MAX_STEPS:
            raise PlanError(
                f"one iteration has {steps} steps; at most {MAX_STEPS} are read",
                file=self.top.file,
                path="$",
                hint="check the strategy for fewer data parallel ranks, or with fewer chunks",
            )
        unread = tuple(name for name in ("embed_sdp",) if name in self.found)
        if unread:
            self.found["embed_sdp"].integer(0, 1)
        return Strategy(
            file=self.top.file or "galvatron_config.json",
            world=self.world,
            stages=self.stages,
            modules=modules,
            batches=batches,
            schedule=self._schedule(),
            recomputes=tuple(self.numbers("checkpoint", 0, 1, 0)),
            unread=unread,
        )

    # --- fields ----------------------------------------------------------------------------------

    def numbers(self, name: str, low: int, high: int, default: int | None = None) -> list[int]:
        """Return the numbers of a field, one per layer."""
        if name not in self.found and default is not None:
            return [default] * self.layers
        at = self.found[name]
        words = at.text().split(",")
        if len(words) > _MOST_NUMBERS or not all(w.strip().isdecimal() for w in words):
            at.fail("expected numbers with commas between them", hint='such as "2,2,1"')
        values = [int(word) for word in words]
        if any(not low <= value <= high for value in values):
            at.fail(f"expected numbers from {low} to {high}")
        if name not in {"tp_sizes_enc", "pp_division"} and len(values) != self.layers:
            at.fail(f"{len(values)} numbers, and tp_sizes_enc has {self.layers} layers")
        return values

    def number(self, name: str, low: int, high: int, default: int) -> int:
        """Return a single number."""
        return self.found[name].integer(low, high) if name in self.found else default

    def choice(self, name: str, given: str | None, allowed: tuple[str, ...]) -> str | None:
        """Return a word of the file, or else of the options."""
        if name not in self.found:
            return given
        word = self.found[name].text(40)
        if word not in allowed:
            self.found[name].fail("unknown value", hint=f"one of {', '.join(allowed)}")
        return word

    def _world(self) -> int:
        told = self.options.world_size
        if "world_size" in self.found:
            world = self.found["world_size"].integer(1, MAX_WORLD)
            if told not in {None, world}:
                self.found["world_size"].fail(f"the option world_size says {told}")
            return world
        if told is None:
            raise PlanError(
                "a strategy does not say for how many ranks it is",
                file=self.top.file,
                path="$",
                hint="give --option world_size=8 (world_size=8 in Python)",
            )
        return told

    def _schedule(self) -> str:
        word = self.choice("pipeline_type", self.options.pipeline_type, PIPELINES)
        if word is None and self.stages > 1:
            self.top.fail(
                "'pipeline_type' is missing: the runtime then takes that of its command line",
                hint="give --option pipeline_type=gpipe or pipedream_flush",
            )
        return word or "gpipe"

    # --- modules ---------------------------------------------------------------------------------

    def _modules(self) -> tuple[Module, ...]:
        self._refuse_what_is_not_modeled()
        cps = self.numbers("cp_sizes_enc", 1, MAX_WORLD, 1)
        ulysses = self.numbers("use_sp", 0, 1, 0)
        whole = self.numbers("dp_types_enc", 0, 1)
        stages = self._stages()
        default = self._default_dp_type()
        made = []
        for at in range(self.layers):
            kind = (self.sizes[at], ulysses[at], cps[at], "zero3" if whole[at] else default)
            made.append(self._module(f"layer {at}", stages[at], kind, "tp_sizes_enc"))
        whole_vocabulary = self.number("vocab_sdp", 0, 1, 0)
        kind = (
            self.number("vtp", 1, MAX_WORLD, 1),
            self.number("vsp", 0, 1, 0),
            self.number("vcp", 1, MAX_WORLD, 1),
            "zero3" if whole_vocabulary else default,
        )
        ends = [
            self._module(name, stage, kind, "vtp")
            for name, stage in (
                ("embedding", stages[0]),
                ("norm", stages[-1]),
                ("head", stages[-1]),
            )
        ]
        modules = (ends[0], *made, *ends[1:])
        for before, after in itertools.pairwise(modules):
            small, large = sorted((before.parts, after.parts))
            if large % small:
                raise PlanError(
                    f"{before.name} is split over {before.parts} ranks and {after.name} over "
                    f"{after.parts}: neither divides the other",
                    file=self.top.file,
                    path=after.path,
                    hint="the runtime makes groups of the larger in steps of the smaller",
                )
        return modules

    def _module(self, name: str, stage: int, kind: tuple[int, int, int, str], field: str) -> Module:
        size, ulysses, cp, dp_type = kind
        inside = self.world // self.stages
        if inside % (size * cp):
            (self.found.get(field) or self.top).fail(
                f"{name} asks for {size * cp} ranks, and a stage has {inside}",
                hint="tensor, sequence and context parallelism have to divide a stage",
            )
        tp, sp = (1, size) if ulysses else (size, 1)
        has_norms = name not in {"embedding", "head"}
        dp = inside // size // cp
        return Module(name, stage, tp, sp, cp, dp, dp_type, has_norms, f"$.{field}, {name}")

    def _refuse_what_is_not_modeled(self) -> None:
        for name in ("ep_sizes_enc", "tp_of_ep_sizes_enc"):
            if any(size != 1 for size in self.numbers(name, 1, MAX_WORLD, 1)):
                self.found[name].fail(
                    "expert parallelism is not read",
                    hint="the tokens that travel between experts are not in the strategy",
                )
        if not all(self.numbers("tp_consecutive_flags", 0, 1)):
            self.found["tp_consecutive_flags"].fail(
                "a layer asks for tensor parallel ranks that are not neighbors",
                hint="Galvatron up to 2.4.0 made such groups, the runtime that is read here "
                "does not look at the flag: set it to 1",
            )

    def _stages(self) -> list[int]:
        """Return the stage of every layer."""
        if "pp_division" in self.found:
            at = self.found["pp_division"]
            division = self.numbers("pp_division", 1, self.layers)
            if len(division) != self.stages or sum(division) != self.layers:
                at.fail(f"expected {self.stages} numbers that sum to {self.layers} layers")
        else:
            each = self.layers // self.stages
            division = [each] * (self.stages - 1) + [self.layers - each * (self.stages - 1)]
            if not each:
                self.found["pp_deg"].fail(f"more stages than the {self.layers} layers")
        return [stage for stage, count in enumerate(division) for _ in range(count)]

    def _default_dp_type(self) -> str:
        word = self.choice("default_dp_type", self.options.default_dp_type, DP_TYPES)
        if word is None:
            self.top.fail(
                "'default_dp_type' is missing: the runtime then takes that of its command line",
                hint="give --option default_dp_type=ddp, zero2 or zero3",
            )
        return word

    # --- microbatches ----------------------------------------------------------------------------

    def _batches(self, modules: tuple[Module, ...]) -> tuple[int, ...]:
        """Return the sizes of the microbatches, as ``torch.chunk`` cuts them."""
        at = self.found["global_bsz"]
        whole = at.integer(1, 1 << 40)
        chunks = self.found["chunks"].integer(1, 1 << 20)
        most = (
            self.world // self.stages
            // min([*self.sizes, self.number("vtp", 1, MAX_WORLD, 1)])
            // min(module.cp for module in modules)
        )  # fmt: skip
        if whole % most:
            at.fail(
                f"not a multiple of {most}",
                hint="the runtime wants global_bsz to be a multiple of "
                "world_size // pp_deg // min_tp // min_cp",
            )
        given = modules[0].dp
        batch = whole // given
        each = -(-batch // chunks)
        batches = tuple(min(each, batch - start) for start in range(0, batch, each))
        for size in sorted(set(batches)):
            for module in modules:
                if size * given % module.dp:
                    self._uneven(size * given, module)
        return batches

    def _uneven(self, size: int, module: Module) -> NoReturn:
        raise PlanError(
            f"a microbatch of {size} samples cannot be divided over the {module.dp} data parallel "
            f"ranks of {module.name}",
            file=self.top.file,
            path="$.chunks",
            value=self.found["chunks"].value,
            hint="the runtime ends with 'First dimension of the tensor should be divisible'",
        )
