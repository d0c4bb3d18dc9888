"""What ranks do around the actions of a finding: one action before and after each, and marks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.explain.lines import Line, Span, columns, flow, line
from planguard.explain.reasons import sentence
from planguard.words import MAX_NAMED, name_ranks

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Finding, Location

CAUSE, SIDE = "^^^^", "----"
NEVER = ("never starts", "never reached")
"""What is said of an action that does not happen: without and with a host that blocks."""
GAP = "..."

_SAYS: dict[str, tuple[str, str]] = {
    "PG102": ("in one of the open orders this meets other data on rank {other}", ""),
    "PG103": ("a flush may hold other members here than on rank {other}", ""),
    "PG104": ("fused with other members than on rank {other}", ""),
    "PG107": ("may be in flight together with the other group's call", ""),
    "PG201": ("another collective than on rank {other}", ""),
    "PG202": ("another size than on rank {other}", ""),
    "PG203": ("another element type than on rank {other}", ""),
    "PG204": ("another reduce operation than on rank {other}", ""),
    "PG205": ("another root than on rank {other}", ""),
    "PG206": ("other split sizes than on rank {other}", ""),
    "PG210": ("nothing ever matches this", ""),
    "PG212": ("other data than on rank {other}", ""),
    "PG213": ("other data than on rank {other}", ""),
    "PG214": ("asynchronous only here", ""),
    "PG216": ("another number of calls before than on rank {other}", ""),
    "PG301": ("never waited for", ""),
    "PG304": ("reads the buffer", "still in flight"),
    "PG305": ("writes the buffer", "still in flight"),
    "PG306": ("uses the buffer", "still in flight"),
    "PG307": ("nothing flushes the buffer after this", ""),
    "PG308": ("the handle is dropped here", "started here"),
    "PG309": ("nobody records this event", ""),
    "PG310": ("destroys the group", "still pending"),
    "PG406": ("created at another place than on the other ranks", ""),
}
"""What stands under the primary and under the other actions of findings without a cycle."""


@dataclass
class _Row:
    """One action shown: what is said under it, and whether it is out of reach."""

    marks: list[tuple[str, str]] = field(default_factory=list)
    is_unreached: bool = False


class Context:
    """The part of a diagnostic that shows actions, rank by rank."""

    def __init__(self, finding: Finding, plan: Plan | None, *, blocks_host: bool) -> None:
        self.finding, self.plan, self.blocks_host = finding, plan, blocks_host
        self.rows: dict[int, dict[int, _Row]] = {}
        self.texts: dict[tuple[int, int], str] = {}
        self.like: dict[int, list[int]] = {}
        self._collect()
        if plan is not None:
            self._neighbors(plan)

    @property
    def gutter(self) -> int:
        """Columns of the widest rank name in front of the bar, with a space on each side."""
        return max((len(f"r{rank}") for rank in self.rows), default=2) + 2

    # --- which actions -----------------------------------------------------------------------

    def _collect(self) -> None:
        finding = self.finding
        if finding.subkind == "orphan":
            self._orphan()
        elif finding.cycle:
            self._cycle()
        else:
            self._places()

    def _row(self, place: Location) -> _Row:
        self.texts[place.rank, place.action] = place.text or place.op
        return self.rows.setdefault(place.rank, {}).setdefault(place.action, _Row())

    def _cycle(self) -> None:
        primary = self.finding.primary
        first = next((i for i, e in enumerate(self.finding.cycle) if e.at == primary), 0)
        edges = [*self.finding.cycle[first:], *self.finding.cycle[:first]]
        for edge in edges[:MAX_NAMED]:
            self._row(edge.at).marks.append((CAUSE, sentence(edge)))
        for edge in edges:
            owed = edge.waits_for
            if (
                owed is not None
                and owed.rank in self.rows
                and owed.action not in self._at(owed.rank)
            ):
                self._row(owed).is_unreached = True

    def _at(self, rank: int) -> set[int]:
        return {edge.at.action for edge in self.finding.cycle if edge.at.rank == rank}

    def _orphan(self) -> None:
        waiting = {edge.at.rank for edge in self.finding.cycle}
        for edge in self.finding.cycle:
            if not self._folds(edge.at):
                dropped = self.finding.code == "PG308"
                says = "its partner's handle may die first" if dropped else sentence(edge)
                self._row(edge.at).marks.append((CAUSE, says))
        rest = set(self.finding.ranks) - waiting
        if rest and self.finding.cycle:
            self.like.setdefault(self.finding.cycle[0].at.rank, []).extend(sorted(rest))
        for place in self.finding.related_actions:
            if place.rank not in waiting:
                self._row(place).marks.append((SIDE, self._last_seen(place)))

    def _last_seen(self, place: Location) -> str:
        if self.finding.code == "PG308":
            return "the handle of this call dies later"
        if place.op == "exit":
            return f"rank {place.rank} leaves here"
        if self.plan is not None and place.action == self.plan.length(place.rank) - 1:
            return f"rank {place.rank} ends here"
        return f"the last such call of rank {place.rank}"

    def _places(self) -> None:
        """Show primary and related actions; those that look alike only once."""
        finding, primary = self.finding, self.finding.primary
        if primary is None:
            return
        says, beside = _SAYS.get(finding.code, (finding.name.replace("-", " "), ""))
        others = [at for at in finding.related_actions if at.rank != primary.rank]
        other = others[0].rank if others else primary.rank
        self._row(primary).marks.append((CAUSE, says.format(other=other)))
        for place in finding.related_actions:
            # The first of the others has another opinion, even where it reads the same.
            if place in others[:1] or not self._folds(place):
                self._row(place).marks.append((SIDE, beside))
        rest = set(finding.ranks) - {primary.rank} - {at.rank for at in finding.related_actions}
        if rest and finding.code.startswith("PG3"):
            self.like.setdefault(primary.rank, []).extend(sorted(rest))

    def _folds(self, place: Location) -> bool:
        """Note a place that looks like one that is shown already, and those beyond the limit."""
        for rank, rows in self.rows.items():
            if rank != place.rank and any(
                action == place.action and self.texts[rank, action] == place.text for action in rows
            ):
                self.like.setdefault(rank, []).append(place.rank)
                return True
        if len(self.rows) >= MAX_NAMED and place.rank not in self.rows:
            self.like.setdefault(next(iter(self.rows)), []).append(place.rank)
            return True
        return False

    def _neighbors(self, plan: Plan) -> None:
        """Add one action before and one after each shown action."""
        for rank, rows in self.rows.items():
            stuck = [
                action for action, row in rows.items() if row.marks and row.marks[0][0] == CAUSE
            ]
            length = plan.length(rank)
            for action in list(rows):
                for near in (action - 1, action + 1):
                    if not 0 <= near < length or near in rows:
                        continue
                    self.texts[rank, near] = plan.describe_action(rank, near)
                    after = bool(self.finding.cycle) and self.blocks_host and bool(stuck)
                    rows[near] = _Row(is_unreached=after and near > min(stuck))

    # --- lines -------------------------------------------------------------------------------

    def lines(self, width: int) -> list[Line]:
        """Return the lines, an empty bar around each rank."""
        if not self.rows:
            return []
        bar: Line = line(("gutter", " " * self.gutter + "|"))
        out = [bar]
        for rank in self.rows:
            out += self._rank(rank, width)
            out.append(bar)
        return out

    def _rank(self, rank: int, width: int) -> list[Line]:
        rows = self.rows[rank]
        digits = max(len(f"#{action}") for action in rows)
        before = None
        out: list[Line] = []
        for action, row in sorted(rows.items()):
            if before is not None and action > before + 1:
                out.append(line(self._bar(rank), ("dim", f" {GAP}")))
            out += self._action(rank, action, row, digits, width)
            before = action
        if rank in self.like:
            text = f"the same on {name_ranks(self.like[rank])}"
            out += flow(line(self._bar(), " "), text, "dim", width=width)
        return out

    def _action(self, rank: int, action: int, row: _Row, digits: int, width: int) -> list[Line]:
        number = f"#{action}".ljust(digits)
        head = line(self._bar(rank), f" {number}  ")
        indent = self.gutter + 1 + 1 + digits + 2
        text = self.texts[rank, action]
        out = self._under(flow(head, text, width=width))
        if row.is_unreached:
            last = out[-1]
            room = width - sum(columns(part) for _, part in last)
            never = NEVER[self.blocks_host]
            if room >= len(never) + 2:
                out[-1] = (*last, ("dim", " " * min(6, room - len(never)) + never))
            else:
                out.append(line(self._bar(), " " * (indent - self.gutter - 1), ("dim", never)))
        for mark, says in row.marks:
            role = "cause" if mark == CAUSE else "dim"
            under = line(self._bar(), " " * (indent - self.gutter - 1), (role, f"{mark} "))
            out += self._under(flow(under, says, role, width=width))
        return out

    def _under(self, lines: list[Line]) -> list[Line]:
        """Put the bar in front of lines that continue another."""
        fixed = lines[:1]
        for spans in lines[1:]:
            (role, text), *rest = spans
            fixed.append((self._bar(), (role, text[self.gutter + 1 :]), *rest))
        return fixed

    def _bar(self, rank: int | None = None) -> Span:
        named = "" if rank is None else f"r{rank}"
        return "gutter", f" {named:>{self.gutter - 2}} |"
