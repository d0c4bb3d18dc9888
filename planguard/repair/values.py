"""Candidates that give the odd ones of a match what most of its members say."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from planguard.repair.patch import resolve
from planguard.repair.proposal import Proposal, add, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.pointers import Steps
    from planguard.repair.document import PlanText
    from planguard.verdict import Edit, Finding, Verdict

SIZE = ("bytes", "count", "tensor", "shape", "dtype")
FIELDS = {"PG202": SIZE, "PG203": SIZE, "PG204": ("reduce_op",), "PG205": ("root",)}
"""What may be made equal, by the code that says it differs."""
_WORDS = {"PG202": "size", "PG203": "element type", "PG204": "reduce operation", "PG205": "root"}


def agreements(text: PlanText, verdict: Verdict) -> Iterator[Proposal]:
    """Yield, for every match whose members disagree, what most of them say, for the others.

    Nothing is proposed where no value has more than half of the ranks: which side is wrong is then
    not known.
    """
    for finding in verdict.findings:
        fields = FIELDS.get(finding.code)
        if fields is None or finding.severity != "error":
            continue
        found = _agreed(text, finding, fields)
        if found is not None:
            yield found


def _agreed(text: PlanText, finding: Finding, fields: tuple[str, ...]) -> Proposal | None:
    votes: Counter[tuple[Any, ...]] = Counter()
    said: dict[tuple[Any, ...], dict[Steps, int]] = defaultdict(dict)
    for at in (finding.primary, *finding.related_actions):
        if at is None or at.member is not None:
            return None
        place = text.place(at.rank, at.action)
        action = resolve(text.document, place)
        value = tuple(_hashable(action.get(name)) for name in fields)
        program = text.program_of(place)
        ranks = set(text.ranks[program]) & set(finding.ranks)
        votes[value] += len(ranks) if place not in said[value] else 0
        said[value][place] = at.rank
    (most, count), *_ = votes.most_common(1)
    if 2 * count <= len(finding.ranks) or len(said) < 2:
        return None
    model = resolve(text.document, next(iter(said[most])))
    places = [place for value, those in said.items() if value != most for place in those]
    edits = [edit for place in places for edit in _copied(text, place, model, fields)]
    words = f"give {_list(len(places))} the {_WORDS[finding.code]} of the other {count} ranks"
    return Proposal("agree", tuple(edits), frozenset(places), words, tuple(places))


def _list(count: int) -> str:
    names = [f"{{{n}}}" for n in range(count)]
    return names[0] if count == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"


def _copied(
    text: PlanText, place: Steps, model: dict[str, Any], fields: tuple[str, ...]
) -> Iterator[Edit]:
    action = resolve(text.document, place)
    for name in fields:
        if name in model and action.get(name) != model[name]:
            yield add(*place, name, value=model[name])
        elif name in action and name not in model:
            yield remove(*place, name)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
