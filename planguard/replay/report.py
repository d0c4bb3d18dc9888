"""What a replay showed, compared with what the witness predicts, in words."""

from __future__ import annotations

import re
import signal as signals
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from planguard.errors import shorten
from planguard.replay.flat import rank_programs, started
from planguard.replay.translation import WITHOUT_DATA
from planguard.semantics.model import NewGroup, find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planguard.verdict import Witness

    Place = Callable[[int, int], int]

FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>\S+)')


@dataclass(frozen=True)
class RankState:
    """How the process of one rank ended.

    Attributes:
        rank: Rank of the plan.
        state: ``done``, ``exited``, ``stuck`` (inside an action, while no rank moved for the whole
            timeout), ``late`` (still moving when the replay was cut off), ``error`` or ``signal``.
        action: Index of the last action begun, None before the first.
        op: Its name.
        text: It in one line.
        seconds: Time since its last progress.
        error: Text of the exception, or what the dying process printed.
        signal: Number of the signal that ended the process.
        inside: All actions begun and not ended; more than one with host threads.
        mismatches: ``(action, complaint)`` for received data that are not what the plan means.
        stack: Python stack of a stuck rank, innermost call first.
    """

    rank: int
    state: str
    action: int | None = None
    op: str = ""
    text: str = ""
    seconds: float = 0.0
    error: str = ""
    signal: int | None = None
    inside: tuple[int, ...] = ()
    mismatches: tuple[tuple[int, str], ...] = ()
    stack: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Line of the generated script in which the rank is stuck, as ``replay.py:31``."""
        for frame in map(FRAME.search, self.stack):
            if frame is not None and PurePath(frame["file"]).name == "replay.py":
                return f"replay.py:{frame['line']}"
        return ""

    @property
    def ended(self) -> bool:
        """True when the rank came to the end of its program."""
        return self.state in ("done", "exited")


@dataclass(frozen=True)
class ReplayResult:
    """What real processes did with a plan.

    Attributes:
        ranks: One state per process; empty when the backend cannot play the plan.
        reproduced: True when the run did what the witness predicts, or, without a witness, when it
            got stuck, failed or received wrong data.
        reason: One sentence: what was seen and, if it differs from the prediction, why.
        backend: Name of the backend.
        seconds: Duration of the run.
        notes: What the replay does differently from the plan.
    """

    ranks: tuple[RankState, ...]
    reproduced: bool
    reason: str
    backend: str = "gloo"
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def completed(self) -> bool:
        """True when every rank came to its end with the data that the plan means."""
        return bool(self.ranks) and not self.bad

    @property
    def bad(self) -> tuple[RankState, ...]:
        """Ranks that did not end, or that received wrong data."""
        return tuple(s for s in self.ranks if not s.ended or s.mismatches)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON-compatible data."""
        return asdict(self)


def rank_states(observed: Mapping[str, Any]) -> tuple[RankState, ...]:
    """Turn what the script reported into states, ordered by rank."""
    states = []
    for entry in observed["ranks"]:
        fields = {name: entry[name] for name in ("rank", "state", "action", "op", "text")}
        states.append(
            RankState(
                **fields,
                seconds=entry["seconds"],
                error=_last_words(entry["error"]),
                signal=entry["signal"],
                inside=tuple(action for action, _, _ in entry["inside"] if action >= 0),
                mismatches=tuple((action, text) for action, text in entry["mismatches"]),
                stack=tuple(entry["stack"]),
            )
        )
    return tuple(sorted(states, key=lambda state: state.rank))


def as_written(states: tuple[RankState, ...], place: Place) -> tuple[RankState, ...]:
    """Return states with the action numbers of the plan as written."""
    return tuple(
        replace(
            state,
            action=None if state.action is None else place(state.rank, state.action),
            inside=tuple(place(state.rank, action) for action in state.inside),
            mismatches=tuple((place(state.rank, at), text) for at, text in state.mismatches),
        )
        for state in states
    )


def judge(
    plan: Mapping[str, Any],
    witness: Witness | None,
    states: tuple[RankState, ...],
    model: str | None,
    place: Place = lambda _, action: action,
) -> tuple[bool, str]:
    """Say whether the run did what the witness predicts, and why not.

    Args:
        plan: The flat plan.
        witness: The prediction; None for a plan without one.
        states: What was seen.
        model: Execution model of the verdict, for the reasons.
        place: Turns rank and action into the number that the plan as written gives the action.
    """
    bad = tuple(s for s in states if not s.ended or s.mismatches)
    if any(s.state == "late" for s in bad):
        return False, "not reproduced: the ranks were still moving when the replay was cut off"
    if witness is None or not (witness.blocked or witness.end == "mismatch"):
        seen = f"seen: {_summary(bad, place)}"
        return bool(bad), seen if bad else "every rank came to its end"
    if not bad:
        return False, f"not reproducible on this backend: {_why_not(plan, witness, model)}"
    if witness.end == "mismatch":
        return True, f"reproduced: {_summary(bad, place)}"
    return _compare(plan, witness, {s.rank: s for s in states}, bad, place)


def _compare(
    plan: Mapping[str, Any],
    witness: Witness,
    states: Mapping[int, RankState],
    bad: tuple[RankState, ...],
    place: Place,
) -> tuple[bool, str]:
    programs = rank_programs(plan)
    missing = []
    for rank, action in witness.blocked:
        if not _stuck_in(action, states.get(rank), programs[rank]):
            missing.append(f"r{rank}#{place(rank, action)}")
    blocked = {rank for rank, _ in witness.blocked}
    places = ", ".join(_at(s, place) for s in bad if s.rank in blocked)
    if not missing:
        number = len(witness.blocked)
        if number == 1:
            return True, f"reproduced: the rank in the predicted action ({places})"
        who = "both ranks" if number == 2 else f"all {number} ranks"
        return True, f"reproduced: {who} in the predicted actions ({places})"
    return False, (
        f"not reproduced: the run failed, but not in {', '.join(missing)} as predicted; "
        f"seen: {_summary(bad, place)}"
    )


