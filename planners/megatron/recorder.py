"""Run Megatron-core's schedules and write what every rank asks torch.distributed for, as JSON.

Copy this file next to your code (it needs torch and megatron-core on a CPU, not PlanGuard)::

    import recorder
    recorder.record("plan.megatron.json", pipeline=4, virtual=2, microbatches=8, overlap=True)

The real ``schedules.py`` and ``P2PCommunicator`` run, once per rank in this process, over process
groups of torch's ``fake`` backend and a model of one multiplication per stage. Only the calls that
would communicate are replaced: by calls that note them. Labels come from the tensors' identity:
``F<stage>.<microbatch>`` is the output of a (virtual) stage, ``B<stage>.<microbatch>`` the gradient
of its input; a received tensor is named after the step that uses it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

SCHEMA = "planguard.megatron/1"
_SLOTS = ("send_prev", "recv_prev", "send_next", "recv_next")
Event = dict[str, Any]


class _Op(NamedTuple):
    """What ``P2POp`` is given."""

    op: Any
    tensor: Any
    peer: int
    group: Any = None
    tag: int = 0


class _Work:
    """A handle that notes when it is waited for."""

    def __init__(self, log: Recorder, number: int) -> None:
        self._log, self._number = log, number

    def wait(self) -> bool:
        """Note the wait."""
        self._log.note(op="wait", work=self._number)
        return True


class Recorder:
    """Notes the calls of one rank.

    Attributes:
        events: What was called, in order.
    """

    def __init__(self, shape: list[int], groups: dict[int, str]) -> None:
        self.events: list[Event] = []
        self._shape, self._groups = shape, groups
        self._works = 0
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        self._shape_slots: list[str] = []
        self._pending: list[tuple[Event, str]] = []

    def name(self, tensor: Any, name: str) -> None:
        """Say what a tensor is; the tensor is kept, so that its identity stays its own."""
        self._kept.append(tensor)
        self._names.setdefault(id(tensor), name)

    def name_of(self, tensor: Any) -> str | None:
        """Return what a tensor is, if it is known."""
        return self._names.get(id(tensor))

    def note(self, **event: Any) -> None:
        """Append an event, with the line of the schedule that it comes from."""
        self.events.append({**event, "at": _place()})

    def finish(self) -> list[Event]:
        """Return the events, every message with its label."""
        for event in self.events:
            for message in [event, *event.get("ops", ())]:
                tensor = message.pop("tensor", None)
                label = self._names.get(tensor) if tensor is not None else None
                if label is not None:
                    message["label"] = label if "of" not in message else f"shape of {label}"
                message.pop("of", None)
        return self.events

    # --- what replaces torch.distributed ---------------------------------------------------------

    def isend(self, tensor: Any, dst: int, group: Any = None) -> _Work:
        """Note a send."""
        return self._begun(self._message("isend", tensor, dst, group))

    def irecv(self, tensor: Any, src: int, group: Any = None) -> _Work:
        """Note a receive."""
        return self._begun(self._message("irecv", tensor, src, group))

    def batch(self, ops: list[_Op]) -> list[_Work]:
        """Note one launch of several; NCCL gives one handle for all of them."""
        noted = []
        for op in ops:
            kind = "isend" if op.op == self.isend else "irecv"
            noted.append(self._message(kind, op.tensor, op.peer, op.group))
        return [self._begun({"op": "batch", "ops": noted})]

    def ring(self, group: Any = None, **tensors: Any) -> None:
        """Note a ring exchange: one launch, waited for at once."""
        import torch.distributed as dist

        noted = []
        for slot in _SLOTS:
            tensor = tensors.get(f"tensor_{slot}")
            if tensor is None:
                continue
            step = -1 if slot.endswith("prev") else 1
            peer = dist.get_global_rank(group, (group.rank() + step) % group.size())
            noted.append(self._message("i" + slot[:4], tensor, peer, group))
        if noted:
            self.note(op="batch", ops=noted)

    def all_reduce(self, tensor: Any, op: Any = None, group: Any = None) -> None:
        """Note a reduction; it is waited for at once."""
        self._kept.append(tensor)
        self.note(
            op="all_reduce",
            group=self._groups.get(id(group), "world"),
            shape=list(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            tensor=id(tensor),
        )

    def _begun(self, event: Event) -> _Work:
        number = self._works
        self._works += 1
        self.note(**event, work=number)
        return _Work(self, number)

    def _message(self, op: str, tensor: Any, peer: int, group: Any) -> Event:
        import torch

        event: Event = {
            "op": op,
            "peer": peer,
            "group": self._groups.get(id(group), "world"),
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "tensor": id(tensor),
        }
        self._kept.append(tensor)
        if self._shape_slots:
            event["of"] = True
            self._pending.append((event, self._shape_slots.pop(0)))
            if op == "irecv":
                tensor.copy_(torch.tensor(self._shape))
        return event

    # --- what is put around P2PCommunicator ------------------------------------------------------

    def around_shapes(self, call: Any) -> Any:
        """Return ``_communicate_shapes`` that says which shape belongs to which tensor."""

        def exchanged(
            this: Any, tensor_send_next: Any, tensor_send_prev: Any, recv_prev: Any, recv_next: Any
        ) -> Any:
            wanted = {
                "send_prev": tensor_send_prev is not None, "recv_prev": recv_prev,
                "send_next": tensor_send_next is not None, "recv_next": recv_next,
            }  # fmt: skip
            self._shape_slots = [slot for slot in _SLOTS if wanted[slot]]
            return call(this, tensor_send_next, tensor_send_prev, recv_prev, recv_next)

        return exchanged

    def around_communicate(self, call: Any) -> Any:
        """Return ``_communicate`` that links shapes to the tensors that it sends and receives."""

        def communicated(this: Any, **given: Any) -> Any:
            received_prev, received_next, works = call(this, **given)
            tensors = {
                "send_prev": given["tensor_send_prev"], "send_next": given["tensor_send_next"],
                "recv_prev": received_prev, "recv_next": received_next,
            }  # fmt: skip
            for event, slot in self._pending:
                event["tensor"] = id(tensors[slot])
            self._pending.clear()
            return received_prev, received_next, works

        return communicated

    def around_backward(self, call: Any) -> Any:
        """Return ``backward_step`` that names the gradients that it uses and makes."""

        def stepped(inputs: Any, outputs: Any, gradients: Any, *rest: Any) -> Any:
            made = self.name_of(_first(outputs)) or ""
            used = self.name_of(_first(inputs))
            if made.startswith("F"):
                stage, _, mb = made[1:].partition(".")
            else:
                stage, _, mb = (used or "F-1.0")[1:].partition(".")
                stage = str(int(stage) + 1)
            if _first(gradients) is not None:
                self.name(_first(gradients), f"B{int(stage) + 1}.{mb}")
            self.note(op="compute", name=f"B{stage}.{mb}")
            gradient = call(inputs, outputs, gradients, *rest)
            if _first(gradient) is not None:
                self.name(_first(gradient), f"B{stage}.{mb}")
            return gradient

        return stepped


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _place() -> list[Any]:
    """Return the innermost line of a schedule on the stack."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the one way to the caller's line
    while frame is not None:
        if frame.f_code.co_filename.endswith("schedules.py"):
            return ["schedules.py", frame.f_lineno, frame.f_code.co_name]
        frame = frame.f_back
    return ["p2p_communication.py", 0, ""]


