"""Does a registered communication operation do what its specification says?

``planguard.testing.check_operation`` is this; it needs no pytest.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard import operations
from planguard.plan.format import read
from planguard.plan.vocabulary import ROOTED

if TYPE_CHECKING:
    from planguard.operations import OperationSpec


@dataclass(frozen=True)
class OperationCheck:
    """What ``check_operation`` saw.

    Attributes:
        like: The built-in collective that the operation was compared with.
        plans: Generated plans, each decided twice under every execution model.
        outcomes: Outcomes among them; several, or the plans show little.
    """

    like: str
    plans: int
    outcomes: tuple[str, ...]


def check_operation(spec: OperationSpec, *, plans: int = 40, seed: int = 1) -> OperationCheck:
    """Hold a communication operation to its specification.

    Rules: every field that must agree is compared and no other is; a plan has the same outcome and
    findings under every model as with the built-in collective of the same degree (``scatter``,
    ``all_to_all_single``, or the one of which it is a spelling) in place of the operation; every
    edge carries a number of bytes. The operation stays registered only if it was before.

    Args:
        spec: The operation.
        plans: How many plans to generate.
        seed: Of the generator.

    Raises:
        AssertionError: A rule is violated; the message has the plan.
        UsageError: The operation cannot be registered.
    """
    was_known = spec in operations.registered()
    operations.register(spec)
    try:
        _check_fields(spec)
        _check_edges(spec)
        return _compare_with_built_in(spec, plans, random.Random(seed))  # noqa: S311 - repeatable
    finally:
        if not was_known:
            operations.unregister(spec.name)


_DIFFERING: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bytes": ("PG202", {"bytes": 8}, {"bytes": 4}),
    "dtype": ("PG203", {"bytes": 8, "dtype": "f32"}, {"bytes": 8, "dtype": "i32"}),
    "root": ("PG205", {"bytes": 8, "root": 0}, {"bytes": 8, "root": 1}),
    "reduce_op": ("PG204", {"bytes": 8, "reduce_op": "max"}, {"bytes": 8}),
    "splits": (
        "PG206",
        {"count": 4, "dtype": "f32", "in_splits": [1, 3]},
        {"count": 4, "dtype": "f32", "out_splits": [2, 2]},
    ),
}
"""Two calls that differ in one field, and the code of that."""


def _check_fields(spec: OperationSpec) -> None:
    """Require that two calls that differ in one field meet exactly when it need not agree."""
    from planguard.engine import check_plan
    from planguard.options import CheckOptions

    options = CheckOptions(model="mpi-sync")  # a model that has every collective
    for name, (code, one, other) in _DIFFERING.items():
        if spec.spelling is not None and name not in {"bytes", "dtype"}:
            continue  # which of the others a built-in collective has depends on it
        calls = [{"op": spec.name, **fields} for fields in (one, other)]
        if _is_rooted(spec) and name != "root":
            calls = [{**call, "root": 0} for call in calls]
        plan = _two_programs(calls)
        found = {finding.code for finding in check_plan(read(plan), options).findings}
        expected = {code} if name in spec.agree else set()
        require(found == expected, f"{name} differs: {found or 'SAFE'} for {plan}")


def _check_edges(spec: OperationSpec) -> None:
    formula = spec.bytes_per_edge
    carry = operations.FORMULAS[formula] if isinstance(formula, str) else formula
    if carry is None:
        return
    for members in (2, 3, 4):
        for src, dst in itertools.permutations(range(members), 2):
            size: object = carry(src, dst, members, 4096)
            sound = isinstance(size, int) and size >= 0
            require(sound, f"bytes_per_edge({src}, {dst}, {members}, 4096) is {size!r}")


def _is_rooted(spec: OperationSpec) -> bool:
    return spec.degree == "root" or spec.spelling in ROOTED


def _compare_with_built_in(spec: OperationSpec, plans: int, rng: random.Random) -> OperationCheck:
    from planguard.engine import check_plan
    from planguard.options import CheckOptions

    like = spec.spelling or ("scatter" if spec.degree == "root" else "all_to_all_single")
    options, outcomes = CheckOptions(model="all"), set()
    for _ in range(plans):
        plan = _random_plan(spec, rng)
        verdicts = [
            check_plan(read(version), options) for version in (plan, _renamed(plan, spec, like))
        ]
        told = [
            (v.models, v.model_codes, [(f.code, f.ranks) for f in v.findings]) for v in verdicts
        ]
        require(told[0] == told[1], f"{told[0]}, but with {like} {told[1]}, for {plan}")
        outcomes |= {outcome.value for outcome in verdicts[0].models.values()}
    return OperationCheck(like, plans, tuple(sorted(outcomes)))


def _random_plan(spec: OperationSpec, rng: random.Random) -> dict[str, Any]:
    """Return a plan of two to four ranks; in most of them one rank departs from the others."""
    ranks = rng.randint(2, 4)
    programs: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    for number in range(rng.randint(2, 5)):
        what = rng.choice([spec.name] * 4 + ["all_reduce", "barrier", "pair", "exchange"])
        src, dst = rng.sample(range(ranks), 2)
        for rank, program in enumerate(programs):
            if what == spec.name:
                program.extend(_own_calls(spec, src, f"w{number}" if dst % 2 else ""))
            elif what in {"pair", "exchange"}:
                program.extend(_messages(rank, src, dst, both=what == "exchange"))
            else:
                program.append({"op": what, "bytes": 8})
    _depart(rng.choice(programs), rng)
    uses = {str(rank): {"actions": program} for rank, program in enumerate(programs)}
    return {"schema": "planguard.plan/1", "world_size": ranks, "ranks": uses}


def _own_calls(spec: OperationSpec, root: int, work: str) -> list[dict[str, Any]]:
    call: dict[str, Any] = {"op": spec.name, "count": 2, "dtype": "f32"}
    if _is_rooted(spec):
        call["root"] = root
    if not work:
        return [call]
    return [{**call, "async": True, "work": work}, {"op": "wait", "work": work}]


def _messages(rank: int, src: int, dst: int, *, both: bool) -> list[dict[str, Any]]:
    """Return a rank's part of a message, or of two that meet head to head."""
    sends = {src: dst, dst: src} if both else {src: dst}
    calls = [{"op": "send", "peer": sends[rank], "bytes": 8}] if rank in sends else []
    sources = {to: source for source, to in sends.items()}
    if rank in sources:
        calls.append({"op": "recv", "peer": sources[rank], "bytes": 8})
    return calls


