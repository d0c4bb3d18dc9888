"""Minimal witnesses: the fewest ranks and actions that still get stuck, executed before shown.

A cause names the places that block and the places that would free them. The plan is cut down to
these (and to what they refer to), executed again from scratch, and then made smaller as long as
the same kind of stuck state remains. When the cut-down plan does not get stuck, whole rank prefixes
are kept instead and the witness is not called minimal.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.execution.findings.members import Member, describe_match, members_of
from planguard.execution.findings.stuck import place_of
from planguard.execution.project import Projection, project
from planguard.execution.references import referred
from planguard.execution.rerun import rerun
from planguard.verdict import Witness, WitnessStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.execution.findings.classify import Cause
    from planguard.execution.findings.stuck import Place
    from planguard.execution.rerun import Run
    from planguard.execution.running.executor import Execution

Keep = frozenset[tuple[int, int]]

PREFIX_LIMIT = 400
"""Largest number of actions for which whole prefixes are tried."""
SHRINK_LIMIT = 60
"""Largest number of actions that are removed one by one."""


@dataclass(frozen=True)
class Candidate:
    """A cut-down plan that was executed: what it keeps and how it ended."""

    keep: Keep
    ranks: frozenset[int]
    projection: Projection
    run: Run
    blocked: tuple[tuple[int, int], ...]
    cyclic: bool
    mixed: frozenset[str]


def make_witness(execution: Execution, cause: Cause) -> Witness | None:
    """Return a re-executed witness of a stuck cause; None when none could be confirmed."""
    wanted = cause.finding.subkind != "orphan"
    accept: Callable[[Candidate], bool] = lambda c: bool(c.blocked) and c.cyclic is wanted  # noqa: E731
    keep, ranks = _core(execution, cause)
    found = _try(execution, keep, ranks)
    minimal = found is not None and accept(found)
    if not minimal:
        found = _try_prefixes(execution, cause, ranks)
        if found is None or not accept(found):
            return None
    assert found is not None  # noqa: S101  settled above
    if len(found.keep) <= SHRINK_LIMIT:
        found, minimal = _shrink(execution, found, accept), True
    return _encode(found, minimal=minimal, end="stuck")


def mismatch_witness(execution: Execution, cause: Cause) -> Witness | None:
    """Return the witness of a mismatch: its members, executed until they meet and disagree.

    What they disagree on may be what came before: how many messages, for example.
    """
    keep = frozenset((p.rank, p.action) for p in cause.blocked)
    code = cause.finding.code
    accept: Callable[[Candidate], bool] = (  # noqa: E731
        lambda c: keep <= c.keep and (code in c.mixed or bool(c.mixed and code[2] != "2"))
    )
    found, minimal = _try(execution, keep, frozenset()), True
    if found is None or not accept(found):
        found = _try_prefixes(execution, cause, frozenset())
        if found is None or not accept(found):
            return None
        minimal = len(found.keep) <= SHRINK_LIMIT and not found.blocked
        if minimal:
            # What came before has to end on all ranks, or none would get to the mismatch.
            found = _shrink(execution, found, lambda c: accept(c) and not c.blocked)
    return _encode(found, minimal=minimal, end="mismatch")


def _core(execution: Execution, cause: Cause) -> tuple[Keep, frozenset[int]]:
    keep = {(p.rank, p.action) for p in (*cause.blocked, *cause.owed)}
    if cause.finding.subkind == "orphan":
        first = min(cause.blocked, key=lambda place: place.rank)
        keep = {(first.rank, first.action)}
        match = describe_match(execution, cause.matches[0])
        present = {p.rank for p in cause.blocked}
        absent = [rank for rank in match.ranks if rank not in present]
        others = absent[:1] or [r for r in match.ranks if r != first.rank][:1]
        return frozenset(_close(execution, keep)), frozenset([*others, *_root(execution, first)])
    closed = _close(execution, keep)
    ranks = {rank for rank, _ in closed}
    for number in cause.matches:
        match = describe_match(execution, number)
        for member in members_of(execution, match):
            if member.rank in ranks and member.entry is not None:
                closed.add(_place(execution, member))
    return frozenset(_close(execution, closed)), frozenset()


def _root(execution: Execution, place: Place) -> list[int]:
    """The root of a rooted collective stays a rank of the witness."""
    root = execution.plan.action_at(place.rank, place.action).fields.get("root")
    return [] if root in {None, place.rank} else [root]


def _place(execution: Execution, member: Member) -> tuple[int, int]:
    place = place_of(execution, member.rank, member.entry or 0)
    return place.rank, place.action


def _close(execution: Execution, keep: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Add what kept actions refer to: a wait keeps the action that started its handle."""
    closed, fresh = set(keep), set(keep)
    while fresh:
        fresh = {found for at in fresh for found in referred(execution, *at)} - closed
        closed |= fresh
    return closed


def _try(execution: Execution, keep: Keep, ranks: frozenset[int]) -> Candidate | None:
    from planguard.errors import PlanError

    try:
        projection = project(execution.plan, keep, ranks)
        # Kernels that know more of a plan than it says have to be told what was left out.
        cut = getattr(execution.kernels, "projected", None)
        own = None if cut is None else cut(projection)
        run = rerun(projection.plan, execution.model, execution.scenario, implementation=own)
    except (PlanError, KeyError, IndexError):
        return None
    return Candidate(
        keep,
        ranks,
        projection,
        run,
        tuple(projection.original(rank, action) for rank, action in run.blocked),
        run.cyclic,
        run.mixed,
    )


def _try_prefixes(execution: Execution, cause: Cause, ranks: frozenset[int]) -> Candidate | None:
    last: dict[int, int] = {}
    for place in (*cause.blocked, *cause.owed):
        last[place.rank] = max(place.action, last.get(place.rank, 0))
    if sum(last.values()) > PREFIX_LIMIT:
        return None
    keep = frozenset((rank, action) for rank, end in last.items() for action in range(end + 1))
    return _try(execution, keep, ranks)


def _shrink(
    execution: Execution, found: Candidate, accept: Callable[[Candidate], bool]
) -> Candidate:
    """Remove ranks, then actions, as long as the stuck state remains."""
    for part in _parts(found):
        smaller = frozenset(found.keep - part)
        if smaller == found.keep or not smaller or _breaks(execution, smaller):
            continue
        tried = _try(execution, smaller, found.ranks)
        if tried is not None and accept(tried):
            found = tried
    return found


def _parts(found: Candidate) -> list[frozenset[tuple[int, int]]]:
    ranks = sorted({rank for rank, _ in found.keep})
    whole = [frozenset(at for at in found.keep if at[0] == rank) for rank in ranks]
    return whole + [frozenset([at]) for at in sorted(found.keep, reverse=True)]


def _breaks(execution: Execution, keep: Keep) -> bool:
    return any(target not in keep for at in keep for target in referred(execution, *at))


def _encode(found: Candidate, *, minimal: bool, end: str) -> Witness:
    place = found.projection.original
    steps = [(*place(rank, action), event) for rank, action, event in found.run.steps]
    order = dict.fromkeys((rank, action) for rank, action, _ in steps)
    encoded = "/".join(f"{rank}.{action}" for rank, action in order)
    return Witness(
        id=hashlib.sha256(encoded.encode()).hexdigest()[:4],
        encoded=encoded,
        minimal=minimal,
        steps=tuple(
            WitnessStep(number, rank, action, event)
            for number, (rank, action, event) in enumerate(steps, 1)
        ),
        blocked=found.blocked if end == "stuck" else (),
        actions=tuple(sorted(found.keep)),
        end=end,
    )
