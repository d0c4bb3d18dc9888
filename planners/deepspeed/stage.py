"""The commands of one stage to steps, as ``PipelineEngine`` of DeepSpeed 0.18.2 executes them.

A buffer holds one microbatch at a time. What a send carries is what its buffer holds at that
moment, what a receive expects is the next microbatch: two stages that disagree about it have
different labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.errors import PlanError

from .model import Step, Tensor
from .zero import ZeroSteps, partition

if TYPE_CHECKING:
    from .model import Command, Job

META = Tensor("", (256,), "int32")
"""``TENSOR_META_SIZE`` of ``engine.py``: type, shapes and dtypes of all tensors in one message."""


class _EndsError(Exception):
    """The command fails on its rank, which ends."""


class StageSteps:
    """Expands the commands of one stage on one rank.

    Args:
        job: The job.
        stage: The stage.
        coordinate: Index in the data and in the model dimension.

    Attributes:
        failures: Commands that fail on this rank, in words.
        stale: Backwards that use the gradient of another microbatch, in words.
    """

    def __init__(self, job: Job, stage: int, coordinate: tuple[int, int]) -> None:
        self.failures: list[str] = []
        self.stale: list[str] = []
        self._job, self._stage, self._model = job, stage, coordinate[1]
        rank = (stage * job.data + coordinate[0]) * job.model + coordinate[1]
        self._zero = ZeroSteps(job, stage, rank)
        self._steps: list[Step] = []
        self._inputs: dict[int, int] = {}
        self._outputs: dict[int, int] = {}
        self._gradients: dict[int, int] = {}
        self._received: int | None = None
        self._tensors: dict[tuple[int, str], tuple[Tensor, ...]] = {}
        self._counts = {"LoadMicroBatch": 0, "RecvActivation": 0}
        self._has_sent = self._has_received = not job.first_batch

    def run(self) -> list[Step]:
        """Return the steps of the rank, in order."""
        if self._job.startup:
            self._startup()
        try:
            for command in self._job.commands[self._stage]:
                getattr(self, f"_{command.name}")(command)
        except _EndsError as error:
            self.failures.append(str(error))
            self._steps.append(Step("exit", "", str(error).rpartition(" at ")[2]))
            return self._steps
        if self._job.loss:
            self._loss()
        return self._steps

    # --- what one command does ------------------------------------------------------------------

    def _LoadMicroBatch(self, command: Command) -> None:  # noqa: N802 - named as the instruction
        mb = self._counts["LoadMicroBatch"]
        self._counts["LoadMicroBatch"] += 1
        if self._stage == 0:
            self._inputs[command.buffer] = mb
        self._compute(f"load {mb}", command, mb)

    def _ForwardPass(self, command: Command) -> None:  # noqa: N802
        mb = self._held(self._inputs, command, "input")
        if self._job.split_activations and self._stage > 0:
            self._full(self._stage - 1, f"F{self._stage - 1}.{mb}", command, mb)
        self._steps += self._zero.forward(mb, command.place)
        self._compute(f"F{self._stage}.{mb}", command, mb, "forward")
        self._outputs[command.buffer] = mb

    def _BackwardPass(self, command: Command) -> None:  # noqa: N802
        mb = self._held(self._outputs, command, "output")
        if self._stage < self._job.stages - 1:
            if self._received is None:
                raise self._failed(command, "no gradient was received")
            if self._received != mb:
                self.stale.append(f"{command} at {command.place} of stage {self._stage}")
            if self._job.split_gradients:
                if self._job.split_activations:
                    self._full(self._stage, f"F{self._stage}.{mb}", command, mb)
                self._full(self._stage, f"B{self._stage + 1}.{mb}", command, mb)
            del self._outputs[command.buffer]
        self._compute(f"B{self._stage}.{mb}", command, mb, "backward")
        self._steps += self._zero.backward(mb, command.place)
        self._gradients[command.buffer] = mb

    def _SendActivation(self, command: Command) -> None:  # noqa: N802
        mb = self._held(self._outputs, command, "output")
        peer = self._neighbor(command, 1)
        if not self._has_sent or self._job.dynamic_shape:
            self._has_sent = True
            self._message("send", peer, META, f"shapes {self._stage}.{mb}", command, mb)
        for tensor, label in self._pieces(self._stage, f"F{self._stage}.{mb}", "activations"):
            self._message("send", peer, tensor, label, command, mb)

    def _RecvActivation(self, command: Command) -> None:  # noqa: N802
        mb = self._counts["RecvActivation"]
        self._counts["RecvActivation"] += 1
        peer = self._neighbor(command, -1)
        if not self._has_received or self._job.dynamic_shape:
            self._has_received = True
            self._message("recv", peer, META, f"shapes {peer}.{mb}", command, mb)
        for tensor, label in self._pieces(peer, f"F{peer}.{mb}", "activations"):
            self._message("recv", peer, tensor, label, command, mb)
        self._inputs[command.buffer] = mb

    def _SendGrad(self, command: Command) -> None:  # noqa: N802
        mb = self._held(self._gradients, command, "gradient")
        peer = self._neighbor(command, -1)
        for tensor, label in self._pieces(peer, f"B{self._stage}.{mb}", "gradients"):
            self._message("send", peer, tensor, label, command, mb)
        del self._gradients[command.buffer]
        self._inputs.pop(command.buffer, None)

    def _RecvGrad(self, command: Command) -> None:  # noqa: N802
        mb = self._held(self._outputs, command, "output")
        peer = self._neighbor(command, 1)
        if self._job.split_activations and not self._job.split_gradients:
            self._full(self._stage, f"F{self._stage}.{mb}", command, mb)
        for tensor, label in self._pieces(self._stage, f"B{peer}.{mb}", "gradients"):
            self._message("recv", peer, tensor, label, command, mb)
        self._received = mb

    def _ReduceTiedGrads(self, command: Command) -> None:  # noqa: N802
        for tied in self._job.tied:
            if self._stage not in tied.stages or len(tied.stages) == 1:
                continue
            for tensor in tied.parameters:
                self._collective(
                    "all_reduce", f"tied:{tied.key}", tensor, f"tied {tensor.name}", command
                )

    def _ReduceGrads(self, command: Command) -> None:  # noqa: N802
        self._steps += self._zero.reduce(command.place)

    def _OptimizerStep(self, command: Command) -> None:  # noqa: N802
        self._steps += self._zero.step(command.place)
        self._compute(f"optimizer step {self._stage}", command)

    # --- parts ----------------------------------------------------------------------------------

    def _held(self, buffers: dict[int, int], command: Command, what: str) -> int:
        if command.buffer not in buffers:
            raise self._failed(command, f"the buffer holds no {what}")
        return buffers[command.buffer]

    def _failed(self, command: Command, why: str) -> _EndsError:
        return _EndsError(f"{command} of stage {self._stage}: {why} at {command.place}")

    def _neighbor(self, command: Command, step: int) -> int:
        peer = self._stage + step
        if not 0 <= peer < self._job.stages:
            raise self._failed(command, f"there is no stage {peer}")
        return peer

    def _pieces(self, boundary: int, label: str, kind: str) -> list[tuple[Tensor | None, str]]:
        """Return the messages of one activation or gradient; None for a size not known."""
        if self._job.boundaries is None:
            return [(None, label)]
        tensors = list(self._crossing(boundary, kind))
        is_split = self._job.split_activations if kind == "activations" else (
            self._job.split_gradients
        )  # fmt: skip
        pieces: list[tuple[Tensor | None, str]] = []
        if is_split and tensors:
            first, parts = tensors.pop(0), self._job.model
            meta = Tensor("", (1 + len(first.shape) + 2 + parts + 1,), "int64")
            part = Tensor("", (partition(first.count, parts)[self._model],), first.dtype)
            pieces = [(meta, f"{label}.meta"), (part, f"{label}.part{self._model}")]
        many = len(tensors) > 1 or bool(pieces)
        rest = [(t, f"{label}.{i}" if many else label) for i, t in enumerate(tensors)]
        return [*pieces, *rest]

    def _crossing(self, boundary: int, kind: str) -> tuple[Tensor, ...]:
        """Return the tensors that cross a boundary, forward or as gradients."""
        found = self._tensors.get((boundary, kind))
        if found is None:
            every = self._job.boundaries[boundary] if self._job.boundaries else ()
            found = tuple(one for one in every if kind == "activations" or one.has_gradient)
            self._tensors[boundary, kind] = found
        return found

    def _full(self, boundary: int, label: str, command: Command, mb: int) -> None:
        """Put a tensor together that the model ranks hold parts of (``PartitionedTensor.full``)."""
        tensors = (self._job.boundaries or [()] * self._job.stages)[boundary]
        if not tensors:
            self._collective("all_gather_into_tensor", "model", None, f"{label}.full", command, mb)
            return
        parts = partition(tensors[0].count, self._job.model)
        if len(set(parts)) == 1:
            part = Tensor("", (parts[0],), tensors[0].dtype)
            self._collective("all_gather_into_tensor", "model", part, f"{label}.full", command, mb)
            return
        raise PlanError(
            "DeepSpeed gathers an unevenly split tensor as if its parts were equal "
            "(PartitionedTensor.from_meta), and every model rank ends with an error",
            file=self._job.file,
            path=command.place,
            value=list(parts),
            hint="make the number of elements a multiple of the model ranks",
        )

    def _compute(self, name: str, command: Command, mb: int = -1, phase: str = "") -> None:
        self._steps.append(Step("compute", name, command.place, mb=mb, phase=phase))

    def _message(
        self, op: str, peer: int, tensor: Tensor | None, label: str, command: Command, mb: int
    ) -> None:
        phase = "backward" if command.name.endswith("Grad") else "forward"
        self._steps.append(
            Step(
                op, label, command.place,
                dtype=tensor.dtype if tensor else "",
                count=tensor.count if tensor else None,
                peer=peer, mb=mb, phase=phase,
            )
        )  # fmt: skip

    def _collective(
        self, op: str, group: str, tensor: Tensor | None, label: str, command: Command,
        mb: int = -1, root: int = -1,
    ) -> None:  # fmt: skip
        self._steps.append(
            Step(
                op, label, command.place,
                dtype=tensor.dtype if tensor else "",
                count=tensor.count if tensor else None,
                group=group, root=root, mb=mb,
            )
        )  # fmt: skip

    def _startup(self) -> None:
        """Create the communicators: ``__init__`` of ``PipelineEngine``, even stages send first."""
        place = "PipelineEngine.__init__"
        self._steps.append(
            Step("all_reduce", "number of parameters", place, "int64", 2, group="slice")
        )
        peers = {"send": self._stage + 1, "recv": self._stage - 1}
        for op in ("send", "recv") if self._stage % 2 == 0 else ("recv", "send"):
            if 0 <= peers[op] < self._job.stages:
                label = f"startup {min(self._stage, peers[op])}"
                self._steps.append(Step(op, label, place, "float32", 1, peer=peers[op]))

    def _loss(self) -> None:
        """Bring the loss back: ``_aggregate_total_loss``, or the end of ``eval_batch``."""
        place = "PipelineEngine._aggregate_total_loss"
        last = self._job.stages - 1
        if self._stage == last:
            self._steps.append(Step("all_reduce", "loss", place, "float32", 1, group="data"))
        count = 2 if self._job.trains else 1
        self._steps.append(
            Step("broadcast", "loss", place, "float32", count, group="pipe", root=last)
        )
