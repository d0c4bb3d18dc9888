"""Patches of the user's source that are proved before they are shown (ADR 0016).

Proposals are made at the line where two ranks part (``repair.source``). Each is played as the step
was: the same samples, the same assignments, the same model. One that is SAFE for all of them since
it takes calls away is refused (``kept``). Then what the step returns is compared for the
assignments that ended before the edit: where it is not the same, or was not compared, the patch
says so. The first that changes no number and leaves no line unrun is shown; else the first that
leaves none unrun, else the first.
"""

from __future__ import annotations

import linecache
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from planguard.capture.batches.edited import edit
from planguard.capture.batches.kept import Kept, Lines
from planguard.capture.batches.rerun import rerun
from planguard.capture.batches.results import read_result, write_result
from planguard.capture.batches.sampled import decide, play_one
from planguard.errors import PlanGuardError, UsageError
from planguard.files import target, write
from planguard.plan.dtypes import TORCH_NAME
from planguard.repair.source import Decision, SourceText, proposals, unified
from planguard.sources import is_installed
from planguard.verdict import Repair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from planguard.capture.batches.parting import Parting
    from planguard.capture.batches.sampled import Answer, Door, Supply
    from planguard.capture.batches.samples import Assignment, Chosen
    from planguard.capture.play.ranks import Play, PlayedRank
    from planguard.repair.source import SourceProposal

_TOLD = 4  # edits that failed, of which it is said why
_COMPARED = 8  # assignments whose results are compared
_TORCH = {name: torch for name, torch in TORCH_NAME.items() if name not in ("f8", "bool")}


class Put(Protocol):
    """An edit that a process can take before it runs the program."""

    def put(self) -> None:
        """Run the edited text from now on, in this process."""


@dataclass(frozen=True)
class Program:
    """What kind of program is edited.

    Attributes:
        edit: Returns how a file is run as edited (file, text before, text after); None where it
            cannot be.
        returns: Whether it returns something that can be compared.
    """

    edit: Callable[[str, str, str], Put | None]
    returns: bool


FUNCTION = Program(edit, returns=True)
SCRIPT = Program(rerun, returns=False)


@dataclass(frozen=True)
class NoPatch:
    """No edit was proved.

    Attributes:
        tried: What became of each edit, in sentences, without repetition.
        reason: Why none was tried; empty where some were.
    """

    tried: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class Patch:
    """A proved edit of one file.

    Attributes:
        file: The file.
        before: Its text.
        after: Its text, edited.
        diff: The difference.
        repair: The same for the verdict.
    """

    file: str
    before: str
    after: str
    diff: str
    repair: Repair