def _stuck_in(action: int, state: RankState | None, program: list[dict[str, Any]]) -> bool:
    """Say whether a rank is stuck in an action, or in a wait for it."""
    if state is None or state.state != "stuck" or state.action is None:
        return False
    inside = {state.action, *state.inside}
    return action in inside or any(
        action in started(list(enumerate(program)), program[at]) for at in inside
    )


def _at(state: RankState, place: Place) -> str:
    at = state.action if state.action is None else place(state.rank, state.action)
    return f"r{state.rank}#{at}"


def _summary(bad: tuple[RankState, ...], place: Place) -> str:
    """Describe what went wrong, rank by rank, in one line."""
    parts = []
    for state in bad[:8]:
        where = _at(state, place)
        if state.mismatches:
            wrong = place(state.rank, state.mismatches[0][0])
            parts.append(f"MISMATCH at r{state.rank}#{wrong}")
        elif state.state == "signal":
            parts.append(f"{where} killed by {signal_name(state.signal)}")
        elif state.state == "error":
            parts.append(f"{where} failed: {shorten(state.error, 100)}")
        else:
            parts.append(f"{where} stuck in {state.op}")
    more = f", {len(bad) - 8} more" if len(bad) > 8 else ""
    return ", ".join(parts) + more


def signal_name(number: int | None) -> str:
    """Return SIGABRT for 6."""
    return signals.Signals(number).name if number in set(signals.Signals) else f"signal {number}"


def _why_not(plan: Mapping[str, Any], witness: Witness, model: str | None) -> str:
    """Name what the model assumes and gloo does not do; never claim that there is no bug."""
    programs = rank_programs(plan)
    if is_unseen(plan, witness):
        return "what meets out of round carries no data, so that nobody can see which of them met"
    stuck = [programs[r][a] for r, a in witness.blocked if a < len(programs.get(r, []))]
    groups = {a.get("group", "world") for a in stuck if a["op"] not in ("wait", "compute")}
    model = model or str(plan.get("model") or "nccl")
    rules = find_model(model)
    if not rules.blocks_host:
        creates = rules.lazy_init or rules.new_group is NewGroup.WORLD
        if creates and any(a["op"] == "init" for a in stuck):
            return f"under {model} creating a communicator blocks; gloo groups exist beforehand"
        if len(groups) > 1:
            return (
                f"under {model} one device runs the queues of several communicators and may start "
                "them in conflicting orders; gloo has no device queue"
            )
        return (
            f"under {model} the operations of one communicator pass through one queue in issue "
            "order; gloo runs asynchronous operations side by side"
        )
    if rules.one_lock:
        return (
            f"under {model} the threads of a process take turns at MPI; gloo runs them side by side"
        )
    if rules.is_mpi:
        return f"{model} blocks where gloo does not"
    return "the run depends on timing; one run that completes does not refute the witness"


def is_unseen(plan: Mapping[str, Any], witness: Witness) -> bool:
    """Say whether only labels disagree, of barriers, which carry nothing to compare."""
    programs = rank_programs(plan)
    kept = [programs[r][a] for r, a in witness.actions if a < len(programs.get(r, []))]
    return witness.end == "mismatch" and {a["op"] for a in kept} <= WITHOUT_DATA | {"wait"}


def _last_words(text: str) -> str:
    """Cut the noise from what a dying process printed: the line that says what failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "what():" in line or "enforce fail" in line]
    return shorten((telling or lines or [""])[-1], 300)


def transcript(result: ReplayResult, conclusion: str = "") -> str:
    """Render a result for the terminal, one line per rank and the conclusion at the end.

    Args:
        result: What was seen.
        conclusion: Last line; the result's own reason by default.
    """
    lines = [f"note: {note}" for note in result.notes]
    width = min(48, max((len(_doing(s)) for s in result.ranks), default=0)) + 6
    number = len(str(max((s.rank for s in result.ranks), default=0)))
    for state in result.ranks:
        doing = _doing(state)
        dots = "." * max(3, width - len(doing))
        lines.append(f"rank {state.rank:<{number}}  {doing} {dots} {_state(state)}".rstrip())
        lines += [f"    MISMATCH {complaint}" for _, complaint in state.mismatches[:4]]
        if state.error:
            lines.append(f"    {state.error}")
    for state in result.ranks:
        if state.stack:
            lines.append(f"stack of rank {state.rank}, innermost call first:")
            lines += [f"    {_frame(frame)}" for frame in state.stack[:6]]
    return "\n".join([*lines, conclusion or result.reason])


def _doing(state: RankState) -> str:
    return "finished" if state.ended else state.text or "setup"


def _state(state: RankState) -> str:
    if state.state in ("stuck", "late"):
        where = f"   (faulthandler: {state.where})" if state.where else ""
        return f"{state.state} {state.seconds:.1f} s{where}"
    if state.state == "signal":
        return f"killed by {signal_name(state.signal)}"
    return state.state


def _frame(frame: str) -> str:
    match = FRAME.search(frame)
    if match is None:
        return frame
    return f"{PurePath(match['file']).name}:{match['line']} in {match['function']}"
