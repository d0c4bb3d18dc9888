"""What a recorded run leaves open: the order of gradients, and of threads.

Calls that hooks on gradients issue come as autograd makes the gradients ready. Inside one backward
pass they become an `unordered` block: one item for every hook, `after` those of the operators that
the data flow puts first. Any other call, and any wait, is a fence, as operator boundaries and
synchronization are for dl2; on which side of it a hook stands is the order of the run, and a ledger
entry says so. Calls of several host threads become `threads`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from planguard.capture.names.thread_orders import BY, THREAD, lists, open_threads
from planguard.capture.run.fused import (
    Buffers,
    buffers_of,
    is_known,
    may_hold_others,
    opens,
    ready_chains,
)
from planguard.capture.run.marks import STARTED_HERE, Pass
from planguard.capture.run.values import agreed_names
from planguard.plan.vocabulary import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planguard.capture.run.ranks import ReadRank

Action = dict[str, Any]
Note = tuple[str, str, str]
ORDER, THREADS = "gradient-order", "host-threads"
_MESSAGES = MESSAGES | {"batch"}


@dataclass(frozen=True)
class Opened:
    """What is left open in a run.

    Attributes:
        programs: Program and ledger entries of every rank.
        fusion: Fused buffers: identifier, and identifiers of the members.
    """

    programs: dict[int, tuple[list[Action], list[Note]]]
    fusion: list[tuple[str, list[str]]]


def open_orders(ranks: Sequence[ReadRank], *, are_fixed: bool = False) -> Opened:
    """Return the program of every rank with what the run leaves open, and ledger entries.

    Args:
        ranks: The ranks.
        are_fixed: Every gradient is taken to have its place in a buffer before it is ready.
    """
    buffers = buffers_of(ranks)
    for action, label in _values(ranks).items():
        buffers.labels.setdefault(action, label)
    labels = _labels(ranks) | buffers.labels
    programs, used = {}, set()
    for one in ranks:
        actions, notes, members = _program(one, labels, buffers)
        used |= members
        programs[one.log.rank] = actions, [*notes, *_refilled(one, are_fixed=are_fixed)]
    return Opened(programs, [row for row in buffers.fusion if used & set(row[1])])


def _refilled(one: ReadRank, *, are_fixed: bool) -> list[Note]:
    """Say that other orders of readiness may fill buffers otherwise."""
    edges: dict[int, frozenset[tuple[str, str]]] = {}
    for action in one.actions:
        which, held = _pass_of(one, action), one.marks.holds.get(id(action))
        if which is not None and held is not None:
            edges[held.backward] = frozenset(which.edges)
    passes = list(may_hold_others(one, edges))
    if not passes:
        return []
    said = (
        f"in {len(passes)} backward pass{'es' if len(passes) > 1 else ''} of rank {one.log.rank} "
        "gradients went into buffers as they became ready, as far as is recorded: another order "
        "may put them in other buffers or places"
    )
    if are_fixed:
        return [("gradient-buffers", f"{said}; taken to be fixed before (buffers=fixed)", "exact")]
    hint = "; if the places are fixed before, --option buffers=fixed assumes so"
    return [("gradient-buffers", said + hint, "under")]


def _program(
    one: ReadRank, labels: dict[int, str], buffers: Buffers
) -> tuple[list[Action], list[Note], set[str]]:
    rank = one.log.rank
    numbers = {one.marks.threads.get(id(a), 0) for a in one.actions if a["op"] != "drop"} - {0}
    if len(numbers) > 1:
        return *_threads(one, rank), set()
    runs = [(w, list(run)) for w, run in groupby(one.actions, lambda a: _pass_of(one, a))]
    apart = Counter(which.first if which is not None else -1 for which, _ in runs)
    found: list[Action] = []
    moved, fills, known, differ = 0, False, False, False
    works: dict[str, list[str]] = {}
    seen: Counter[int] = Counter()
    for which, actions in runs:
        chains = _chains(one, actions) if which is not None else []
        if which is None or len(chains) < 2:
            found += [{**_waiting(a, works), **_content(buffers, a)} for a in actions]
            continue
        moved += len(actions)
        seen[which.first] += 1
        name = f"p{which.first}r{seen[which.first]}"
        if not any(one.marks.places[id(chain[0])].label is None for chain in chains):
            found.append(_block(name, _operators(one, chains), which.edges, chains, labels))
        elif apart[which.first] == 1 and opens(one, chains, buffers):
            rows = ready_chains(one, chains, buffers, works)
            operators = [operator for operator, _ in rows]
            ready = [calls for _, calls in rows]
            found.append(_block(name, operators, which.edges, ready, labels))
            known = True
        elif is_known(chains, buffers) and not all(id(a) in buffers.members for a in actions):
            differ = True
            found += [{**action, **_content(buffers, action)} for action in actions]
        else:
            fills = True
            found.append(_block(name, _operators(one, chains), (), chains, labels))
    notes = _apart(rank, apart)
    if not moved:
        return found, notes, set()
    said = f"{moved} calls of rank {rank} come from hooks on gradients, in any order of readiness"
    notes = [(ORDER, said, "exact"), *notes]
    if known:
        said = f"rank {rank} sends a buffer when its last gradient is ready, as it was seen to"
        notes.append(("gradient-buffers", said, "exact"))
    if differ:
        said = f"buffers of rank {rank} hold other gradients than elsewhere: the order of this run"
        notes.append(("gradient-buffers", said, "under"))
    if fills:
        said = f"rank {rank} fills buffers in hooks on gradients; what each holds is not recorded"
        notes += [("gradient-buffers", said, "under"), ("gradient-buffers", said, "over")]
    return found, notes, {name for names in works.values() for name in names}


def _operators(one: ReadRank, chains: list[list[Action]]) -> list[str]:
    return [one.marks.places[id(chain[0])].operator for chain in chains]


def _waiting(action: Action, works: dict[str, list[str]]) -> Action:
    """Return a wait with the members that stand for the calls it waits for."""
    if action["op"] != "wait":
        return action
    given = action["work"]
    names = [given] if isinstance(given, str) else given
    waited = [member for name in names for member in works.get(name, [name])]
    return {**action, "work": waited[0] if len(waited) == 1 else waited}


def _content(buffers: Buffers, action: Action) -> Action:
    """Return the label of a call whose place is fixed: what it holds."""
    return {"label": buffers.labels[id(action)]} if id(action) in buffers.labels else {}


def _apart(rank: int, runs: Counter[int]) -> list[Note]:
    """Say that hooks of one backward pass have other calls between them, which do not move.

    ::

        recorded:   hook A   call of an operator's backward   hook B
        left open:  the order of A and B, and of each and the call
    """
    cut = sum(count > 1 for first, count in runs.items() if first >= 0)
    if not cut:
        return []
    passes = f"{cut} backward pass{'es' if cut > 1 else ''}"
    said = f"in {passes} of rank {rank} other calls stand between those of hooks"
    return [(ORDER, f"{said}; all of them keep the order of this run", "under")]


def _pass_of(one: ReadRank, action: Action) -> Pass | None:
    place = one.marks.places.get(id(action))
    if place is None or not place.item:
        return None
    return next((which for which in one.marks.passes if place.item in which.items), None)


def _chains(one: ReadRank, actions: list[Action]) -> list[list[Action]]:
    """Return the calls of every hook, which keep their order."""
    return [list(run) for _, run in groupby(actions, lambda a: one.marks.places[id(a)].item)]


def _block(
    name: str,
    operators: list[str],
    edges: Iterable[tuple[str, str]],
    chains: list[list[Action]],
    labels: dict[int, str],
) -> Action:
    kept = set(edges)
    body: list[Any] = []
    last: dict[str, list[str]] = {}
    for place, operator in enumerate(operators):
        last.setdefault(operator, []).append(f"{name}c{place}")
    for place, (chain, operator) in enumerate(zip(chains, operators, strict=True)):
        before = [other for other in last if (other, operator) in kept]
        # What comes before something that comes before needs no edge of its own.
        near = [a for a in before if not any((a, b) in kept for b in before)]
        items = [{**_label(labels, action), **action} for action in chain]
        after = [earlier for other in near for earlier in last[other]]
        if after:
            items[0]["after"] = after
        items[-1].setdefault("id", f"{name}c{place}")
        body.append(items if len(items) > 1 else items[0])
    ids = {f"{name}c{n}": _id(item) for n, item in enumerate(body)}
    for item in body:
        head = item[0] if isinstance(item, list) else item
        if "after" in head:
            head["after"] = [ids[one] for one in head["after"]]
    return {"op": "unordered", "body": body}


def _id(item: Any) -> str:
    return str((item[-1] if isinstance(item, list) else item)["id"])


def _label(labels: dict[int, str], action: Action) -> Action:
    return {"label": labels[id(action)]} if id(action) in labels else {}


def _labels(ranks: Sequence[ReadRank]) -> dict[int, str]:
    """Return what identifies the data of the calls that may move.

    It is the name of the parameter where all members of the group name the same ones; elsewhere the
    place on the group, since the calls of a run that finished did meet.
    """
    named: dict[str, dict[int, list[tuple[Action, str]]]] = {}
    for one in ranks:
        for action, label in _named(one):
            named.setdefault(action["group"], {}).setdefault(one.log.rank, []).append(
                (action, label)
            )
    found: dict[int, str] = {}
    for by_rank in named.values():
        counts = [Counter(label for _, label in rows) for rows in by_rank.values()]
        alike = all(count == counts[0] for count in counts)
        for rows in by_rank.values():
            for number, (action, label) in enumerate(rows):
                found[id(action)] = label if alike else f"gradient {number}"
    return found


def _values(ranks: Sequence[ReadRank]) -> dict[int, str]:
    """Return what a few values say of the calls of every group: what they took, else gave."""
    found: dict[int, str] = {}
    groups = {key: members for one in ranks for key, members in one.groups.items()}
    by_rank = {one.log.rank: one for one in ranks}
    for key, members in groups.items():
        for side in ("in", "out"):
            names = {
                rank: [
                    (id(action), one.marks.values[side].get(id(action)))
                    for action in one.actions
                    if action.get("group") == key
                    and action["op"] not in _MESSAGES
                    and id(action) not in found
                ]
                for rank in members
                if (one := by_rank.get(rank)) is not None
            }
            if len(names) == len(members):
                found |= agreed_names(names)
    return found


def _named(one: ReadRank) -> Iterator[tuple[Action, str]]:
    numbers = {which: number for number, which in enumerate(one.marks.passes)}
    seen: Counter[tuple[int, str]] = Counter()
    for action in one.actions:
        which, place = _pass_of(one, action), one.marks.places.get(id(action))
        if which is None or place is None or action["op"] in _MESSAGES:
            continue
        key = place.item, str(action.get("group"))
        again = f" call {seen[key]}" if seen[key] else ""
        seen[key] += 1
        yield action, f"{place.label or place.operator}{again}, backward {numbers[which]}"


def _threads(one: ReadRank, rank: int) -> tuple[list[Action], list[Note]]:
    """Return the calls of every thread as a list of its own, interleaved freely."""
    calls = [action for action in one.actions if action["op"] != "drop"]
    numbers = {one.marks.threads.get(id(action), 0) for action in calls} - {0}
    if sum(number <= STARTED_HERE for number in numbers) <= 1:
        return _between_start_and_join(one, rank)
    found, crosses = lists(one.actions, one.marks.threads)
    said = f"rank {rank} communicates from {len(found)} threads"
    if crosses:
        said += ", and one waits for what another started: their order is not recorded"
        return one.actions, [(THREADS, said, "under"), (THREADS, said, "over")]
    said += "; when each begins and ends is not recorded, so they are taken to run all the time"
    return [{"op": "threads", "threads": found}], [(THREADS, said, "over")]


def _between_start_and_join(one: ReadRank, rank: int) -> tuple[list[Action], list[Note]]:
    """Return the calls with those of threads interleaved from their start to their join."""
    calls = {id(a): one.marks.threads.get(id(a), 0) for a in one.actions if a["op"] != "drop"}
    main = next((number for number in calls.values() if 0 < number <= STARTED_HERE), None)
    turns = list(one.marks.turns)
    marked: list[Action] = []

    def pass_turns(count: int) -> None:
        while turns and turns[0][0] <= count:
            _, op, number, by = turns.pop(0)
            marked.append({"op": op, THREAD: number, **({} if by == main else {BY: by})})

    for count, action in enumerate(one.actions):
        pass_turns(count)
        thread = one.marks.threads.get(id(action), 0)
        marked.append({**action, THREAD: thread} if thread > STARTED_HERE else action)
    pass_turns(len(one.actions))
    found, notes = open_threads(rank, marked)
    said = (
        f"rank {rank} communicates from several threads; what orders them but start, join and the "
        "results of tasks is not recorded, so they are interleaved freely in between"
    )
    return found, [(THREADS, said, "over"), *notes]
