"""Ranks renumbered along the communication: one form for all plans that differ by rank numbers.

A rank program is a sequence, its references are numbered in the order of first use and the members
of a group stand in order, so from one starting rank the walk over peers and groups numbers every
rank it reaches in one way only. What remains is the choice of the start: color refinement finds
the ranks that look different, the walk is made from each rank of the rarest color (up to
``STARTS``), and the least form wins. Whatever is chosen, a form is a relabelling of the plan:
equal forms are isomorphic plans.

Above 400 lines: what a program says without its names and the walk that numbers the ranks are the
two halves of one form, and a change of either changes both.
"""

from __future__ import annotations

import marshal
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.actions import (
    KIND_MASK,
    NONE,
    ON_GROUPS,
    Kind,
    PeerMode,
    RefType,
)
from planguard.plan.code import POOLED, REF_WORDS, WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.code import Program
    from planguard.plan.plan import Plan

STARTS = 6
"""Starting ranks that are tried where several look alike."""
LIMIT = 1_000
"""References of all ranks beyond which a check is cheaper than a canonical form."""
# Numbers: an enum's member is looked up by its name each time, and this is asked of every word.
_INIT, _HOST_SYNC = int(Kind.INIT), int(Kind.HOST_SYNC)
_FIRST_OPEN, _LAST_OPEN = int(Kind.UNORDERED_BEGIN), int(Kind.AFTER)
_GROUPS = frozenset({int(Kind.NEW_GROUP), int(Kind.DESTROY)})
_LISTS = frozenset({int(Kind.WAIT_MANY), int(Kind.COMPUTE)})
WORD_LIMIT = 20_000
"""Instructions of all programs beyond which a check is cheaper."""
ROUNDS = 4


@dataclass(frozen=True)
class RankForm:
    """A plan with its ranks renumbered.

    Attributes:
        form: The form, a hashable value that determines the plan up to renaming.
        order: The rank of the plan behind every number of the form.
        names: Names of data with their places in the form.
    """

    form: tuple[Any, ...]
    order: tuple[int, ...]
    names: tuple[tuple[Any, str], ...]


@dataclass
class _Abstract:
    """A program without names: its words, and the tables its words point into."""

    text: bytes
    refs: list[int]
    groups: list[int]
    roots: list[int]
    labels: list[int]
    named: list[tuple[int, str]]


Resolved = tuple[tuple[int, ...], ...]
"""References of one rank: ``(type, instance, peer, tag)``; a group instance has no peer."""


def rank_form(plan: Plan) -> RankForm | None:
    """Return the rank form of a plan.

    None where ranks have to stay as they are (fused buffers, approximations that name actions,
    blocks whose order is open), or where the form would cost more than a check.

    Args:
        plan: A plan that passed the door.
    """
    if not may_have_form(plan):
        return None
    code = plan.code
    programs = []
    for program in code.programs:
        abstract = _abstract(plan, program)
        if abstract is None:
            return None
        programs.append(abstract)
    if sum(1 + len(programs[index].refs) for index in code.rank_program) > LIMIT:
        return None
    return _Walks(plan, programs).best()


def may_have_form(plan: Plan) -> bool:
    """Tell, by what is quickly seen, whether a plan may have a rank form."""
    code = plan.code
    if plan.fusion or any(entry.actions for entry in plan.approximations):
        return False
    return sum(map(len, code.programs)) <= WORD_LIMIT and len(code.rank_program) <= LIMIT


# --- programs without names --------------------------------------------------------------------