def _depart(program: list[dict[str, Any]], rng: random.Random) -> None:
    """Swap two calls of a program, leave one out or give it another size or type."""
    free = [at for at, call in enumerate(program) if "work" not in call]
    how = rng.choice(["swap", "drop", "count", "dtype", "nothing"])
    if how == "swap" and len(free) > 1:
        one, other = rng.sample(free, 2)
        program[one], program[other] = program[other], program[one]
    elif how == "drop" and free:
        del program[rng.choice(free)]
    changes: dict[str, dict[str, Any]] = {"count": {"count": 6}, "dtype": {"dtype": "i32"}}
    for call in program:
        if "count" in call:
            call.update(changes.get(how, {}))


def _renamed(plan: dict[str, Any], spec: OperationSpec, like: str) -> dict[str, Any]:
    """Return a plan with the built-in collective, without what the operation does not compare."""
    uses = {}
    for rank, use in plan["ranks"].items():
        calls = [dict(call) for call in use["actions"]]
        for call in calls:
            if call["op"] == spec.name:
                size = {"bytes": 4 * call.pop("count"), "dtype": call.pop("dtype")}
                call.update({name: size[name] for name in size if name in spec.agree})
                call["op"] = like
        uses[rank] = {"actions": calls}
    return {**plan, "ranks": uses}


def _two_programs(calls: list[dict[str, Any]]) -> dict[str, Any]:
    uses = {str(rank): {"actions": [call]} for rank, call in enumerate(calls)}
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": uses}


def require(holds: bool, message: str) -> None:  # noqa: FBT001 - an assertion with a sentence
    """Raise an ``AssertionError`` with a message unless something holds."""
    if not holds:
        raise AssertionError(message)
