"""A repair in words: one sentence, and the lines of the plan before and after."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.plan.format import read
from planguard.plan.vocabulary import HANDLES, LIFETIME, RECEIVES, ROUNDS, SENDS
from planguard.repair.dependence import works
from planguard.repair.document import PlanText
from planguard.repair.patch import apply, resolve, steps_of
from planguard.words import cut, listed, name_ranks, rank_set, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.pointers import Steps
    from planguard.repair.proposal import Proposal
    from planguard.verdict import Edit

MAX_MEMBERS = 4


def spoken(start: PlanText, changes: Sequence[Proposal]) -> tuple[str, tuple[Edit, ...]]:
    """Return the sentence of a repair, and its edits, each with the lines that it changes."""
    said: list[str] = []
    edits: list[Edit] = []
    text = start
    for change in changes:
        said.append(_sentence(text, change))
        document = text.document
        for edit in change.edits:
            edits.append(replace(edit, text="\n".join(_lines(text, document, edit))))
            document = apply(document, (edit,))
        text = PlanText(read(document, limits=start.plan.limits), document)
    return "; then ".join(said), tuple(edits)


def _sentence(text: PlanText, change: Proposal) -> str:
    programs = {text.program_of(place) for place in change.places}
    names = []
    for place in change.places:
        prefix = "" if len(programs) == 1 else f"{_who(text, place)} "
        names.append(prefix + _named(text, place))
    sentence = change.text.format(*names)
    if len(programs) != 1:
        return sentence
    return f"on {name_ranks(text.ranks[programs.pop()])}, {sentence}"


def _who(text: PlanText, place: Steps) -> str:
    """Return who runs a place: ``r5``, or ``[0-3]``."""
    ranks = text.ranks[text.program_of(place)]
    return f"r{ranks[0]}" if len(ranks) == 1 else rank_set(ranks)


def _named(text: PlanText, place: Steps) -> str:
    action = resolve(text.document, place)
    number = text.number(place)
    head = "" if number is None else f"#{number} "
    return head + describe(action)


def describe(action: Any) -> str:
    """Return an action of a plan file in a few words: ``send -> 6 act_s1``."""
    if isinstance(action, list):
        return f"chain({listed([describe(one) for one in action])})"
    op = str(action["op"])
    parts = [op + _target(action)]
    if "label" in action:
        parts.append(shown(str(action["label"])))
    if action.get("async"):
        parts.append("async")
    if "work" in action and op not in HANDLES:
        parts.append(f"as {shown(str(action['work']))}")
    return " ".join(parts)


def _target(action: dict[str, Any]) -> str:
    op = action["op"]
    if op in SENDS:
        return f" -> {_peer(action['peer'])}"
    if op in RECEIVES:
        return f" <- {_peer(action['peer'])}"
    if op in ROUNDS | LIFETIME:
        return f" on {shown(str(action.get('group', 'world')))}"
    if op in HANDLES:
        return " " + ", ".join(map(shown, works(action)))
    if op == "batch":
        members = [describe(part) for part in action["ops"][:MAX_MEMBERS]]
        more = len(action["ops"]) - len(members)
        return f"({', '.join(members)}{f', {more} more' if more else ''})"
    return ""


def _peer(peer: Any) -> str:
    if not isinstance(peer, dict):
        return str(peer)
    moves = (f"{shown(str(k))}{v:+d}" for k, v in peer.items() if k != "wrap")
    return ", ".join(moves)


# --- lines ---------------------------------------------------------------------------------------


def _lines(text: PlanText, document: Any, edit: Edit) -> Iterator[str]:
    """Yield what an edit takes away and puts in, each line behind its sign."""
    steps = steps_of(document, edit.pointer, edit.op)
    if text.program_of(steps) < 0:
        field = ".".join(map(str, steps))
        yield "+ " + cut(f"{field}: {json.dumps(edit.value)}", 100)
        return
    who = _who(text, steps)
    if not isinstance(steps[-1], int):
        yield from _field_lines(who, text, document, steps, edit)
        return
    number = _number(text, steps)
    if edit.op != "add":
        yield f"- {who}{number} {describe(resolve(document, steps))}"
    if edit.op != "remove":
        yield f"+ {who}{number} {describe(edit.value)}"


def _field_lines(
    who: str, text: PlanText, document: Any, steps: Steps, edit: Edit
) -> Iterator[str]:
    """Yield a change of one field of an action."""
    action, field = resolve(document, steps[:-1]), str(steps[-1])
    head = f"{who}{_number(text, steps[:-1])} {describe(action)}"
    if field in {"body", "threads"}:
        yield f"- {head}"
        for leaf in (leaf for chain in edit.value for leaf in chain):
            yield f"+ {who} {describe(leaf)}"
        return
    if field in action:
        yield f"- {head}: {field} {cut(json.dumps(action[field]), 60)}"
    if edit.op != "remove":
        yield f"+ {head}: {field} {cut(json.dumps(edit.value), 60)}"


def _number(text: PlanText, steps: Steps) -> str:
    number = text.number(steps)
    if number is None and isinstance(steps[-1], int) and steps[-1] > 0:
        before = text.number((*steps[:-1], steps[-1] - 1))
        number = None if before is None else before + 1
    return "" if number is None else f"#{number}"
