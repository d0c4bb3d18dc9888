"""What one rank of a strategy calls, in order, as events of the Megatron adapter.

``PipelineParallel`` of Galvatron (``pipeline.py``) is a schedule of Megatron's kind: 1F1B or GPipe
over batched messages, waited for at once, with a device synchronization behind. Between modules of
different layouts activations are gathered (``redistribute.py``); FSDP gathers parameters and
reduces gradients. tests/unit/test_galvatron.py holds the order against what the runtime called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..megatron.recording import Event, Message
from . import groups

if TYPE_CHECKING:
    from .groups import Group
    from .options import GalvatronOptions
    from .strategy import Module, Strategy

GATHER, SCATTER, REDUCE = "all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce"
UNSIZED = -1
"""Elements of a message whose size the strategy does not say."""


class RankSteps:
    """The calls of one rank in one iteration.

    Args:
        strategy: What the rank reads.
        rank: Its global rank.
        options: The options of the adapter.
        dtype: torch's name of the type of activations.
    """

    def __init__(
        self, strategy: Strategy, rank: int, options: GalvatronOptions, dtype: str
    ) -> None:
        self.strategy, self.rank, self.options, self.dtype = strategy, rank, options, dtype
        self.inside = strategy.world // strategy.stages
        self.stage = rank // self.inside
        places = [at for at, module in enumerate(strategy.modules) if module.stage == self.stage]
        self.places = places
        self.events: list[Event] = []
        self.used: dict[str, Group] = {}
        self.gathered: set[int] = set()
        self.accumulates = len(strategy.batches) > 1
        self.is_last_batch = False

    def run(self) -> tuple[Event, ...]:
        """Return the calls of one iteration."""
        count = len(self.strategy.batches)
        if self.strategy.stages == 1:
            for mb in range(count):
                self.is_last_batch = mb == count - 1
                self._forward(mb)
                self._backward(mb)
        elif self.strategy.schedule == "gpipe":
            self._gpipe(count)
        else:
            self._one_forward_one_backward(count)
        if self.accumulates:
            for at in self.places:
                self._reduce(at, gathers=True)
        return tuple(self.events)

    # --- schedules -------------------------------------------------------------------------------

    def _gpipe(self, count: int) -> None:
        for mb in range(count):
            self._exchange(receive_forward=mb)
            self._forward(mb)
            self._exchange(send_forward=mb)
        for mb in range(count):
            self.is_last_batch = mb == count - 1
            self._exchange(receive_backward=mb)
            self._backward(mb)
            self._exchange(send_backward=mb)

    def _one_forward_one_backward(self, count: int) -> None:
        warm = min(self.strategy.stages - self.stage - 1, count)
        for mb in range(warm):
            self._exchange(receive_forward=mb)
            self._forward(mb)
            self._exchange(send_forward=mb)
        if warm < count:
            self._exchange(receive_forward=warm)
        for back in range(count - warm):
            mb = warm + back
            self._forward(mb)
            self._exchange(send_forward=mb, receive_backward=back)
            self._backward(back)
            ahead = mb + 1 if mb + 1 < count else None
            self._exchange(send_backward=back, receive_forward=ahead)
        for back in range(count - warm, count):
            # Only here does the runtime set last_batch: on the last stage, which has no such
            # microbatches, gradients of norms are never summed over tensor parallel ranks.
            self.is_last_batch = back == count - 1
            self._exchange(receive_backward=back)
            self._backward(back)
            self._exchange(send_backward=back)

    def _exchange(
        self,
        *,
        send_backward: int | None = None,
        receive_forward: int | None = None,
        send_forward: int | None = None,
        receive_backward: int | None = None,
    ) -> None:
        """One batch of messages to the neighbor stages, in the order of ``_run_p2pops``."""
        first, last = self.stage == 0, self.stage == self.strategy.stages - 1
        wanted = []
        if not first:
            wanted = [("isend", -1, "B", send_backward), ("irecv", -1, "F", receive_forward)]
        if not last:
            wanted += [("isend", 1, "F", send_forward), ("irecv", 1, "B", receive_backward)]
        messages = [
            self._message(op, step, letter, mb) for op, step, letter, mb in wanted if mb is not None
        ]
        if not messages:
            return
        work = len(self.events)
        src = self.strategy.file, 0, f"$.pp_division, stage {self.stage}"
        self.events.append(Event("batch", src, tuple(messages), work))
        self.events += [Event("wait", src, work=work), Event("sync", src)]

    def _message(self, op: str, step: int, letter: str, mb: int) -> Message:
        boundary = self.places[-1] if step > 0 else self.places[0] - 1
        stage = self.stage if (letter == "F") == (step > 0) else self.stage + step
        peer = self.rank + step * self.inside
        count = self._tokens(self.strategy.modules[boundary], mb, split=True)
        return Message(op, peer, "world", self.dtype, count, f"{letter}{stage}.{mb}")

    # --- modules ---------------------------------------------------------------------------------

    def _forward(self, mb: int) -> None:
        for at in self.places:
            self._relocate(at, mb, "F")
            self._parameters(at, f"forward {mb}")
            self._compute(at, mb, "F")

    def _backward(self, mb: int) -> None:
        for at in reversed(self.places):
            self._parameters(at, f"backward {mb}")
            self._compute(at, mb, "B")
            if not self.accumulates:
                self._reduce(at, gathers=False)
            self._relocate(at, mb, "B")

    def _compute(self, at: int, mb: int, letter: str) -> None:
        name = self.strategy.modules[at].name
        step = f"{letter}{self.stage}.{mb}: {name}"
        self.events.append(Event("compute", self._src(at), name=step))

    def _relocate(self, at: int, mb: int, letter: str) -> None:
        """Gather a sequence from its parts, then the batch of those that share the next layout."""
        if at == 0:
            return
        before, after = self.strategy.modules[at - 1], self.strategy.modules[at]
        if not groups.relocates(before, after):
            return
        old, new = (before, after) if letter == "F" else (after, before)
        label = f"{letter}{self.stage}.{mb} to {new.name}"
        if old.parts > 1:
            group = groups.whole(self.rank, old)
            count = self._tokens(old, mb, split=True)
            self._collective(GATHER, group, at, f"{label}: sequence", count)
        group_of_both = groups.fused(self.rank, before, after)
        if group_of_both is not None and old.parts < new.parts:
            count = self._tokens(old, mb, split=False)
            self._collective(GATHER, group_of_both, at, f"{label}: samples", count)

    def _parameters(self, at: int, when: str) -> None:
        """Gather parameters that are sharded now: with zero2 they stay whole until a reduction."""
        module = self.strategy.modules[at]
        if module.dp_type == "ddp" or (module.dp_type == "zero2" and at in self.gathered):
            return
        self.gathered.add(at)
        group = groups.shards(self.rank, module)
        self._collective(GATHER, group, at, f"parameters of {module.name}, {when}", UNSIZED)

    def _reduce(self, at: int, *, gathers: bool) -> None:
        """Sum the gradients of a module (``_post_backward_hook_sp``)."""
        module = self.strategy.modules[at]
        if gathers:
            self._parameters(at, "to reduce")
        self.gathered.discard(at)
        if module.has_norms and module.tp > 1 and self.is_last_batch:
            group = groups.tensor(self.rank, module)
            self._collective(REDUCE, group, at, f"norms of {module.name}", UNSIZED)
        op = REDUCE if module.dp_type == "ddp" else SCATTER
        group = groups.shards(self.rank, module)
        self._collective(op, group, at, f"gradients of {module.name}", UNSIZED)

    # --- parts -----------------------------------------------------------------------------------

    def _collective(self, op: str, group: Group, at: int, label: str, count: int) -> None:
        if len(group.ranks) == 1:
            return
        self.used[group.name] = group
        message = Message(op, -1, group.name, self.dtype, count, label)
        src = self._src(at)
        self.events.append(Event("collective", src, (message,)))

    def _tokens(self, module: Module, mb: int, *, split: bool) -> int:
        """Return the elements of an activation on one rank, or of its whole sequence."""
        options = self.options
        if options.seq_length is None or options.hidden_size is None:
            return UNSIZED
        samples = self.strategy.batches[mb] * self.strategy.modules[0].dp // module.dp
        tokens = options.seq_length // module.parts if split else options.seq_length
        return tokens * samples * options.hidden_size

    def _src(self, at: int) -> tuple[str, int, str]:
        return self.strategy.file, 0, self.strategy.modules[at].path
