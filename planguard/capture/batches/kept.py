"""What an edit must keep: an edit that is SAFE since it does less than the program is no mend.

* A call that a rank issued in an assignment that was SAFE before is issued behind the edit, by that
  rank, in that assignment, as often, at the line that it stood on. Else the edit is refused.
* A line that issued a call in any assignment, SAFE or not, still issues it in one of them. Else the
  edit has switched it off, and is refused.
* A line that ran before and never runs any more is told; such an edit comes behind all others.

Lines are those of the former text: one that was changed stands for what replaced it, one that was
moved for itself.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.batches.sampled import given, play_one
from planguard.errors import PlanGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from planguard.capture.batches.sampled import Door, Supply
    from planguard.capture.batches.samples import Assignment
    from planguard.capture.play.ranks import Play, PlayedRank

_TRACED = 8  # assignments of which the lines are compared
_TOLD = 3  # lines that are named

_Place = tuple[str, int | str]
_Call = tuple[str, str, _Place]
"""Kind of a call, its file, and its line in the former text."""
_Issued = dict[int, Counter[_Call]]


@dataclass(frozen=True)
class Lines:
    """Lines of a file before and behind an edit.

    Attributes:
        former: The place of each line of the former text.
        edited: The place of each line of the edited one.
    """

    former: dict[int, _Place]
    edited: dict[int, _Place]

    @classmethod
    def of(cls, before: str, after: str) -> Lines:
        """Compare two texts, whose lines may be indented otherwise."""
        old, new = ([one.strip() for one in text.splitlines()] for text in (before, after))
        former: dict[int, _Place] = {}
        edited: dict[int, _Place] = {}
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        other = [block for block in blocks if block[0] != "equal"]
        gone = {old[at] for _, first, last, _, _ in other for at in range(first, last)}
        come = {new[at] for _, _, _, first, last in other for at in range(first, last)}
        moved = (gone & come) - {""}
        for what, i, end_i, j, end_j in blocks:
            for at in range(i, end_i):
                former[at + 1] = ("line", at + 1) if what == "equal" else ("block", i)
            for at in range(j, end_j):
                edited[at + 1] = ("line", at - j + i + 1) if what == "equal" else ("block", i)
            if what != "equal":
                former.update({at + 1: ("moved", old[at]) for at in range(i, end_i)
                               if old[at] in moved})  # fmt: skip
                edited.update({at + 1: ("moved", new[at]) for at in range(j, end_j)
                               if new[at] in moved})  # fmt: skip
        return cls(former, edited)


@dataclass
class Kept:
    """What a program did before it was edited; each assignment is played once for it.

    Attributes:
        file: The file that is edited.
        supply: What ranks may get.
        assignments: The assignments.
        door: How the program is played.
        end: When no further play is begun.
    """

    file: str
    supply: Supply
    assignments: Sequence[Assignment]
    door: Door
    end: float
    _plays: dict[Assignment, tuple[Play, bool]] | None = None
    _ran: set[int] = field(default_factory=set)

    def fault(self, plays: Mapping[Assignment, Play], lines: Lines) -> str:
        """Say which call an edit takes away; empty where it takes none.

        Args:
            plays: The plays of the edited program, all of its assignments.
            lines: The lines of the edit.
        """
        before = self._before()
        if before is None:
            return "the time was over before it was known what ranks issued without the edit"
        now = {one: _issued(play, self.file, lines.edited) for one, play in plays.items()}
        left = Counter[_Call]()
        for found in now.values():
            for calls in found.values():
                left.update(calls)
        for assignment, (play, is_safe) in sorted(before.items(), key=lambda one: not one[1][1]):
            for rank, calls in _issued(play, self.file, lines.former).items():
                mine = now[assignment].get(rank, Counter())
                lost = calls - mine if is_safe else Counter(one for one in calls if not left[one])
                if lost:
                    call = _said(next(iter(lost)))
                    which = given(self.supply, assignment) if self.supply.what else ""
                    where = f" ({which})" if which else ""
                    return (
                        f"it takes the {call} from rank {rank} where it was SAFE{where}"
                        if is_safe
                        else f"no rank issues the {call} any more, which rank {rank} did{where}"
                    )
        return ""

    def unrun(self, changed: Door, lines: Lines) -> str:
        """Say which lines never run behind an edit that ran before; empty where all do."""
        some = self.assignments[:_TRACED]
        if not self._ran:
            self._ran = _ran(self.file, self.supply, some, self.door, self.end)
        places = {lines.edited.get(at) for at in
                  _ran(self.file, self.supply, some, changed, self.end)}  # fmt: skip
        if time.monotonic() >= self.end:
            return "whether a line NEVER RUNS any more was not seen to the end"
        never = sorted(at for at in self._ran if lines.former.get(at) not in places)
        if not never:
            return ""
        what, runs = ("line", "RUNS") if len(never) == 1 else ("lines", "RUN")
        some_at = ", ".join(map(str, never[:_TOLD])) + " and others" * (len(never) > _TOLD)
        return f"{what} {some_at}, which ran before, NEVER {runs} now"

    def _before(self) -> dict[Assignment, tuple[Play, bool]] | None:
        if self._plays is None:
            found: dict[Assignment, tuple[Play, bool]] = {}
            for assignment in self.assignments:
                if time.monotonic() >= self.end:
                    return None
                play = self.door.new_play()
                play.is_quiet = True
                try:
                    play_one(play, self.door, self.supply, assignment)
                    found[assignment] = play, self.door.judge(play)[1].safe
                except PlanGuardError:
                    found[assignment] = play, False  # a rank raises
            self._plays = found
        return self._plays


def _said(call: _Call) -> str:
    op, file, (what, at) = call
    name = Path(file).name
    return f"{op} at {name}:{at}" if what == "line" else f"{op} of the changed lines of {name}"


def _issued(play: Play, file: str, places: dict[int, _Place]) -> _Issued:
    """Return what each rank issued where, in lines of the former text."""
    found: _Issued = {}
    for rank, log in play.logs.items():
        rows = found.setdefault(rank, Counter())
        for action in log.actions:
            name, line = (action.get("src") or ["", 0])[:2]
            place = places.get(line, ("line", line)) if name == file else ("line", line)
            rows[str(action["op"]), name, place] += 1
    return found


def _ran(
    file: str, supply: Supply, assignments: Sequence[Assignment], door: Door, end: float
) -> set[int]:
    """Return the lines of a file that any rank runs in some assignments."""
    found: set[int] = set()
    for assignment in assignments:
        if time.monotonic() >= end:
            break
        with tempfile.TemporaryDirectory() as folder:

            def job(played: PlayedRank, sample: Any, folder: str = folder) -> None:
                with _lines_to(Path(folder) / str(played.rank), file):
                    door.job(played, sample)

            play = door.new_play()
            play.is_quiet = True
            with contextlib.suppress(PlanGuardError):  # what ran until then did run
                play_one(play, replace(door, job=job), supply, assignment)
            for one in Path(folder).iterdir():
                found.update(json.loads(one.read_text()))
    return found


@contextlib.contextmanager
def _lines_to(target: Path, file: str) -> Iterator[None]:
    """Write the lines of a file that the block runs, however it ends."""
    found: set[int] = set()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.add(frame.f_lineno)
        return local

    def called(frame: FrameType, _: str, __: Any) -> Any:
        return local if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        target.write_text(json.dumps(sorted(found)))
