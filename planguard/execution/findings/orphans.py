"""Matches that lack a participant -> findings that say who is missing; never a cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.execution.findings.absent import (
    absent_ranks,
    balance,
    is_split,
    last_place,
    other_tag,
)
from planguard.execution.findings.cause import Cause, make_finding, shape_of
from planguard.execution.findings.edges import own_place, view_of
from planguard.execution.findings.locate import describe, group_name, locate
from planguard.plan.vocabulary import BLOCKING, MESSAGES, POINT_TO_POINT, RECEIVES
from planguard.semantics.model import NewGroup
from planguard.verdict import CycleEdge
from planguard.words import name_ranks, shown

if TYPE_CHECKING:
    from planguard.execution.findings.members import Match
    from planguard.execution.findings.stuck import Orphan, Place
    from planguard.execution.running.executor import Execution
    from planguard.verdict import Location

SHOWN = 8
"""Most waiting places in one finding."""
ABSENT = 3
"""Most missing ranks of which the finding shows the last action."""
_RECEIVES = RECEIVES | {"probe"}
_PAIRS = POINT_TO_POINT | {"batch", "wait"}


def explain_orphan(execution: Execution, orphan: Orphan) -> Cause:
    """Return the finding of a match that lacks a participant."""
    waiting = sorted(orphan.waiting, key=lambda place: place.rank)
    at = tuple(_stands(execution, orphan.match, place) for place in waiting[:SHOWN])
    missing, exited = absent_ranks(execution, orphan)
    story = _Story(execution, orphan, at[0], missing, exited)
    last = [last_place(execution, orphan.match, rank) for rank in (exited or missing)[:ABSENT]]
    finding = make_finding(
        story.code,
        story.message(),
        ranks=tuple(sorted({place.rank for place in waiting})),
        primary=at[0],
        related_actions=(*at[1:], *(place for place in last if place is not None)),
        cycle=tuple(CycleEdge(here, None, None, story.why(here)) for here in at),
        subkind="orphan",
        related=("PG211",) if story.code in {"PG006", "PG007", "PG009"} else (),
        notes=story.notes(),
    )
    shape = (story.code, *sorted({shape_of(execution, place) for place in waiting}))
    return Cause(
        finding,
        tuple(waiting),
        (),
        shape,
        (orphan.match.number,),
        absent=missing,
        apart=story.is_split,
    )


def _stands(execution: Execution, match: Match, place: Place) -> Location:
    """Return where a rank stands; of a queue, the message at its head and not what is behind it.

    A rank whose queue is held up is found at a later call that comes to no end; the message
    without a partner is the one to name.
    """
    here = locate(execution, place)
    if match.type != "pair" or here.op not in MESSAGES:
        return here
    own = own_place(execution, match, place.rank)
    return here if own is None else locate(execution, own)


class _Story:
    """What is said of one orphan."""

    def __init__(
        self,
        execution: Execution,
        orphan: Orphan,
        at: Location,
        missing: tuple[int, ...],
        exited: tuple[int, ...],
    ) -> None:
        self.execution, self.orphan, self.match, self.at = execution, orphan, orphan.match, at
        self.missing, self.exited = missing, exited
        self.is_pair = self.match.type in {"pair", "pair-init"}
        self.op = self._own_op()
        self.is_receive = self.op in _RECEIVES
        self.is_split = at.op in _PAIRS and is_split(execution, orphan, at.rank, missing)
        self.code = self._code()

    def _own_op(self) -> str:
        """Name the waiting rank's own member of the match: of a wait, what it waits for."""
        place = own_place(self.execution, self.match, self.at.rank)
        return self.at.op if place is None else view_of(self.execution, place).op

    def _code(self) -> str:
        kind = self.match.type
        if kind == "dead":
            return "PG308"
        if self.exited or kind == "token":
            return "PG006"
        if kind == "new_group":
            return "PG406"
        if self.is_split or self.at.op == "batch":
            return "PG011"
        if not self.is_pair:
            return "PG009" if self.op == "barrier" else "PG007"
        if kind == "pair" and other_tag(self.execution, self.match) is not None:
            return "PG207"
        if self.at.op in BLOCKING or self.at.op == "wait":
            return "PG210"
        return "PG209" if self.is_receive else "PG208"

    def why(self, here: Location) -> str:
        """Return why a place waits, as a word of the result schema."""
        if self.exited:
            return "exited"
        if self.orphan.why != "queue":
            return self.orphan.why
        if not self.is_pair:
            return "collective-incomplete"
        return "recv-unmatched" if self.is_receive else "send-unmatched"

    # --- the headline ----------------------------------------------------------------------------

    def message(self) -> str:
        """Return the headline: who never comes, and who waits for it where."""
        if self.code == "PG308":
            return f"{self._who()} behind a work handle that was dropped before its match"
        if self.match.type == "token":
            return f"rank {self.at.rank} leaves while its {self.at.op} is still in flight"
        if self.is_split:
            return self._split()
        return self._pair() if self.is_pair else self._round()

    def _who(self) -> str:
        ranks = {place.rank for place in self.orphan.waiting}
        return f"{name_ranks(ranks)} {'waits' if len(ranks) == 1 else 'wait'}"

    def _round(self) -> str:
        group = shown(group_name(self.execution, self.match.ginst))
        if self.match.type in {"round", "edge"}:
            what = f"{self.op}, {describe(self.execution, self.match)}"
            there = f"{self._who()} there"
        else:
            what = f"group {group}"
            there = f"{self._who()} in {self.at.op} for its communicator to be created"
        if self.exited:
            verb = "leaves" if len(self.exited) == 1 else "leave"
            what = what if self.match.type in {"round", "edge"} else f"using {what}"
            return f"{name_ranks(self.exited)} {verb} before {what}; {there}"
        verb = {"round": "reach", "edge": "reach", "new_group": "create"}.get(
            self.match.type, "use"
        )
        absent = name_ranks(self.missing) if self.missing else "a member"
        ending = "s" if len(self.missing) < 2 else ""
        if verb == "reach":
            ending = "es" if ending else ""
        if verb == "create" and self.execution.model.new_group is NewGroup.ENTERING:
            # A rank that is no member returns at once, though the whole world has to make the call.
            return f"{absent} never enter{ending} a creation that all ranks have to make; {there}"
        what += " at this place of its creation order" if verb == "create" else ""
        return f"{absent} never {verb}{ending} {what}; {there}"

    def _pair(self) -> str:
        src, dst = self._ends()
        other = src if self.at.rank == dst else dst
        where = f"for its {self.op}" if self.at.op == "wait" else f"in {self.at.op}"
        if self.at.op == "batch":
            where = f"in batch for its {self.op}"
        direction = "from" if self.is_receive else "to"
        waits = f"rank {self.at.rank} waits {where} {direction} rank {other}"
        if self.exited:
            return f"{waits}, which leaves without it"
        if self.code == "PG207":
            return f"{waits}, which uses another tag for this message"
        never = "never sends it" if self.is_receive else "never receives it"
        return f"{waits}, which {never}"

    def _split(self) -> str:
        batched = self.at.op == "batch"
        here, there = ("batch", "alone") if batched else ("alone", "in a batch")
        other = self.missing[0] if self.missing else self.at.rank
        mine = f"in {here}" if batched else f"in {self.at.op}, issued {here},"
        return f"rank {self.at.rank} waits {mine} for rank {other}, which issues its side {there}"

    def _ends(self) -> tuple[int, int]:
        """Return sender and receiver; creation of a pair's communicator has neither."""
        first, second = self.match.ranks
        if self.match.type == "pair":
            return first, second
        other = second if first == self.at.rank else first
        return (other, self.at.rank) if self.is_receive else (self.at.rank, other)

    # --- notes -----------------------------------------------------------------------------------

    def notes(self) -> tuple[str, ...]:
        """Return who is missing, and the counts that show it."""
        said = []
        if self.missing:
            said.append(f"missing participant: {name_ranks(self.missing)}")
        if self.is_split:
            said.append(
                f"under {self.execution.model.name} a batch uses the communicator of its group and "
                "a single call that of the pair: the two never meet"
            )
            return tuple(said)
        if self.code == "PG207":
            said.append(str(other_tag(self.execution, self.match)))
        elif not self.exited:
            said += balance(self.execution, self.match, self.at.rank, self.missing)
        return tuple(said)
