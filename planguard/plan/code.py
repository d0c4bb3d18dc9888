"""CompiledPlan: the symbolic plan as words, one block of words per distinct rank program.

This is what the kernels expand. Its size follows the text of the plan, not the number of ranks or
of repetitions: groups stay families, loops stay loops.
"""

from __future__ import annotations

from array import array
from typing import Any

from msgspec import Struct, field

from planguard.plan.nodes import Action
from planguard.plan.pointers import Steps, find_node, render

WORDS = 6
"""Words per instruction: op, a, b, sig, label, stream."""

REF_WORDS = 6
"""Words per communication reference: type, group, peer mode, peer a, peer b, tag."""

POOLED = 0x80000000
"""Set in a label word whose label depends on the iteration of the innermost enclosing repeat."""


class Signature(Struct, frozen=True):
    """What the members of one match must agree on.

    Attributes:
        kind: Kind of the collective, or 0 for point-to-point, so that the two sides of a transfer
            of equal size share one signature.
        bytes: Size in bytes, or None when the plan does not say.
        count: Elements, when bytes and element type say them.
        dtype: Element type, when the plan gives it.
        reduce_op: Name of the reduce operation, or None.
        root: Global rank of the root, or None.
        layout: ``(bytes, dtype code)`` of every tensor of a coalesced collective.
        splits: ``(in_splits, out_splits)`` in elements; None for an even split.
        any_size: Sizes need not agree (a registered operation that says so).
    """

    kind: int = 0
    bytes: int | None = None
    count: int | None = None
    dtype: str | None = None
    reduce_op: str | None = None
    root: int | None = None
    layout: tuple[tuple[int, int], ...] | None = None
    splits: tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None = None
    any_size: bool = False


class Program(Struct, frozen=True):
    """The instructions of one template, or of one explicit rank program.

    Attributes:
        name: Template name, or the selector for an explicit program.
        steps: Place of its list of actions in the plan: ``("ranks", "2", "actions")``.
        actions: The list itself, as read.
        code: ``WORDS`` words per instruction, array ``I``.
        nodes: The action of every instruction, for messages.
        length: Number of actions: loops unrolled, a batch counted once.
        n_slots: Number of handle, id and event slots.
        slot_names: Name of every slot, for messages.
        ids: Action of every id.
        origins: For a program that had to be unrolled, identity of a copied action to its origin.
        left: What ``reading.lifecycle.left_running`` found of these words, behind the words and
            the lists that it found it of: the door asks, and whoever looks for hazards.
    """

    name: str
    steps: Steps
    actions: list[Action]
    code: array[int]
    nodes: list[Action]
    length: int
    n_slots: int
    slot_names: tuple[str, ...]
    ids: dict[str, Action] = field(default_factory=dict)
    origins: dict[int, Action] = field(default_factory=dict)
    left: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.code) // WORDS

    @property
    def path(self) -> str:
        """JSON path of its list of actions."""
        return render(self.steps)

    def steps_of(self, instruction: int) -> Steps:
        """Return the place in the plan of the action behind an instruction."""
        node = self.nodes[instruction]
        return self.steps + find_node(self.actions, self.origins.get(id(node), node))

    def __repr__(self) -> str:
        return f"Program({self.name!r}, {len(self)} instructions)"


class CompiledPlan(Struct, frozen=True):
    """A plan as words; ``docs/explanation/reading-plans.md`` tells how it is made.

    Attributes:
        world_size: Number of ranks.
        mesh_sizes: Sizes of the mesh dimensions, array ``I``; empty without a mesh. Row-major:
            the last dimension varies fastest.
        group_names: Name of every group; group 0 is ``world``.
        group_kind: 0 explicit, 1 family, array ``B``.
        group_off: CSR offsets into ``group_members``, array ``I``; empty range for a family.
        group_members: Global ranks of the explicit groups in order, array ``I``.
        group_mask: Bit d set: mesh dimension d varies inside the group (families), array ``I``.
        refs: ``REF_WORDS`` words per interned reference, array ``i``.
        programs: The distinct rank programs.
        rank_program: Program index of every rank, array ``I``.
        sig_kind: Kind of the collective, 0 point-to-point, array ``B``; signature 0 means none.
        sig_bytes: Bytes, ``UNKNOWN_BYTES`` when not given or not compared, array ``Q``.
        sig_dtype: Code of the element type, 0 when not given, array ``B``.
        sig_redop: Code of the reduce operation, 0 none, array ``B``.
        sig_root: Global rank of the root, ``NONE`` without one, array ``I``.
        sig_layout: Interned layout of a coalesced collective, 0 none, array ``I``.
        sig_splits: Interned split vectors, 0 none, array ``I``.
        signatures: The same as objects; ``signatures[0]`` is empty.
        layouts: Layout of every layout id; entry 0 is empty.
        splits: ``(in, out)`` of every splits id; entry 0 is ``(None, None)``.
        label_names: Text of label id 1, 2, ... (label 0 is "no label").
        label_lists: Of the label ids that stand for a coalesced collective with labelled parts: its
            own label and those of its parts.
        label_pool: Label ids of the labels that depend on an iteration, array ``I``.
        aux: Variable-length lists ``[n, x1 .. xn]``, array ``I``.
        streams: Stream names; 0 is ``main``.
    """

    world_size: int
    mesh_sizes: array[int]
    group_names: tuple[str, ...]
    group_kind: array[int]
    group_off: array[int]
    group_members: array[int]
    group_mask: array[int]
    refs: array[int]
    programs: tuple[Program, ...]
    rank_program: array[int]
    sig_kind: array[int]
    sig_bytes: array[int]
    sig_dtype: array[int]
    sig_redop: array[int]
    sig_root: array[int]
    sig_layout: array[int]
    sig_splits: array[int]
    signatures: tuple[Signature, ...]
    layouts: tuple[tuple[tuple[int, int], ...], ...]
    splits: tuple[tuple[tuple[int, ...] | None, tuple[int, ...] | None], ...]
    label_names: tuple[str, ...]
    label_lists: dict[int, tuple[str | None, ...]]
    label_pool: array[int]
    aux: array[int]
    streams: tuple[str, ...]
