"""From an action to the id of its signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from planguard.plan.actions import Kind, kind_name
from planguard.plan.code import Signature
from planguard.plan.compiling.operations import row_of
from planguard.plan.compiling.tables import coalesced_signature
from planguard.plan.defects import Defect
from planguard.plan.vocabulary import REDUCING_KINDS, ROOTED_KINDS, SPLIT_FIELDS

if TYPE_CHECKING:
    from planguard.plan.compiling.tables import Signatures, Sizes
    from planguard.plan.nodes import Coalesced, Collective, Sized


class Signing:
    """Makes signatures from the fields that members of a match compare."""

    def __init__(self, sizes: Sizes, signatures: Signatures, world_size: int) -> None:
        self.sizes = sizes
        self.signatures = signatures
        self._world_size = world_size

    def point_to_point(self, node: Sized) -> int:
        """Return the signature id of a send, receive or probe."""
        size, count, dtype = self.sizes.of(node)
        return self.signatures.intern(Signature(bytes=size, count=count, dtype=dtype))

    def collective(self, node: Collective, kind: int) -> int:
        """Return the signature id of a collective that is not coalesced.

        Raises:
            Defect: Missing or misplaced root, reduce operation or splits; a bad size.
        """
        # A barrier moves no data, whatever size it is given.
        size, count, dtype = self.sizes.of(node)
        if kind == Kind.BARRIER:
            size, count, dtype = 0, None, None
        signature = Signature(
            kind=kind,
            bytes=size,
            count=count,
            dtype=dtype,
            reduce_op=_reduce_op(node, kind),
            root=self._root(node, kind),
            splits=_splits(_with_splits(node, kind)),
        )
        return self.signatures.intern(signature)

    def operation(self, node: Collective, kind: int) -> int:
        """Return the signature id of an operation that another package registered.

        What its members need not agree on is not part of the signature.

        Raises:
            Defect: Missing or misplaced root; a bad size.
        """
        row = row_of(kind)
        size, count, dtype = self.sizes.of(node)
        root = None
        if node.root is not UNSET:
            root = self._bounded_root(node, node.root)
        elif row.degree == "root":
            hint = 'add "root": a global rank'
            raise Defect(node, "", f"{row.name} needs a root", hint=hint)
        reduce_op = "sum" if node.reduce_op is UNSET else node.reduce_op
        signature = Signature(
            kind=kind,
            bytes=size,
            count=count,
            dtype=dtype if "dtype" in row.agree else None,
            reduce_op=reduce_op if "reduce_op" in row.agree else None,
            root=root if "root" in row.agree else None,
            splits=_splits(node) if "splits" in row.agree else None,
            any_size="bytes" not in row.agree,
        )
        return self.signatures.intern(signature)

    def coalesced(self, node: Coalesced, kind: int) -> int:
        """Return the signature id of a coalesced collective."""
        signature = coalesced_signature(node, kind, self.sizes, _reduce_op(node, kind))
        return self.signatures.intern(signature)

    def _root(self, node: Collective, kind: int) -> int | None:
        name = kind_name(kind)
        if kind not in ROOTED_KINDS:
            if node.root is not UNSET:
                hint = "leave root out"
                raise Defect(node, "root", f"{name} has no root", value=node.root, hint=hint)
            return None
        if node.root is UNSET:
            raise Defect(node, "", f"{name} needs a root", hint='add "root": a global rank')
        return self._bounded_root(node, node.root)

    def _bounded_root(self, node: Collective, root: int) -> int:
        if root >= self._world_size:
            message = f"root is outside 0..{self._world_size - 1}"
            hint = "roots are global ranks, also inside a group"
            raise Defect(node, "root", message, code="PG404", value=root, hint=hint)
        return root


def _reduce_op(node: Collective | Coalesced, kind: int) -> str | None:
    if kind in REDUCING_KINDS:
        return "sum" if node.reduce_op is UNSET else node.reduce_op
    if node.reduce_op is not UNSET:
        message = f"{kind_name(kind)} does not reduce"
        raise Defect(node, "reduce_op", message, value=node.reduce_op, hint="leave reduce_op out")
    return None


def _with_splits(node: Collective, kind: int) -> Collective:
    """Return a collective whose splits, if it has any, are fields that mean something there."""
    taken = SPLIT_FIELDS.get(kind, ())
    for field in ("in_splits", "out_splits"):
        value = getattr(node, field)
        if value is UNSET or field in taken:
            continue
        name = kind_name(kind)
        if not taken:
            message, hint = f"{name} has no uneven form", f"leave {field} out"
        elif taken[0] == "out_splits":
            message = f"what a rank gives to {name} is its size"
            hint = "out_splits lists what comes from each member"
        else:
            message = f"what a rank gets from {name} is its size"
            hint = "in_splits lists what goes to each member"
        raise Defect(node, field, message, value=value, hint=hint)
    return node


def _splits(node: Collective) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None:
    if node.in_splits is UNSET and node.out_splits is UNSET:
        return None
    return (
        None if node.in_splits is UNSET else tuple(node.in_splits),
        None if node.out_splits is UNSET else tuple(node.out_splits),
    )
