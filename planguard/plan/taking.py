"""Taking: plans made of rows of a compiled plan, without writing it as JSON and reading it again.

The actions of a compiled plan are rows of words. An order, or a combination of branches, is some of
these rows in some order, so its plan is made by taking rows: no name is looked up twice, and ranks
that run one program and pick alike still share one.

What holds of a valid program and need not hold of rows taken from it is checked again: handles are
started before they are waited for, and once; groups are used while they live; results are there
before they are used. Everything else that is checked of a program is true of any part of it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from planguard.errors import OrderError, PlanError
from planguard.plan import nodes as n
from planguard.plan.actions import ASYNC, KIND_MASK, MEMBER, NONE, Kind
from planguard.plan.code import WORDS, Program
from planguard.plan.compiling.signing import Signing
from planguard.plan.compiling.tables import Pool, Signatures, Sizes, list_name
from planguard.plan.defects import Defect
from planguard.plan.document import Use
from planguard.plan.fixed import NOTHING, FixedPlan, Picks, order_error, read_fixed
from planguard.plan.flatten import flatten
from planguard.plan.plan import Plan
from planguard.plan.pointers import walk
from planguard.plan.reading.wellformed import check_fusion, check_program
from planguard.plan.rows import Rows, place_markers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.compiling.compile import Compiled

KEPT_WORDS = 4_000_000
"""Words of programs that are kept to be taken again, some 40 MB with their actions."""
_LABEL = 4
"""Place of the label among the words of a row."""
WORK = "work:"
"""Begin of the names of slots of handles."""


@dataclass(frozen=True, eq=False)
class Anew:
    """An action that is made anew in the place of another one, with a row of its own.

    Equal only to itself, so ranks that share one share the program it is in.

    Attributes:
        like: The action whose row it is made of, and which it stands for.
        work: Handles that it waits for; the one that it starts, if it is a collective.
        collective: Fields of the collective that it is; None if it is a wait.
    """

    like: int
    work: tuple[str, ...]
    collective: Mapping[str, Any] | None = None


Taken = range | Anew
"""Actions of the plan, or one made anew."""


class Taking:
    """Makes plans out of the actions of one plan.

    Args:
        plan: The plan.
        fused: Keep its fused buffers; without, their members are actions like any other.

    Attributes:
        plan: The plan, or the same plan without its loops: its actions have the same numbers.
    """

    def __init__(self, plan: Plan, *, fused: bool = True) -> None:
        self.source, self.fused = plan, fused and bool(plan.fusion)
        self.plan = _without_loops(plan)
        self._rows: dict[int, Rows] = {}
        self._made: dict[Any, tuple[Program, tuple[int, ...]]] = {}
        self._kept = 0
        self._names = list(self.plan.code.label_names)
        self._lists = dict(self.plan.code.label_lists)
        plain = {text: at for at, text in enumerate(self._names, 1) if at not in self._lists}
        self._words: dict[Any, int] = plain | {said: at for at, said in self._lists.items()}
        self._aux = Pool(self.plan.code.aux)
        # With the lists of actions made anew, which are appended to the same array.
        code = structs.replace(self.plan.code, aux=self._aux.words)
        self._compiled = structs.replace(self.plan.compiled, code=code)

    @cached_property
    def _signing(self) -> Signing:
        """What gives collectives made anew their signatures; their sizes name no tensor."""
        code = self.plan.code
        return Signing(Sizes({}), Signatures.of(code), code.world_size)

    def rows(self, rank: int) -> Rows:
        """Return the rows of a rank."""
        index = self.plan.code.rank_program[rank]
        found = self._rows.get(index)
        if found is None:
            found = self._rows[index] = Rows(self.plan.code.programs[index])
        return found

    def fixed(
        self,
        taken: Sequence[Sequence[Taken]],
        labels: Sequence[Mapping[int, str]] = (),
        picks: Picks = NOTHING,
    ) -> FixedPlan:
        """Return the plan of some actions of every rank, in some order.

        Args:
            taken: Per rank, ranges of actions: single ones, or lists with all of their blocks; and
                actions made anew.
            labels: Per rank, labels that actions get.
            picks: What was picked to take these.

        Raises:
            OrderError: They are no valid program.
        """
        of_rank = self.plan.code.rank_program
        index: dict[Any, int] = {}
        made: list[tuple[Program, tuple[int, ...]]] = []
        runs = array("I")
        ranges: list[list[range]] = []
        for rank, mine in enumerate(taken):
            named = tuple(sorted(labels[rank].items())) if labels else ()
            key = of_rank[rank], tuple(mine), named
            if key not in index:
                index[key] = len(made)
                made.append(self._program(rank, key))
                ranges.append([])
            runs.append(index[key])
            ranges[index[key]].append(range(rank, rank + 1))
        plan = self._plan([program for program, _ in made], runs, ranges)
        return FixedPlan(plan, tuple(made[at][1] for at in runs), picks)

    def _plan(self, programs: list[Program], runs: array[int], ranges: list[list[range]]) -> Plan:
        base = self.plan
        code = structs.replace(
            base.code,
            programs=tuple(programs),
            rank_program=runs,
            label_names=tuple(self._names),
            label_lists=self._lists,
            aux=self._aux.words[:],
        )
        if "_signing" in self.__dict__:
            code = self._signing.signatures.within(code)
        compiled = structs.replace(base.compiled, code=code, ranges=tuple(map(tuple, ranges)))
        uses = {str(rank): Use(actions=programs[at].actions) for rank, at in enumerate(runs)}
        document = structs.replace(base.document, templates=UNSET, approximations=UNSET, ranks=uses)
        if not self.fused:
            document = structs.replace(document, fusion=UNSET)
        try:
            check_fusion(document, compiled, None)
        except PlanError as error:
            raise order_error(error) from None
        return Plan(document, compiled, limits=base.limits)

    def _program(self, rank: int, key: Any) -> tuple[Program, tuple[int, ...]]:
        found = self._made.get(key)
        if found is None:
            found = self._take(rank, *key[1:])
            self._kept += len(found[0].code)
            if self._kept > KEPT_WORDS:
                self._kept = 0
                self._made.clear()
            self._made[key] = found
        return found

    def _take(
        self, rank: int, taken: tuple[Taken, ...], named: tuple[tuple[int, str], ...]
    ) -> tuple[Program, tuple[int, ...]]:
        """Return the program of some actions, and which they are."""
        rows = self.rows(rank)
        base, first = rows.program, rows.first
        words, nodes, actions, origin = array("I"), list[Any](), list[Any](), list[int]()
        labels, slots = dict(named), _Slots(base)
        for part in taken:
            if isinstance(part, Anew):
                actions.append(self._anew(rows, part, slots, words, nodes))
                origin.append(part.like)
                continue
            start, end = first[part.start], first[part.stop]
            words += base.code[start * WORDS : end * WORDS]
            nodes += base.nodes[start:end]
            origin += part
            if len(part) > 1:
                actions += [node for node in rows.tops[part.start : part.stop] if node is not None]
                continue
            node, label = base.nodes[start], labels.get(part.start)
            if node.after is not UNSET:  # its order is that of the list now
                node = structs.replace(node, after=UNSET)
            if label is not None and label != node.label:
                node = structs.replace(node, label=label)
                words[(start - end) * WORDS + _LABEL] = self._label(node)
            nodes[start - end] = node
            actions.append(node)
        if not rows.is_plain:
            place_markers(origin, rows.kinds)
        steps = ("ranks", str(rank), "actions")
        program = Program(
            name=str(rank),
            steps=steps,
            actions=actions,
            code=words,
            nodes=nodes,
            length=len(origin),
            n_slots=len(slots.names),
            slot_names=tuple(slots.names),
            ids=_ids(actions) if self.fused else {},
        )
        try:
            check_taken(program, self._compiled)
        except Defect as defect:
            raise self._refused(rank, program, origin, defect) from None
        return program, tuple(origin)

    def _anew(
        self, rows: Rows, made: Anew, slots: _Slots, words: array[int], nodes: list[Any]
    ) -> Any:
        """Append the rows of an action made anew; return the action."""
        start, end = rows.first[made.like], rows.first[made.like + 1]
        like: Any = rows.program.nodes[start]
        row = rows.program.code[start * WORDS : end * WORDS]
        if made.collective is not None:
            node = like.__class__(
                group=like.group, async_=True, work=made.work[0], **made.collective
            )
            kind = row[0] & KIND_MASK
            sig = self._signing.collective(node, kind)
            words.extend((kind | ASYNC, row[1], slots.of(made.work[0]) + 1, sig,
                          self._label(node), 0))  # fmt: skip
            nodes.append(node)
            return node
        work: Any = list(made.work) if len(made.work) > 1 else made.work[0]
        waited = [slots.of(name) for name in made.work]
        op, where = (Kind.WAIT, waited[0])
        if len(waited) > 1:
            op, where = Kind.WAIT_MANY, self._aux.add(waited)
        if like.__class__ is n.Wait:
            node = structs.replace(like, work=work, after=UNSET)
            words.extend((op, where, 0, 0, *row[_LABEL:]))
            nodes += [node] * (end - start)
        else:  # a member that is waited for where it is issued
            node = n.Wait(work=work)
            words.extend((op, where, 0, 0, 0, 0))
            nodes.append(node)
        return node

    def _label(self, node: Any) -> int:
        """Return the word of a label, as the compiler would."""
        parts = [part.label for part in node.ops] if isinstance(node, n.Coalesced) else []
        text: Any = node.label
        if any(label is not UNSET for label in parts):
            text = tuple(None if label is UNSET else label for label in (node.label, *parts))
        word = self._words.get(text)
        if word is None:
            self._names.append(list_name(text) if isinstance(text, tuple) else text)
            word = self._words[text] = len(self._names)
            if isinstance(text, tuple):
                self._lists[word] = text
        return word

    def _refused(
        self, rank: int, program: Program, origin: Sequence[int], defect: Defect
    ) -> OrderError:
        """Return the error of a defect, at the place of the action in the plan as given."""
        ops = program.code[::WORDS]
        row = next(at for at, node in enumerate(program.nodes) if node is defect.node)
        number = sum(not op & MEMBER and op != Kind.BIND for op in ops[: row + 1]) - 1
        view = self.source.action_at(rank, origin[number])
        return order_error(defect.at(view.steps, self.source.file))


class _Slots:
    """The slots of a program that gets more handles."""

    def __init__(self, program: Program) -> None:
        self.names = list(program.slot_names)

    @cached_property
    def _handles(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.names) if name.startswith(WORK)}

    def of(self, work: str) -> int:
        """Return the slot of a handle."""
        name = f"{WORK}{work}"
        slot = self._handles.get(name)
        if slot is None:
            slot = self._handles[name] = len(self.names)
            self.names.append(name)
        return slot


def _without_loops(plan: Plan) -> Plan:
    """Return a plan whose programs have no loops; actions keep their numbers.

    Raises:
        OrderError: A label or a name makes it too large or invalid when it is written out.
    """
    if not any(Kind.REPEAT in program.code[::WORDS] for program in plan.code.programs):
        return plan
    flat = flatten(plan)
    flat.pop("approximations", None)
    same = read_fixed(flat)
    if any(same.length(rank) != plan.length(rank) for rank in range(plan.world_size)):
        raise OrderError("its loops are not written out action by action", path="$")
    return same


def _ids(actions: Sequence[Any]) -> dict[str, Any]:
    return {str(node.id): node for _, node in walk(actions) if node.id is not UNSET}


def check_taken(program: Program, compiled: Compiled) -> None:
    """Check what need not hold of rows that were taken from a valid program.

    Raises:
        Defect: The first defect found.
    """
    check_program(program, compiled)
    _check_results(program, compiled.code.aux)


def _check_results(program: Program, aux: array[int]) -> None:
    """Check that what a computation depends on stands before it.

    Raises:
        Defect: An id is not there, or comes later.
    """
    words = program.code
    if Kind.COMPUTE not in words[::WORDS]:
        return
    bound: set[int] = set()
    for row, op in enumerate(words[::WORDS]):
        where = words[row * WORDS + 1]
        if op == Kind.BIND:
            bound.add(where)
        elif op == Kind.COMPUTE and where != NONE:
            for slot in aux[where + 1 : where + 1 + aux[where]]:
                if slot not in bound:
                    name = program.slot_names[slot].removeprefix("id:")
                    message = "no earlier action of this program has this id"
                    hint = "ids are defined before they are referred to"
                    raise Defect(program.nodes[row], "deps", message, value=name, hint=hint)