def find_patch(
    answer: Answer,
    supply: Supply,
    chosen: Chosen,
    door: Door,
    budget: float,
    program: Program = FUNCTION,
) -> Patch | NoPatch:
    """Search an edit that makes an unsafe step SAFE for all its assignments.

    Args:
        answer: What was found, with the line of the decision.
        supply: What ranks may get.
        chosen: The assignments, in order.
        door: How the step is played.
        budget: Seconds of the search.
        program: What is edited: a function that is alive, or a script that is run whole.
    """
    parting = answer.parting
    if parting is None:
        return NoPatch((), "no line is known to decide, so that there is none to edit")
    if reason := _obstacle(parting.decided.file):
        return NoPatch((), f"{parting.decided} decides, and {reason}")
    end = time.monotonic() + budget
    tried: list[str] = []
    # The assignment that was unsafe comes first: what does not help is known after one play.
    bad = answer.played[-1]
    # What the edit takes from an assignment shows in its own play only: none is left out (untold).
    those = tuple(dict.fromkeys((bad, *chosen.assignments)))
    order = replace(chosen, assignments=those, enough=frozenset())
    kept = Kept(parting.decided.file, supply, order.assignments, door, end)
    found: list[tuple[tuple[bool, bool], Patch]] = []
    for proposal, edited in _edits(parting, chosen.world_size, program):
        left = end - time.monotonic()
        if left <= 0:
            tried.append(f"{budget:g} s were over before all edits were tried")
            break
        plays: list[Play] = []
        changed = replace(door, prepare=edited.put)
        try:
            said = decide(supply, order, _noted(changed, plays), left, is_explained=False)
        except PlanGuardError as error:  # a rank raises, for example: the edit does not do
            tried.append(f"{proposal.kind}: {error.message.splitlines()[0]}")
            continue
        before = "".join(linecache.getlines(kept.file))
        lines = Lines.of(before, proposal.text)
        fault = _fault(said, chosen) or kept.fault(
            dict(zip(said.played, plays, strict=False)), lines
        )
        if fault:
            tried.append(f"{proposal.kind}: {fault}")
            continue
        unrun = kept.unrun(changed, lines)
        different, numbers = (
            _numbers(supply, chosen, door, changed, end)
            if program.returns
            else (0, "what the script computes was not compared")
        )
        models = tuple(name for name, one in said.verdict.models.items() if one.severity == 0)
        diff = unified(_shown(kept.file), before, proposal.text)
        parts = (proposal.sentence, proposal.effect, unrun, numbers)
        text = "; ".join(part for part in parts if part)
        repair = Repair(f"source-{proposal.kind}", "verified", (), text, models, patch=diff)
        rank = bool(unrun), different > 0
        found.append((rank, Patch(kept.file, before, proposal.text, diff, repair)))
        if rank == (False, False):
            break
    if found:
        return min(found, key=lambda one: one[0])[1]
    none = "" if tried else f"no edit is known for what {parting.decided} does"
    return NoPatch(tuple(dict.fromkeys(tried)), none)


def _noted(door: Door, plays: list[Play]) -> Door:
    """Return a door that keeps the plays that are made with it, in order."""

    def new_play() -> Play:
        plays.append(door.new_play())
        return plays[-1]

    return replace(door, new_play=new_play)


def _fault(said: Answer, chosen: Chosen) -> str:
    """Say what an edit lacks; empty where it is SAFE for every assignment."""
    verdict = said.verdict
    if verdict.errors or not verdict.safe:
        first = [one.message for one in verdict.findings[:1]] or list(verdict.reasons[:1])
        return ": ".join([verdict.outcome.value, *first])
    if not set(chosen.assignments) <= set(said.played):
        return "the time was over before every assignment was played"
    return ""


def with_patch(answer: Answer, patch: Patch | NoPatch) -> Answer:
    """Put a patch, or that there is none, into the first finding of an answer."""
    verdict = answer.verdict
    if not verdict.findings:
        return answer
    first = verdict.findings[0]
    if not isinstance(patch, Patch):
        why = patch.reason or "none of the edits that were tried is SAFE and keeps all calls"
        none = f"no patch of the source was proved: {why}"
        more = tuple(f"tried to edit, {one}" for one in patch.tried[:_TOLD])
        changed = replace(first, notes=(*first.notes, none, *more))
    else:
        changed = replace(first, fixes=(patch.repair,))
    findings = (changed, *verdict.findings[1:])
    return replace(answer, verdict=replace(verdict, findings=findings))


def write_patch(patch: Patch, path: str | Path) -> Path:
    """Write a patch to a file of its own.

    Raises:
        UsageError: The file exists.
    """
    file = Path(path)
    if file.exists():
        raise UsageError(
            f"{file} exists and is not written over",
            hint="name another file, or remove that one first",
        )
    try:
        write(target(file, force=False), patch.diff)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    return file


def _shown(file: str) -> str:
    """Return the name of a file in a diff: below the working directory, else from the root."""
    try:
        return Path(file).resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return str(Path(file).resolve()).lstrip(os.sep)


