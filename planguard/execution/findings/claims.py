"""What a SAFE answer may claim of a plan: nothing that was not compared.

Every word of ``proved`` has a plan of which it would be false; this module takes it away there. A
word that is missing is no alarm: what was not compared is an assumption.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import KIND_MASK, UNKNOWN_BYTES, Kind, is_collective
from planguard.plan.code import WORDS
from planguard.plan.vocabulary import SPLIT_FIELDS
from planguard.semantics.model import find_model

if TYPE_CHECKING:
    from planguard.plan.code import Program, Signature
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

PROVED = ("matching", "p2p-order", "collective-order", "no-send-buffering")
"""What a completed run shows, as far as the plan says what there is to compare."""
ROUNDS = "rounds"
UNSIZED = "sizes-not-compared"
BLANK = frozenset({Kind.BARRIER})
"""Collectives that move no data of the program's: there is nothing to label or to measure."""


def with_claims(verdict: Verdict, plan: Plan, columns: Any) -> Verdict:
    """Return a verdict that claims only what was compared.

    Args:
        verdict: The verdict on the plan.
        plan: The plan as asked, before any of its orders or picks was chosen.
        columns: Its columns.
    """
    if not verdict.safe:
        return verdict
    used = set(plan.code.rank_program)
    programs = [one for index, one in enumerate(plan.code.programs) if index in used]
    false = set()
    if not _all_sized(programs, plan.code.signatures):
        false.add("matching")
        if UNSIZED not in verdict.assumptions:
            verdict = replace(verdict, assumptions=(*verdict.assumptions, UNSIZED))
    if columns.has_any_source or columns.has_any_tag:
        false.add("p2p-order")  # each comes when it comes
    if find_model(verdict.model).send_modes and _has_kind(programs, Kind.BSEND):
        false.add("no-send-buffering")  # it asks for a buffer
    proved = [word for word in verdict.proved if word not in false]
    has_labels = bool(plan.code.label_names)
    if has_labels and "collective-order" in proved and _all_labeled(programs):
        proved.insert(proved.index("collective-order") + 1, ROUNDS)
    return replace(verdict, proved=tuple(dict.fromkeys(proved)))


def _has_kind(programs: list[Program], kind: Kind) -> bool:
    return any(kind in {op & KIND_MASK for op in set(one.code[::WORDS])} for one in programs)


def _all_sized(programs: list[Program], signatures: tuple[Signature, ...]) -> bool:
    """Tell whether every communication says how much it moves, so that all sizes were compared."""
    open_ones = {number for number, one in enumerate(signatures) if number and _is_unsized(one)}
    for program in programs:
        if open_ones and not open_ones.isdisjoint(program.code[3::WORDS]):
            words = zip(program.code[::WORDS], program.code[3::WORDS], strict=True)
            if any(sig in open_ones and op & KIND_MASK != Kind.COPY for op, sig in words):
                return False
    return True


def _is_unsized(signature: Signature) -> bool:
    if signature.any_size or signature.kind in BLANK:
        return False
    if signature.layout is not None:
        return any(size == UNKNOWN_BYTES for size, _ in signature.layout)
    if signature.splits is None:
        return signature.bytes is None
    fields = SPLIT_FIELDS.get(signature.kind, ("in_splits", "out_splits"))
    if len(fields) == 2 and None not in signature.splits:
        return False
    return signature.count is None  # parts are counted in elements


def _all_labeled(programs: list[Program]) -> bool:
    """Tell whether there are collectives and all have labels, so that rounds were compared."""
    found = False
    for program in programs:
        ops = program.code[::WORDS]
        moving = {op for op in set(ops) if _moves(op)}
        if not moving:
            continue
        if not moving.isdisjoint(compress(ops, map(not_, program.code[4::WORDS]))):
            return False
        found = True
    return found


def _moves(op: int) -> bool:
    kind = op & KIND_MASK
    return is_collective(kind) and kind not in BLANK