def record(
    path: str,
    *,
    pipeline: int,
    microbatches: int,
    virtual: int = 1,
    data: int = 1,
    shape: tuple[int, int, int] = (4, 2, 8),
    forward_only: bool = False,
    gradients: bool = False,
    **flags: Any,
) -> None:
    """Record a schedule and write it.

    Args:
        path: Where to write.
        pipeline: Pipeline ranks.
        microbatches: Microbatches of a batch.
        virtual: Model chunks per rank; more than one selects the interleaved schedule.
        data: Data-parallel copies of the pipeline.
        shape: Sequence length, microbatch size and hidden size.
        forward_only: Without backwards.
        gradients: With a reduction per chunk in the place of ``finalize_model_grads``.
        flags: Fields of ``TransformerConfig``: ``batch_p2p_comm``, ``batch_p2p_sync``,
            ``overlap_p2p_comm``, ``use_ring_exchange_p2p``, ``variable_seq_lengths``, ...
    """
    import megatron.core  # type: ignore[import-not-found]

    settings = {"pipeline": pipeline, "virtual": virtual, "microbatches": microbatches,
                "data": data, "forward_only": forward_only, "gradients": gradients,
                "flags": flags}  # fmt: skip
    groups = {f"pp{d}": [p * data + d for p in range(pipeline)] for d in range(data)}
    groups |= {f"dp{p}": [p * data + d for d in range(data)] for p in range(pipeline)}
    ranks = [_rank(rank, shape, settings, groups) for rank in range(pipeline * data)]
    head = {"schema": SCHEMA, "megatron": megatron.core.__version__, **settings, "groups": groups}
    lines = [",\n".join(f"  {json.dumps(event)}" for event in events) for events in ranks]
    text = json.dumps(head)[:-1] + ',\n "ranks": [\n [' + "],\n [".join(lines) + "]\n]}\n"
    Path(path).write_text(text, encoding="utf-8")