def _obstacle(file: str) -> str:
    """Say why a file cannot be edited; empty where it can."""
    text = "".join(linecache.getlines(file))
    if not text:
        return "its source cannot be read"
    if is_installed(file):
        return "that is an installed package, which is not edited"
    if not _is_on_disk(file, text):
        return "that file has changed since it was read, or ends its lines otherwise"
    try:
        SourceText(text)
    except (SyntaxError, ValueError):
        return "its source cannot be read as Python"
    return ""


def _edits(parting: Parting, world: int, program: Program) -> Iterator[tuple[SourceProposal, Put]]:
    """Return the edits at a decision that can be run."""
    step = parting.decided
    text = "".join(linecache.getlines(step.file))
    goes_on = tuple(
        None if one is None or one.file != step.file else one.line for one in parting.branches
    )
    left, right = parting.issued
    decision = Decision(
        step.line,
        parting.why,
        (goes_on[0], goes_on[1]),
        (len(left), len(right)),
        (_neutral(left, world), _neutral(right, world)),
    )
    for proposal in proposals(SourceText(text), decision):
        edited = program.edit(step.file, text, proposal.text)
        if edited is not None:
            yield proposal, edited


def _is_on_disk(file: str, text: str) -> bool:
    """Tell whether a file has a text byte by byte; what has no file (a notebook) has it."""
    try:
        return Path(file).read_bytes().decode() == text
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False


def _neutral(calls: Sequence[Mapping[str, Any]], world: int) -> tuple[str, ...] | None:
    """Return calls that meet some calls and add nothing; None where one of them has no such."""
    found = []
    for call in calls:
        is_sum = call.get("reduce_op") == "sum"
        if call.get("group") != ",".join(map(str, range(world))):
            return None  # the name of a smaller group is not known here
        if call["op"] == "barrier":
            found.append("{dist}.barrier()")
        elif call["op"] == "all_reduce" and is_sum and call.get("dtype") in _TORCH:
            kind = _TORCH[call["dtype"]]
            more = "" if kind == "float32" else f", dtype=torch.{kind}"
            found.append(f"{{dist}}.all_reduce(torch.zeros({call['count']}{more}))")
        else:
            return None
    return tuple(found)


# --- what the step computes ----------------------------------------------------------------------


def _numbers(
    supply: Supply, chosen: Chosen, door: Door, changed: Door, end: float
) -> tuple[int, str]:
    """Compare what the step returns before and behind an edit, where it ended before.

    Returns:
        For how many assignments it is not the same, and a sentence.
    """
    compared = different = 0
    for assignment in chosen.assignments[:_COMPARED]:
        if time.monotonic() >= end:
            break
        before = _results(supply, assignment, door)
        if before is None:
            continue
        behind = _results(supply, assignment, changed)
        if not any(one is not None for one in before.values()):
            continue  # the step returns nothing
        compared += 1
        different += before != behind
    if not compared:
        none = "what the step returns was not compared: no assignment that ended returns numbers"
        return 0, none
    ended = f"{compared} assignment{'s' if compared > 1 else ''} that ended before"
    if different:
        return different, f"it returns OTHER NUMBERS for {different} of {ended}"
    return 0, f"it returns the same numbers for {ended}"


def _results(supply: Supply, assignment: Assignment, door: Door) -> dict[int, Any] | None:
    """Play an assignment and return what each rank returns; None where it does not end well."""
    with tempfile.TemporaryDirectory() as folder:

        def job(played: PlayedRank, sample: Any) -> None:
            write_result(Path(folder) / str(played.rank), door.job(played, sample))

        try:
            plain = door.new_play()
            plain.is_quiet = True
            play_one(plain, door, supply, assignment)
            if not door.judge(plain)[1].safe:  # reading results must not doubt the verdict
                return None
            play = door.new_play()
            play.is_quiet = True
            play_one(play, replace(door, job=job), supply, assignment)
        except PlanGuardError:
            return None
        return {rank: read_result(Path(folder) / str(rank)) for rank in play.logs}
