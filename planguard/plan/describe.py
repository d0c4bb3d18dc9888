"""One action in one line, for people: ``send -> 6  act_s1_s2  4.00 MiB f16``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.errors import shorten
from planguard.plan import nodes as n
from planguard.plan.actions import Kind, is_collective
from planguard.plan.code import WORDS

if TYPE_CHECKING:
    from planguard.plan.code import Signature
    from planguard.plan.plan import Plan
    from planguard.plan.views import ActionView

SHOWN_MEMBERS = 4
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size: int) -> str:
    """Return a size in IEC units with two decimals: ``4.00 MiB``; plain bytes below 1 KiB."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{size / 1024**power:.2f} {_UNITS[power]}"


def describe(plan: Plan, view: ActionView) -> str:
    """Return the action in one line of printable ASCII."""
    return "  ".join(part for part in (_head(plan, view), *_details(plan, view)) if part)


def _head(plan: Plan, view: ActionView) -> str:
    node: Any = view.action
    if isinstance(node, n.Send | n.Isend):
        return f"{view.op} -> {_peer(plan, view, node)}"
    if isinstance(node, n.Recv | n.Irecv | n.Probe):
        return f"{view.op} <- {_peer(plan, view, node)}"
    if isinstance(node, n.Collective | n.Coalesced | n.Init | n.NewGroup | n.Destroy):
        kind = f"coalesced {node.kind}" if isinstance(node, n.Coalesced) else view.op
        group = "world" if node.group is UNSET else node.group
        # new_group and destroy name the family, everything else one group of it.
        family = isinstance(node, n.NewGroup | n.Destroy)
        return f"{kind} on {shorten(group if family else plan.group_name(group, view.rank), 40)}"
    if isinstance(node, n.Wait | n.Test | n.Drop):
        return f"{view.op} {_works(node)}"
    if isinstance(node, n.EventRecord | n.EventWait):
        return f"{view.op} {shorten(node.event, 40)}"
    if isinstance(node, n.Batch):
        return f"batch({_members(plan, view)})"
    return view.op + (" end" if view.kind.name.endswith("_END") else "")


def _peer(plan: Plan, view: ActionView, node: n.PointToPoint) -> str:
    peer = plan.peer(view.rank, node)
    return "any" if peer is None else str(peer)


def _works(node: Any) -> str:
    if isinstance(node.work, str):
        return shorten(node.work, 40)
    mode = "" if node.mode is UNSET or node.mode == "all" else f"{node.mode} of "
    return (
        mode
        + ", ".join(shorten(work, 20) for work in node.work[:SHOWN_MEMBERS])
        + (", ..." if len(node.work) > SHOWN_MEMBERS else "")
    )


def _members(plan: Plan, view: ActionView) -> str:
    count = len(view.action.ops)  # type: ignore[union-attr]
    shown = []
    for member in range(min(count, SHOWN_MEMBERS)):
        inner = plan.action_at(view.rank, view.index, member)
        label = shorten(inner.label, 40) if inner.label else ""
        shown.append(f"{_head(plan, inner)} {label}".rstrip())
    more = count - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


def _details(plan: Plan, view: ActionView) -> list[str]:
    node: Any = view.action
    parts = []
    if isinstance(node, n.Compute) and node.op_name is not UNSET:
        parts.append(shorten(node.op_name, 40))
    if view.label:
        parts.append(shorten(view.label, 40))
    elif isinstance(node, n.Sized) and node.tensor is not UNSET:
        parts.append(shorten(node.tensor, 40))
    if isinstance(node, n.PointToPoint) and node.tag is not UNSET and node.tag != 0:
        parts.append(f"tag {node.tag}")
    program = plan.code.programs[plan.code.rank_program[view.rank]]
    sig = program.code[view.instruction * WORDS + 3]
    if sig:
        parts += _signature(plan.code.signatures[sig], view.kind)
    return parts


def _signature(signature: Signature, kind: Kind) -> list[str]:
    parts = []
    if signature.bytes is not None and kind != Kind.BARRIER:
        parts.append(f"{format_bytes(signature.bytes)} {signature.dtype or ''}".rstrip())
    if signature.root is not None:
        parts.append(f"root {signature.root}")
    if is_collective(kind) and signature.reduce_op not in {None, "sum"}:
        parts.append(str(signature.reduce_op))
    return parts
