"""Words of the coordination service of JAX and TensorFlow: who came to a barrier, who fell silent.

Formats: ``coordination_service.cc`` of XLA (``xla/tsl/distributed_runtime/coordination``) and of
TensorFlow since 2022: ``CheckBarrierTimeout`` names those that had *not* reached the barrier, 19 at
most, and the first one that had; ``CheckHeartbeatTimeout`` names tasks one by one, and newer ones
in a list as well. Each process may print them. A task whose heartbeats were lost may be alive: the
service concludes that it crashed, and its message to that task says so, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planguard.recording import Absence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.text_log import Line

BY = "the coordination service"
MAX_TASK = 1_000_000
_TASK = re.compile(r"/job:(?P<job>[\w.-]{1,60})/replica:\d{1,6}/task:(?P<task>\d{1,7})")
_BARRIER = re.compile(r"Barrier timed out\. Id: (?P<id>.{1,200}?)\.(?: This usually|\s*$|\s+#)")
_REACHED = re.compile(r"# of tasks that reached the barrier: (?P<here>\d{1,7})/(?P<all>\d{1,7})")
_FIRST = re.compile(rf"The first task at the barrier: {_TASK.pattern}")
_LATE = re.compile(r"Some timed out task names:")
_SILENT = re.compile(r"tasks are unhealthy \(stopped sending heartbeats\):?")
_ONE_SILENT = re.compile(rf"Task {_TASK.pattern} heartbeat timeout")
_WORDS = re.compile(r"arrier|eartbeat|/task:|reached")
_LISTED = re.compile(rf"\W{{0,8}}{_TASK.pattern}\W*")


@dataclass
class _Barrier:
    """A barrier that timed out, as far as it was told."""

    name: str
    came: tuple[int, int] = (0, 0)
    first: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)


@dataclass
class _Service:
    """What one speaker repeats of the service's words."""

    barriers: dict[str, _Barrier] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    last: _Barrier | None = None
    listed: set[int] | None = None

    def hear(self, text: str) -> None:
        """Take one line."""
        if self.listed is not None and (one := _LISTED.fullmatch(text)) is not None:
            self._tasks(one[0], self.listed)
            return
        self.listed = None
        if not _WORDS.search(text):
            return
        if (barrier := _BARRIER.search(text)) is not None:
            self.last = self.barriers[barrier["id"]] = _Barrier(barrier["id"])
        if (came := _REACHED.search(text)) is not None and self.last is not None:
            self.last.came = int(came["here"]), int(came["all"])
        if (first := _FIRST.search(text)) is not None and self.last is not None:
            self._tasks(first[0], self.last.first)
        for mark, tasks in (
            (_LATE, None if self.last is None else self.last.late),
            (_SILENT, self.silent),
        ):
            if tasks is not None and (said := mark.search(text)) is not None:
                self.listed = tasks
                self._tasks(text[said.end() :], tasks)
        if (one := _ONE_SILENT.search(text)) is not None:
            self._tasks(one[0], self.silent)

    def _tasks(self, text: str, found: set[int]) -> None:
        for task in _TASK.finditer(text):
            if int(task["task"]) < MAX_TASK:
                found.add(int(task["task"]))
                self.jobs.add(task["job"])


def told_by_service(lines: Sequence[Line]) -> list[Absence]:
    """Return who did not come to a barrier, and who stopped sending heartbeats.

    Tasks are ranks where all are of one job; a chief and its workers are numbered by themselves.
    """
    service = _Service()
    for line in lines:
        # A traceback may print the words of the service in one line.
        for text in line.text.split("\\n"):
            service.hear(text)
    found = [_late(one) for one in service.barriers.values()]
    if service.silent:
        ranks = tuple(sorted(service.silent))
        found.append(Absence("sending heartbeats", ranks, by=BY, has_stopped=True))
    return [replace(one, are_places=len(service.jobs) > 1) for one in found]


def _late(barrier: _Barrier) -> Absence:
    here, total = barrier.came
    count = f" ({here} of {total} tasks reached it)" if total else ""
    due = total if total < MAX_TASK else 0
    late, first = tuple(sorted(barrier.late)), tuple(sorted(barrier.first))
    if barrier.late & barrier.first or (total and len(late) > total - here):
        late = ()  # two reports were mixed
    return Absence(f"the barrier `{barrier.name}`{count}", late, first, by=BY, due=due)