def _abstract(plan: Plan, program: Program) -> _Abstract | None:
    words = program.code
    ops, first, second, sigs, labels, streams = (words[column::WORDS] for column in range(WORDS))
    kinds = {op & KIND_MASK for op in set(ops)}
    if any(_FIRST_OPEN <= kind <= _LAST_OPEN for kind in kinds):
        return None
    from planguard.guard.signature import facts_of

    refs: list[int] = []
    groups: list[int] = []
    roots: dict[int, int] = {}
    operands = _operands(plan, ops, first, kinds, refs, groups)
    used, sig_numbers = _numbered(sigs)
    signatures = [_signature(plan, sig, roots) for sig in used]
    text = marshal.dumps(
        (
            ops.tobytes(), operands, second.tobytes(), sig_numbers, signatures,
            *(named := _labels(plan, program, labels))[1:],
            [plan.code.streams[stream] for stream in streams] if any(streams) else (),
            program.n_slots, facts_of(program),
        ),
        2,
    )  # fmt: skip
    return _Abstract(text, refs, groups, list(roots), named[0], _data_names(program))


def _operands(
    plan: Plan, ops: Sequence[int], first: array[int], kinds: set[int],
    refs: list[int], groups: list[int],
) -> Any:  # fmt: skip
    """Return the first operands without names: references and groups in the order of their use."""
    if all(map(_is_reference, kinds)):
        refs[:] = dict.fromkeys(first)
        places = {ref: place for place, ref in enumerate(refs)}
        return array("I", [places[ref] for ref in first]).tobytes()
    of_refs: dict[int, int] = {}
    of_groups: dict[int, int] = {}
    naming = {kind for kind in kinds if _is_reference(kind)}
    found: list[Any] = []
    for op, value in zip(ops, first, strict=True):
        kind = op & KIND_MASK
        if kind in naming:
            found.append(_local(of_refs, refs, value))
        elif kind in _GROUPS:
            found.append(_local(of_groups, groups, value))
        elif kind in _LISTS and value != NONE:
            found.append(tuple(_listed(plan, value)))
        elif kind == _HOST_SYNC and value:
            found.append(plan.code.streams[value - 1])
        else:
            found.append(value)
    return found


def _is_reference(kind: int) -> bool:
    return kind in ON_GROUPS


def _numbered(values: Sequence[int]) -> tuple[list[int], bytes]:
    """Return the distinct values but 0, and each one's number; 0 stays."""
    distinct = dict.fromkeys(values)
    distinct.pop(0, None)
    places = {value: place for place, value in enumerate(distinct, start=1)}
    places[0] = 0
    return list(distinct), array("I", [places[value] for value in values]).tobytes()


def _labels(plan: Plan, program: Program, words: array[int]) -> tuple[list[int], Any]:
    """Return the labels of a program, and what stands for each word: a number, or one a turn."""
    if max(words, default=0) < POOLED:
        return _numbered(words)
    table: dict[int, int] = {}
    labels: list[int] = []
    return labels, [
        word and _label(plan, program, place, word, table, labels)
        for place, word in enumerate(words)
    ]


def _data_names(program: Program) -> list[tuple[int, str]]:
    """Return ids and tensors with their places; tensors at negative ones."""
    named: list[tuple[int, str]] = []
    for place, node in enumerate(program.nodes):
        if node.id is not UNSET:
            named.append((place, node.id))
        tensor = getattr(node, "tensor", UNSET)
        if tensor is not UNSET:
            named.append((-1 - place, tensor))
    return named


def _local(table: dict[int, int], values: list[int], value: int) -> int:
    found = table.get(value)
    if found is None:
        found = table[value] = len(values)
        values.append(value)
    return found


def _listed(plan: Plan, offset: int) -> Any:
    aux = plan.code.aux
    return aux[offset + 1 : offset + 1 + aux[offset]]


def _signature(plan: Plan, sig: int, roots: dict[int, int]) -> tuple[Any, ...]:
    from planguard.guard.signature import signature_key

    key = signature_key(plan.code.signatures[sig])
    if key[5] is None:
        return key
    return (*key[:5], roots.setdefault(key[5], len(roots)), *key[6:])


def _label(
    plan: Plan, program: Program, place: int, word: int, table: dict[int, int], labels: list[int]
) -> Any:
    if not word & POOLED:
        return _local(table, labels, word) + 1
    times = _times(program, place)
    offset = word & ~POOLED
    pool = plan.code.label_pool[offset : offset + times]
    return tuple(_local(table, labels, label) + 1 for label in pool)


