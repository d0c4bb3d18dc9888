"""The canonical communication signature of a plan: equal signatures, equal verdicts.

Two forms of one plan, both compared as values and never by a digest alone:

* the **word form**: the compiled plan without its names. Groups, labels, handles, templates and
  source lines are numbers there already, so a renamed plan has the same words.
* the **rank form**: the same with ranks renumbered along the communication itself
  (``planguard.guard.canonical``), so a plan whose ranks are permuted has the same form.

Either form determines the plan up to such a renaming. A form that is not canonical, because of a
tie that was not resolved, only misses a plan that could have shared an answer.
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.arguments import OPTIONS, PLAN, arguments
from planguard.guard.canonical import RankForm, may_have_form, rank_form
from planguard.options import DEFAULT_MODEL, CheckOptions
from planguard.plan.actions import Kind
from planguard.plan.code import WORDS
from planguard.plan.nodes import Choice, Coalesced, Sized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.code import CompiledPlan, Program, Signature
    from planguard.plan.plan import Plan

_MADE = re.compile(r"\{i\}|@|^choice ")

Named = tuple[tuple[Any, str], ...]
"""Place and text of the names that say which data a communication moves."""


class Key:
    """A value with its hash, which is computed once: options and words are long."""

    __slots__ = ("_hash", "value")

    def __init__(self, *value: Any) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.value == other.value


@dataclass(frozen=True)
class CommunicationSignature:
    """What of a plan and of the options of a check decides the verdict.

    Attributes:
        plan: The plan.
        question: Options of the check, with the execution model that holds.
    """

    plan: Plan
    question: tuple[Any, ...]

    @cached_property
    def words(self) -> tuple[Any, ...]:
        """The word form."""
        return word_form(self.plan)

    @cached_property
    def ranks(self) -> RankForm | None:
        """The rank form; None where it would cost more than a check, or ranks must stay."""
        return rank_form(self.plan)

    @cached_property
    def by_words(self) -> Key:
        """The question and the word form."""
        return Key(self.question, self.words)

    @cached_property
    def by_ranks(self) -> Key | None:
        """The question and the rank form, where there is one."""
        return None if self.ranks is None else Key(self.question, self.ranks.form)

    @cached_property
    def outline(self) -> Key | None:
        """What plans of one rank form have in common, at little cost; None if there is no form.

        The form holds the instructions of every rank, in some order of the ranks.
        """
        plan = self.plan
        if not may_have_form(plan):
            return None
        ops = [program.code[::WORDS].tobytes() for program in plan.code.programs]
        counts = Counter(ops[index] for index in plan.code.rank_program)
        return Key(self.question, frozenset(counts.items()))

    @cached_property
    def digest(self) -> str:
        """Hash of the finest form there is: to group plans and to name files, never to merge."""
        form = self.words if self.ranks is None else self.ranks.form
        text = marshal.dumps((repr(self.question), form), 2)
        return hashlib.sha256(text).hexdigest()

    @cached_property
    def names(self) -> Named:
        """Labels, ids and tensors, each with its place in the word form."""
        return names_of(self.plan)


@arguments(plan=PLAN, options=OPTIONS)
def communication_signature(
    plan: Plan, options: CheckOptions | None = None
) -> CommunicationSignature:
    """Return the communication signature of a plan under the options of a check.

    Args:
        plan: A plan that passed the door.
        options: Options of the check; the defaults if None.
    """
    options = options or CheckOptions()
    return CommunicationSignature(plan, question_of(plan, options))


def question_of(plan: Plan, options: CheckOptions) -> tuple[Any, ...]:
    """Return what is asked of a plan: every option, and the model that holds."""
    own = plan.model or DEFAULT_MODEL
    return (options, own if options.model in {None, "all"} else options.model)


def word_form(plan: Plan) -> tuple[Any, ...]:
    """Return the compiled plan without its names, as one hashable value."""
    code = plan.code
    form: list[Any] = [
        code.world_size,
        code.mesh_sizes.tobytes(),
        code.group_kind.tobytes(),
        code.group_off.tobytes(),
        code.group_members.tobytes(),
        code.group_mask.tobytes(),
        tuple((group.backend, group.created) for group in plan.groups),
        code.refs.tobytes(),
        tuple(program.code.tobytes() for program in code.programs),
        tuple(program.n_slots for program in code.programs),
        code.rank_program.tobytes(),
        tuple(map(signature_key, code.signatures)),
        code.label_pool.tobytes(),
        code.aux.tobytes(),
        tuple(map(facts_of, code.programs)),
        list_form(code, range(1, len(code.label_names) + 1)),
        _choice_form(code.programs),
    ]
    if plan.fusion:
        form.append(_fusion_key(plan))
    if plan.approximations:
        form.append(repr(plan.approximations))
    return tuple(form)


def signature_key(signature: Signature) -> tuple[Any, ...]:
    """Return a signature as a tuple that hashes and marshals."""
    return (
        int(signature.kind),
        signature.bytes,
        signature.count,
        signature.dtype,
        signature.reduce_op,
        signature.root,
        signature.layout,
        signature.splits,
        signature.any_size,
    )


def facts_of(program: Program) -> tuple[Any, ...]:
    """Return what findings need and instructions do not say: buffers, and slots of a pipeline."""
    facts: list[Any] = []
    for place, node in enumerate(program.nodes):
        if node.stage is not UNSET or node.reads is not UNSET or node.writes is not UNSET:
            is_slot = node.stage is not UNSET and node.mb is not UNSET
            if is_slot or node.reads is not UNSET or node.writes is not UNSET:
                facts.append((place, is_slot, _names(node.reads), _names(node.writes)))
        if node.__class__ is Coalesced:
            parts = tuple((_names(part.reads), _names(part.writes)) for part in node.ops)
            facts.append((place, parts))
    return tuple(facts)


def list_form(code: CompiledPlan, labels: Sequence[int]) -> tuple[Any, ...]:
    """Return what the labels of coalesced collectives with labelled parts say, as numbers.

    An own label meets plain labels too, so it has the number of its text there. Labels of parts
    meet each other only; sharing the numbers can only miss a plan that is alike.

    Args:
        code: The compiled plan.
        labels: Label ids in the order of their numbers.
    """
    lists, numbers = code.label_lists, dict[str | None, int]({None: 0})
    for place, label in enumerate(labels, start=1):
        if label not in lists:
            numbers[code.label_names[label - 1]] = place
    return tuple(
        (place, *(numbers.setdefault(text, len(labels) + len(numbers)) for text in lists[label]))
        for place, label in enumerate(labels, start=1)
        if label in lists
    )


def _choice_form(programs: tuple[Program, ...]) -> tuple[Any, ...]:
    """Return which branches of a plan are taken together.

    Choices of one name are one decision, so their names are numbers, in the order in which they
    come. In a loop a name gets the iteration, ``{i}`` or behind ``@``: a text that could meet such
    a name, or the one that a choice without a name gets, stays as it is.
    """
    named = [
        (index, place, node)
        for index, program in enumerate(programs)
        for place, node in enumerate(program.nodes)
        if node.__class__ is Choice and program.code[place * WORDS] == Kind.CHOICE_BEGIN
    ]
    texts = [None if node.name is UNSET else node.name for _, _, node in named]
    plain = not any(text and _MADE.search(text) for text in texts)
    numbers: dict[str | None, int] = {None: 0}
    keys = [numbers.setdefault(text, len(numbers)) if plain else text for text in texts]
    # Copies of a program that had to be unrolled do not say which iteration they are.
    copied = [
        msgspec.json.encode(program.actions)
        for program in programs
        if program.origins and any(programs[index] is program for index, _, _ in named)
    ]
    return (tuple((i, p, key) for (i, p, _), key in zip(named, keys, strict=True)), *copied)


def _names(names: Any) -> tuple[str, ...]:
    return () if names is UNSET else tuple(names)


def _fusion_key(plan: Plan) -> tuple[Any, ...]:
    """Return the fused buffers, and where the ids are that they name."""
    places = tuple(
        tuple((place, node.id) for place, node in enumerate(program.nodes) if node.id is not UNSET)
        for program in plan.code.programs
    )
    index = {group.name: number for number, group in enumerate(plan.groups)}
    buffers = tuple(
        (
            None if spec.group is UNSET else index[spec.group],
            *(
                repr(getattr(spec, name))
                for name in spec.__struct_fields__
                if name not in {"id", "group"}
            ),
        )
        for spec in plan.fusion
    )
    return buffers, places


def names_of(plan: Plan) -> Named:
    """Return the names that say which data a communication moves, with their places.

    A label that stands elsewhere in another plan is not a renaming but another order; see
    ``is_reordered``.
    """
    code = plan.code
    named: list[tuple[Any, str]] = list(enumerate(code.label_names))
    for index, program in enumerate(code.programs):
        for place, node in enumerate(program.nodes):
            if node.id is not UNSET:
                named.append(((index, place), node.id))
            if isinstance(node, Sized) and node.tensor is not UNSET:
                named.append(((index, place, 0), node.tensor))
    return tuple(named)


def is_reordered(known: Named, asked: Named) -> bool:
    """Tell whether a name of one plan stands at another place of the other.

    Renaming two labels into each other gives the plan in which two reductions changed places. Such
    plans have equal verdicts, but an answer is not shared between them: a planner that compares two
    orders gets two checks.
    """
    if known == asked:
        return False
    places: dict[str, set[Any]] = {}
    for place, text in known:
        places.setdefault(text, set()).add(place)
    return any(text in places and place not in places[text] for place, text in asked)