def _rank(
    rank: int, shape: tuple[int, int, int], settings: dict[str, Any], groups: dict[str, list[int]]
) -> list[Event]:
    """Run the schedule as one rank."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    pipeline, data = settings["pipeline"], settings["data"]
    dist.init_process_group("fake", rank=rank, world_size=pipeline * data, store=FakeStore())
    try:
        made = {name: dist.new_group(ranks) for name, ranks in groups.items()}
        alone = [dist.new_group([other]) for other in range(pipeline * data)][rank]
        recorder = Recorder(list(shape), {id(group): name for name, group in made.items()})
        own = {kind: made[f"{kind}{n}"] for kind, n in (("pp", rank % data), ("dp", rank // data))}
        _run(recorder, {**own, "alone": alone}, shape, settings)
        return recorder.finish()
    finally:
        dist.destroy_process_group()


def _run(
    recorder: Recorder, own: dict[str, Any], shape: tuple[int, int, int], settings: dict[str, Any]
) -> None:
    import torch
    import torch.distributed as dist
    from megatron.core.pipeline_parallel import (  # type: ignore[import-not-found]
        p2p_communication,
        schedules,
    )
    from megatron.core.process_groups_config import (  # type: ignore[import-not-found]
        ProcessGroupCollection,
    )
    from megatron.core.transformer import TransformerConfig  # type: ignore[import-not-found]

    virtual, pipeline, pp_group = settings["virtual"], settings["pipeline"], own["pp"]
    config = TransformerConfig(
        num_layers=pipeline * virtual,
        hidden_size=shape[2],
        num_attention_heads=1,
        pipeline_model_parallel_size=pipeline,
        virtual_pipeline_model_parallel_size=virtual if virtual > 1 else None,
        pipeline_dtype=torch.float32,
        **settings["flags"],
    )
    chunks = [_chunk(recorder, config, pp_group, n, shape) for n in range(virtual)]
    if settings["gradients"]:
        config.finalize_model_grads_func = _finalizer(recorder, own["dp"])
    groups = ProcessGroupCollection()
    groups.tp = groups.cp = own["alone"]
    groups.dp_cp = own["dp"]
    groups.embd = groups.pos_embd = None
    groups.pp = pp_group
    communicator = p2p_communication.P2PCommunicator
    around = [getattr(communicator, name) for name in ("_communicate", "_communicate_shapes")]
    changes = [
        (dist, "isend", recorder.isend), (dist, "irecv", recorder.irecv), (dist, "P2POp", _Op),
        (dist, "batch_isend_irecv", recorder.batch), (dist, "ring_exchange", recorder.ring),
        (dist, "all_reduce", recorder.all_reduce), (torch.cuda, "current_device", lambda: "cpu"),
        (torch, "zeros", _on_cpu(torch.zeros)), (torch, "tensor", _on_cpu(torch.tensor)),
        (torch.cuda, "synchronize", lambda: recorder.note(op="sync")),
        (schedules, "backward_step", recorder.around_backward(schedules.backward_step)),
        (communicator, "_communicate", recorder.around_communicate(around[0])),
        (communicator, "_communicate_shapes", recorder.around_shapes(around[1])),
    ]  # fmt: skip
    with contextlib.ExitStack() as replaced:
        for owner, name, value in changes:
            replaced.enter_context(mock.patch.object(owner, name, value, create=True))
        run = schedules.get_forward_backward_func(pipeline, virtual if virtual > 1 else None)
        run(
            forward_step_func=lambda source, chunk: (
                chunk.step(next(source)),
                lambda output: (output.sum(), {}),
            ),
            data_iterator=[iter(range(settings["microbatches"])) for _ in chunks],
            model=chunks,
            num_microbatches=settings["microbatches"],
            seq_length=shape[0],
            micro_batch_size=shape[1],
            forward_only=settings["forward_only"],
            p2p_communicator=communicator(pp_group, config),
            pg_collection=groups,
        )


def _finalizer(recorder: Recorder, group: Any) -> Any:
    """Return what sums the gradients of the chunks over a group."""

    def finalize(chunks: Any, *_: Any, **__: Any) -> None:
        for chunk in chunks:
            recorder.name(chunk.scale.grad, f"gradients {chunk.stage}")
            recorder.all_reduce(chunk.scale.grad, group=group)

    return finalize


def _on_cpu(make: Any) -> Any:
    """Return a factory of tensors that knows no device."""
    return lambda *sizes, **given: make(*sizes, **{**given, "device": "cpu"})


def _chunk(
    recorder: Recorder, config: Any, pp_group: Any, number: int, shape: tuple[int, int, int]
) -> Any:
    """Return a model chunk: one multiplication."""
    import torch
    from megatron.core.enums import ModelType  # type: ignore[import-not-found]

    stage = number * pp_group.size() + pp_group.rank()

    class Chunk(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.config, self.model_type = config, ModelType.encoder_or_decoder
            self.vp_stage, self.stage = number, stage
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.input: Any = None

        def set_input_tensor(self, tensors: Any) -> None:
            self.input = _first(tensors)

        def step(self, mb: int) -> Any:
            if stage > 0 and self.input is not None:
                recorder.name(self.input, f"F{stage - 1}.{mb}")
                value = self.input
            else:
                value = torch.ones(shape)
            recorder.note(op="compute", name=f"F{stage}.{mb}")
            output = value * self.scale
            recorder.name(output, f"F{stage}.{mb}")
            return output

    return Chunk()
