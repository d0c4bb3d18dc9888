"""The report of a stuck run: who stands where, why nobody can move, and what to change."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from planguard.live.hints import hints
from planguard.live.native_stack import waits_for_the_device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.live.analysis import Stuck
    from planguard.live.state import Call, RankState

SCHEMA = "planguard.live/1"


@dataclass(frozen=True)
class StuckRank:
    """One stuck rank: where it stands, for how long, for whom it waits, its stacks."""

    rank: int
    call: str
    where: str
    since_s: float
    waits_for: tuple[int, ...]
    is_certain: bool
    stack: tuple[str, ...]
    native: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiveReport:
    """What the guard found.

    Attributes:
        code: ``PG501``.
        ranks: The stuck ranks, in order.
        cycle: Ranks of a wait-for cycle; empty when somebody never comes.
        ended: Ranks that have left and are waited for.
        everybody: No rank of the job can move.
        timeout: Seconds after which a rank was suspected.
        hints: What to change.
        partners: Ranks that came to a call of a stuck rank and may compute: where they stand.
    """

    code: str
    ranks: tuple[StuckRank, ...]
    cycle: tuple[int, ...]
    ended: tuple[int, ...]
    everybody: bool
    timeout: float
    hints: tuple[str, ...]
    partners: tuple[StuckRank, ...] = ()

    def text(self) -> str:
        """Return the report for people."""
        who = ", ".join(str(one.rank) for one in self.ranks)
        many = "ranks" if len(self.ranks) > 1 else "rank"
        lines = [f"error[{self.code}]: stuck: {many} {who} can never move again"]
        for one in self.ranks:
            seen = "" if one.is_certain else "  (concluded from its stack)"
            lines.append(f"  r{one.rank}  {one.call}  {one.since_s:.1f} s{seen}")
            if one.where:
                lines.append(f"      at {one.where}")
            if one.waits_for:
                lines.append(f"      waits for {', '.join(f'rank {r}' for r in one.waits_for)}")
        if self.cycle:
            ring = " -> ".join(f"r{rank}" for rank in (*self.cycle, self.cycle[0]))
            lines.append(f"  cycle: {ring}")
        lines += [f"  ended: rank {rank}" for rank in self.ended]
        for one in self.partners:
            where = f"  at {one.where}" if one.where else ""
            lines.append(f"  partner: r{one.rank}, last call {one.call}{where}")
        lines += [f"help: {hint}" for hint in self.hints]
        for one in (*self.ranks, *self.partners):
            lines += ["", f"stack of rank {one.rank}, innermost first:"]
            lines += [f"  {frame}" for frame in one.stack]
            if one.native:
                lines += [f"native stack of rank {one.rank}, innermost first:"]
                lines += [f"  {frame}" for frame in one.native]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Return the report as ``planguard.live/1``."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, sort_keys=True, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> LiveReport:
        """Read a report."""
        fields: dict[str, Any] = json.loads(text)
        fields.pop("schema")
        for name in ("cycle", "ended", "hints"):
            fields[name] = tuple(fields[name])
        lists = ("waits_for", "stack", "native")
        for name in ("ranks", "partners"):
            fields[name] = tuple(
                StuckRank(**{**one, **{part: tuple(one.get(part, ())) for part in lists}})
                for one in fields.get(name, ())
            )
        return LiveReport(**fields)


def report_of(stuck: Stuck, states: Mapping[int, RankState], timeout: float) -> LiveReport:
    """Return the report of a stuck set."""
    ranks = tuple(_stand(wait.rank, wait.call, states, wait.missing) for wait in stuck.waits)
    beside = {rank: call for wait in stuck.waits for rank, call in wait.partners}
    partners = tuple(
        _stand(rank, call, states)
        for rank, call in sorted(beside.items())
        if rank not in stuck.ranks and not states[rank].has_ended
    )
    ended = tuple(sorted({rank for wait in stuck.waits for rank in wait.ended}))
    return LiveReport(
        "PG501", ranks, stuck.cycle, ended, stuck.everybody, timeout, hints(stuck), partners
    )


def _stand(
    rank: int, call: Call, states: Mapping[int, RankState], missing: tuple[int, ...] = ()
) -> StuckRank:
    """Return where a rank stands, as the report shows it."""
    state = states[rank]
    return StuckRank(
        rank,
        call.text(),
        call.where,
        state.since_s,
        missing,
        state.is_certain,
        state.stack,
        state.native,
    )


def no_progress(
    states: Mapping[int, RankState], warn_after: float, world_size: int | None = None
) -> str:
    """Return the warning PG502 when ranks spend long in their calls; empty otherwise.

    The mean is over all ranks, those that compute with none, as the Intel Trace Collector takes it
    (its user guide, "No Progress"): who waits for one slow rank is no news, a job that stands is.

    Args:
        states: What is known of the ranks.
        warn_after: Mean seconds above which it is said.
        world_size: Number of ranks; those of which nothing is known count as computing.
    """
    times = [state.since_s for state in states.values() if state.current is not None]
    mean = sum(times) / max(world_size or len(states), 1)
    if not times or mean < warn_after:
        return ""
    said = (
        f"warning[PG502]: no progress: {len(times)} of {world_size or len(states)} ranks stand in "
        f"their last call, {mean:.1f} s on average over all; a rank that still computes, a slow "
        "file system, or a polling loop"
    )
    return "\n".join([said, *_on_the_device(states)])


_TELLING = "TORCH_NCCL_BLOCKING_WAIT=1, or the interposer and the profiler plugin,"


def _on_the_device(states: Mapping[int, RankState]) -> list[str]:
    """Return where hosts wait for their GPU, and how a hang is told from a long kernel there."""
    found = [
        f"  r{rank} waits for its GPU, last call {state.current.text()} at {state.current.where}"
        for rank, state in sorted(states.items())
        if state.current is not None and waits_for_the_device(state.native)
    ]
    if not found:
        return []
    return [
        *found,
        f"help: seen from the host a long kernel is as a hang; {_TELLING} tell them apart",
    ]