def _times(program: Program, instruction: int) -> int:
    """Return the iterations of the innermost loop around an instruction."""
    words, times, place, end = program.code, 1, 0, len(program)
    while place < end:
        if words[place * WORDS] & KIND_MASK == Kind.REPEAT:
            body = words[place * WORDS + 2]
            if place < instruction <= place + body:
                times = words[place * WORDS + 1]
                end = place + 1 + body
            else:
                place += body
        place += 1
    return times


# --- the walk ----------------------------------------------------------------------------------


@dataclass
class _Numbering:
    number: dict[int, int] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def add(self, rank: int) -> None:
        if rank not in self.number:
            self.number[rank] = len(self.order)
            self.order.append(rank)


class _Walks:
    """Everything that the walks over one plan share."""

    def __init__(self, plan: Plan, programs: list[_Abstract]) -> None:
        self._plan = plan
        self._programs = programs
        self._of_rank = plan.code.rank_program
        self._instances: dict[tuple[int, int], int] = {}
        self._members: list[tuple[int, ...]] = []
        self._home: list[int] = []
        self._met = False
        self._refs = [self._resolve(rank) for rank in range(plan.world_size)]
        texts = sorted({program.text for program in programs})
        self._texts = {text: place for place, text in enumerate(texts)}

    def _instance(self, group: int, rank: int) -> int:
        plan = self._plan
        spec = plan.groups[group]
        place = 0
        if spec.is_family and plan.mesh is not None:
            place = plan.mesh.family_instance(rank, spec.mesh_dims)
        found = self._instances.get((group, place))
        if found is None:
            found = self._instances[group, place] = len(self._members)
            self._members.append(tuple(spec.members(rank, plan.mesh)))
            self._home.append(group)
        return found

    def _resolve(self, rank: int) -> Resolved:
        plan, program = self._plan, self._programs[self._of_rank[rank]]
        words = plan.code.refs
        resolved: list[tuple[int, ...]] = []
        for ref in program.refs:
            kind, group, mode, a, b, tag = words[ref * REF_WORDS : (ref + 1) * REF_WORDS]
            instance = self._instance(group, rank)
            if kind == RefType.GROUP:
                self._met |= group == 0
                resolved.append((kind, instance))
                continue
            peer = a
            if mode == PeerMode.ANY:
                peer = -1
            elif mode == PeerMode.RELATIVE and plan.mesh is not None:
                moved = plan.mesh.shift(rank, a, b >> 1, wrap=bool(b & 1))
                peer = -2 if moved is None else moved
            resolved.append((kind, instance, peer, tag))
        for group in program.groups:
            self._met |= group == 0
            resolved.append((3, self._instance(group, rank)))
        return tuple(resolved)

    def _colors(self) -> list[int]:
        """Color ranks by what they do, and by the colors of the ranks that they name."""
        colors = [self._texts[self._programs[index].text] for index in self._of_rank]
        size = len(set(colors))
        for _ in range(ROUNDS):
            seen = [tuple(colors[rank] for rank in ranks) for ranks in self._members]
            keys: list[tuple[Any, ...]] = []
            for rank, refs in enumerate(self._refs):
                key: list[Any] = [(colors[rank],)]
                for ref in refs:
                    if ref[0] in {RefType.GROUP, 3}:
                        place = self._members[ref[1]].index(rank) if ref[0] == RefType.GROUP else 0
                        key.append((ref[0], place, *seen[ref[1]]))
                    else:
                        peer = ref[2]
                        key.append((ref[0], peer if peer < 0 else colors[peer], ref[3]))
                keys.append(tuple(key))
            table = {key: place for place, key in enumerate(sorted(set(keys)))}
            colors = [table[key] for key in keys]
            if len(table) == size:
                break
            size = len(table)
        return colors

    def best(self) -> RankForm:
        """Return the least form over the starts that are tried."""
        colors = self._colors()
        counts = Counter(colors)
        rarest = min(counts, key=lambda color: (counts[color], color))
        starts = [rank for rank, color in enumerate(colors) if color == rarest][:STARTS]
        if len(starts) == 1:
            return self._form(self._walk(starts[0], colors))
        forms = [self._form(self._walk(start, colors)) for start in starts]
        return min(forms, key=lambda form: marshal.dumps(form.form, 2))

    def _walk(self, start: int, colors: list[int]) -> list[int]:
        numbering = _Numbering()
        rest = sorted(range(self._plan.world_size), key=lambda rank: colors[rank])
        opened: set[int] = set()
        numbering.add(start)
        done = 0
        while True:
            while done < len(numbering.order):
                self._visit(numbering, numbering.order[done], opened)
                done += 1
            rest = [rank for rank in rest if rank not in numbering.number]
            if not rest:
                return numbering.order
            numbering.add(self._next(rest, colors, numbering))

    def _next(self, rest: list[int], colors: list[int], numbering: _Numbering) -> int:
        """Return an unnumbered rank: of the least color, best tied to those with numbers."""
        least = [rank for rank in rest if colors[rank] == colors[rest[0]]]
        number = numbering.number

        def ties(rank: int) -> list[int]:
            peers = [ref[2] for ref in self._refs[rank] if len(ref) > 2]
            return [number.get(peer, len(number)) for peer in peers]

        return min(least, key=ties)

    def _visit(self, numbering: _Numbering, rank: int, opened: set[int]) -> None:
        for ref in self._refs[rank]:
            if len(ref) > 2 and ref[2] >= 0:
                numbering.add(ref[2])
            instance = ref[1]
            if instance in opened or (self._home[instance] == 0 and not self._met):
                continue
            opened.add(instance)
            for member in self._members[instance]:
                numbering.add(member)

    def _form(self, order: list[int]) -> RankForm:
        number = {rank: place for place, rank in enumerate(order)}
        tables: tuple[dict[int, int], ...] = ({}, {}, {}, {})
        instances: list[Any] = []
        texts: list[bytes] = []
        label_order: list[int] = []
        ranks: list[Any] = []
        named: list[tuple[Any, str]] = []
        for rank in order:
            index = self._of_rank[rank]
            program = self._programs[index]
            if program.text not in tables[0]:  # type: ignore[comparison-overlap]
                tables[0][program.text] = len(texts)  # type: ignore[index]
                texts.append(program.text)
            refs = []
            for ref in self._refs[rank]:
                if ref[1] not in tables[1]:
                    tables[1][ref[1]] = len(instances)
                    instances.append(self._describe(ref[1], number))
                peer = () if len(ref) == 2 else (number.get(ref[2], ref[2]), ref[3])
                refs.append((ref[0], tables[1][ref[1]], *peer))
            ranks.append(
                (
                    tables[0][program.text],  # type: ignore[index]
                    tables[2].setdefault(index, len(tables[2])),
                    tuple(refs),
                    tuple(number[root] for root in program.roots),
                    tuple(_local(tables[3], label_order, label) for label in program.labels),
                )
            )
            named += [((number[rank], place), text) for place, text in program.named]
        from planguard.guard.signature import list_form

        names = self._plan.code.label_names
        labels = [(place, names[label - 1]) for place, label in enumerate(label_order)]
        ledger = repr(self._plan.approximations)
        lists = list_form(self._plan.code, label_order)
        form = (len(order), tuple(texts), tuple(ranks), tuple(instances), ledger, lists)
        return RankForm(form, tuple(order), (*labels, *named))

    def _describe(self, instance: int, number: dict[int, int]) -> tuple[Any, ...]:
        group = self._plan.groups[self._home[instance]]
        # The order of the world matters where it communicates as a whole; else it names channels.
        is_open = self._home[instance] == 0 and not self._met
        members = () if is_open else tuple(number[rank] for rank in self._members[instance])
        return (self._home[instance] == 0, members, group.backend, group.created)
