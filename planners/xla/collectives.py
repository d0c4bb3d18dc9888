"""Communicating instructions: which they are, and what one device does in each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .groups import Groups, Participants
from .steps import Collective, Exchange, Message, Origin, Part, Ranks
from .text import Unbalanced, split, unquoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Instruction, Module, Shape

_OPS = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather_into_tensor",
    "reduce-scatter": "reduce_scatter_tensor",
    "all-to-all": "all_to_all_single",
    "ragged-all-to-all": "all_to_all_single",
    "collective-broadcast": "broadcast",
}
_FLAT_IDS = frozenset({"all-reduce", "all-gather", "reduce-scatter"})
"""Operations with ``use_global_device_ids``; the others never have it."""
_REDUCTIONS = {
    "add": "sum", "maximum": "max", "minimum": "min", "multiply": "product",
    "and": "band", "or": "bor", "xor": "bxor",
}  # fmt: skip
_PAIRS = "_xla_send_recv_source_target_pairs"
_PIPELINE = "_xla_send_recv_pipeline"
PERMUTE = "collective-permute"
MESSAGES = frozenset({"send", "recv"})
MESSAGE_DONES = frozenset({"send-done", "recv-done"})
_HOST = frozenset({"infeed", "outfeed"})
_KNOWN = frozenset({
    "channel_id", "replica_groups", "use_global_device_ids", "dimensions", "to_apply", "metadata",
    "backend_config", "frontend_attributes", "source_target_pairs", "constrain_layout", "sharding",
    "control-predecessors", "statistics", "slice_sizes", "is_host_transfer", "calls",
    "async_execution_thread", "output_to_operand_aliasing", "called_computations", "device_ids",
    "origin", "original_value", "result_accuracy", "operand_layout_constraints",
})  # fmt: skip
_LOCAL_CALLS = re.compile(
    r"__(onednn|cublas|cudnn|triton|ynn|mlir|gpu|TypedFfi|aot_)|lapack_|blas_|cu(solver|blas|dnn|fft)_|"
    r"hip(solver|blas)_|cub\w*|TopK$|topk|Sharding$|SPMD|annotate_device_placement$|Eigh?$|Qr$|"
    r"ProductOfElementaryHouseholderReflectors$|LuDecomposition$|Cholesky$|SliceToDynamic$|"
    r"PadToStatic$|MoveToHost$|MoveToDevice$|AllocateBuffer$|Pin$|Unpin$|CreateBuffer$|"
    r"AssumeGatherIndicesInBound$|ResizeNearest$|ApproxTopK$|PartialReduce$|RngBitGenerator\w*$|"
    r"AsyncCollective(Start|Done)$|(cuda_)?threefry\w*|gather_scatter_fusion$|tuple_custom_fusion$"
)
"""Custom calls known to stay on their device."""
_HOST_CALLS = re.compile(r"xla_(ffi_)?(python|partitioned_python)_\w*callback|xla_python\w*")


def base(opcode: str) -> str:
    """Return an operation without ``-start`` or ``-done``."""
    for suffix in ("-start", "-done"):
        if opcode.endswith(suffix) and opcode[: -len(suffix)] in _OPS | {PERMUTE: ""}:
            return opcode[: -len(suffix)]
    return opcode


def communicates(instruction: Instruction) -> bool:
    """Tell whether an instruction itself involves other devices."""
    opcode = instruction.opcode
    return base(opcode) in _OPS or base(opcode) == PERMUTE or opcode in MESSAGES | MESSAGE_DONES


def is_host_transfer(instruction: Instruction) -> bool:
    """Tell whether an instruction talks with the host only."""
    call = instruction.attrs.get("custom_call_target", "")
    return (
        instruction.opcode in _HOST
        or instruction.attrs.get("is_host_transfer") == "true"
        or bool(_HOST_CALLS.match(unquoted(call)))
    )


def foreign_call(instruction: Instruction, local: Sequence[str]) -> str:
    """Return the target of a custom call that might communicate, or an empty string."""
    if instruction.opcode != "custom-call" or is_host_transfer(instruction):
        return ""
    target = unquoted(instruction.attrs.get("custom_call_target", ""))
    return "" if target in local or _LOCAL_CALLS.match(target) else target or "unnamed"


_STRUCTURE = frozenset({
    "custom-call", "async-start", "async-update", "async-done", "call", "fusion", "while",
    "conditional",
})  # fmt: skip


def may_communicate(instruction: Instruction) -> bool:
    """Tell whether an operation that is not known looks like one that involves other devices."""
    if instruction.opcode in _STRUCTURE or communicates(instruction):
        return False
    named = instruction.opcode.startswith(("all-", "collective-", "ragged-all-"))
    devices = {"replica_groups", "source_target_pairs", "channel_id", "use_global_device_ids"}
    return named or not devices.isdisjoint(instruction.attrs)


def channel_of(instruction: Instruction) -> str:
    """Return the channel of a collective with its kind and its members, empty without a channel."""
    names = "channel_id", "replica_groups", "source_target_pairs"
    listed = [instruction.attrs.get(name, "") for name in names]
    return " ".join((base(instruction.opcode), *listed)) if listed[0] else ""


def unknown_attributes(instruction: Instruction) -> list[str]:
    """Return attributes of a communicating instruction that this reader has no rule for."""
    return sorted(name for name in instruction.attrs if name not in _KNOWN)


def is_synchronous_start(instruction: Instruction) -> bool:
    """Tell whether a start waits at once, as the GPU backend marks it."""
    return '"is_sync":true' in instruction.attrs.get("backend_config", "").replace(" ", "")


class Translator:
    """Turns the communicating instructions of a module into steps of one device.

    ``ranks`` maps logical devices to ranks of the plan.
    """

    def __init__(self, module: Module, program: int, ranks: Sequence[int]) -> None:
        self.module = module
        self.program = program
        self.ranks = ranks
        self._participants = Participants(module)
        self._known: dict[int, Ranks] = {}
        self._origins: dict[tuple[int, str, str], Origin] = {}
        self._reaches: dict[tuple[bool, int], Ranks] = {}

    def origin(self, instruction: Instruction, prefix: str, rounds: str) -> Origin:
        """Return where a step comes from."""
        key = id(instruction), prefix, rounds  # the module keeps the instruction, and so its id
        if key not in self._origins:
            self._origins[key] = self._origin(instruction, prefix, rounds)
        return self._origins[key]

    def _origin(self, instruction: Instruction, prefix: str, rounds: str) -> Origin:
        metadata = instruction.attrs.get("metadata", "")
        op_name = re.search(r'op_name="((?:[^"\\]|\\.)*)"', metadata)
        return Origin(
            program=self.program,
            name=prefix + _shown(instruction),
            round=rounds,
            line=instruction.line,
            place=self._place(metadata),
            op_name=op_name[1] if op_name else "",
            channel=instruction.attrs.get("channel_id", ""),
        )

    def partitions(self) -> list[Groups]:
        """Return the groups of all devices, for each set of groups that a step was made of."""
        return self._participants.partitions()

    def _place(self, metadata: str) -> str:
        frame = re.search(r"stack_frame_id=(\d{1,9})", metadata)
        if frame and int(frame[1]) in self.module.places:
            file, line, function = self.module.places[int(frame[1])]
            return f"{file}:{line} {function}".strip()
        file_match = re.search(r'source_file="([^"]*)"', metadata)
        line_match = re.search(r"source_line=(\d{1,9})", metadata)
        return f"{file_match[1]}:{line_match[1] if line_match else 0}" if file_match else ""

    def collective(
        self, instruction: Instruction, device: int, origin: Origin, shapes: Sequence[Shape]
    ) -> tuple[Collective, bool]:
        """Return a collective as one device sees it, and whether all devices end up alike."""
        kind = base(instruction.opcode)
        spelling = instruction.attrs.get("replica_groups", "{}")
        if spelling.startswith("mesh") and "device_ids" in instruction.attrs:
            spelling += f", device_ids={instruction.attrs['device_ids']}"
        groups = self._participants.groups(instruction, spelling, flat_ids=kind in _FLAT_IDS)
        group = groups[device]
        reduce_op = self._reduction(instruction, shapes) if "reduce" in kind else None
        step = Collective(
            op=_OPS[kind],
            origin=origin,
            group=self._ranks_of(group),
            parts=self._parts(kind, instruction, shapes, len(group)),
            reduce_op=reduce_op,
            root=self.ranks[group[0]] if kind == "collective-broadcast" else None,
        )
        alike = kind in {"all-reduce", "all-gather", "collective-broadcast"}
        return step, alike and len(group) == self.module.devices

    def _ranks_of(self, group: tuple[int, ...]) -> Ranks:
        if id(group) not in self._known:  # the participants keep the group, and so its identity
            self._known[id(group)] = Ranks(self.ranks[member] for member in group)
        return self._known[id(group)]

    def _parts(
        self, kind: str, instruction: Instruction, shapes: Sequence[Shape], members: int
    ) -> tuple[Part, ...]:
        if kind == "ragged-all-to-all":
            return (Part(None, shapes[0].plan_dtype() if shapes else None),)
        leaves = [leaf for shape in shapes for leaf in shape.leaves()]
        if kind == "all-to-all":
            sizes = [leaf.bytes() for leaf in leaves]
            whole = None if None in sizes else sum(size or 0 for size in sizes)
            return (Part(whole, leaves[0].plan_dtype() if leaves else None),)
        parts = []
        for leaf in leaves:
            size = leaf.bytes()
            if kind == "reduce-scatter" and size is not None:
                if size % members:
                    message = f"{instruction.name} does not divide among {members} devices"
                    self.module.fail(instruction.line, message, value=size)
                size //= members
            parts.append(Part(size, leaf.plan_dtype()))
        if not parts:
            self.module.fail(instruction.line, f"{instruction.name} has no operand")
        return tuple(parts)

    def _reduction(self, instruction: Instruction, shapes: Sequence[Shape]) -> str | None:
        name = instruction.attrs.get("to_apply", "").lstrip("%")
        if name not in self.module.computations:
            return None
        computation = self.module.computations[name]
        root = self.module.named(computation).get(computation.root or "")
        if root is not None and root.opcode == "tuple" and len(set(root.operands)) == 1:
            root = self.module.named(computation).get(root.operands[0])
        if root is None:
            return None
        found = _REDUCTIONS.get(root.opcode)
        logical = bool(shapes) and next(shapes[0].leaves(), shapes[0]).dtype == "pred"
        return found.replace("b", "l", 1) if found in {"band", "bor", "bxor"} and logical else found

    def exchange(
        self, instruction: Instruction, device: int, origin: Origin, shapes: Sequence[Shape]
    ) -> Exchange:
        """Return a collective permute as one device sees it."""
        spelling = instruction.attrs.get("source_target_pairs", "{}")
        domain, target, source = self._ends(instruction, spelling, device)
        moved = shapes[:1] if "slice_sizes" in instruction.attrs else shapes
        leaves = [leaf for shape in moved for leaf in shape.leaves()]
        sizes = [leaf.bytes() for leaf in leaves]
        unknown = None in sizes or "slice_sizes" in instruction.attrs
        size = None if unknown else sum(size or 0 for size in sizes)
        part = Part(size, leaves[0].plan_dtype() if leaves else None)
        return Exchange(origin, domain, part, target, source)

    def _ends(
        self, instruction: Instruction, spelling: str, device: int
    ) -> tuple[Ranks, int | None, int | None]:
        """Return the ranks that one permute can reach, the target and the source of a device."""
        ends = self._participants.ends(instruction, spelling)
        target, source = ends.targets.get(device), ends.sources.get(device)
        return (
            self._reach("channel_id" in instruction.attrs, device),
            None if target is None else self.ranks[target],
            None if source is None else self.ranks[source],
        )

    def _reach(self, channel: bool, device: int) -> Ranks:  # noqa: FBT001
        module = self.module
        replica, partition = divmod(device, module.partitions)
        key = channel, replica if channel else partition
        if key not in self._reaches:
            if channel:
                reach = [replica * module.partitions + p for p in range(module.partitions)]
            else:
                reach = [r * module.partitions + partition for r in range(module.replicas)]
            self._reaches[key] = Ranks(self.ranks[member] for member in reach)
        return self._reaches[key]

    def message(
        self, instruction: Instruction, device: int, origin: Origin, shapes: Sequence[Shape]
    ) -> Message | None:
        """Return a send or a receive of one device, None if it has no part in it.

        Raises:
            PlanError: The instruction does not say who talks to whom.
        """
        frontend = _frontend(instruction)
        spelling = instruction.attrs.get("source_target_pairs") or frontend.get(_PAIRS)
        if spelling is None:
            self.module.fail(
                instruction.line,
                f"{instruction.name} does not say who sends to whom",
                hint=f"frontend_attributes should have {_PAIRS}",
            )
        sends = instruction.opcode == "send"
        domain, target, source = self._ends(instruction, spelling, device)
        peer = target if sends else source
        if peer is None:
            return None
        moved = shapes[0] if sends and shapes else next(instruction.shape.leaves(), None)
        part = Part(moved.bytes() if moved else None, moved.plan_dtype() if moved else None)
        pipeline = frontend.get(_PIPELINE, "")
        # Both ends have the channel; their instructions have names of their own.
        place = f"{origin.name} {origin.place}".strip()
        shared = replace(origin, name=f"channel {origin.channel}", place=place)
        return Message(shared, domain, pipeline, part, peer, sends, origin.text)


def _frontend(instruction: Instruction) -> dict[str, str]:
    text = instruction.attrs.get("frontend_attributes", "{}").strip()
    try:
        parts = [part.partition("=") for part in split(text[1:-1])]
    except Unbalanced:
        return {}
    return {key.strip(): unquoted(value.strip()) for key, _, value in parts}


def _shown(instruction: Instruction) -> str:
    """Return the name of an instruction; where it is a number, with its operation."""
    if instruction.name[:1].isdigit():
        return f"{instruction.opcode} %{instruction.name}"
    return instruction.name
