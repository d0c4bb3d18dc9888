"""Host threads that communicate: their calls are interleaved freely between start and join.

A thread's calls may come before, between and after those that other threads issue while it runs.
Played ranks therefore note where a thread is started and joined, and what runs side by side becomes
a `threads` block. In a block, what comes behind a join, or in a thread that is started behind a
call, comes `after` a computation at the end of what was joined, or of that call. A task of a thread
pool counts as a thread (``pools``); a pool of one thread runs its tasks in the order in which they
were submitted. Threads that order each other by other means (an event, a queue) are interleaved all
the same, which a ledger entry says: a finding may then rest on an order that never happens.

Above 400 lines: what a rank notes of its threads, and how that is read, go by the same marks.
"""

from __future__ import annotations

import functools
import multiprocessing.pool
import queue
import sys
import threading
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.names.pools import Tasks
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from planguard.capture.names.pools import Place

Action = dict[str, Any]
THREAD = "x-thread"
"""Of a recorded action: number of the thread that issued it; absent on the main one."""
STARTED, JOINED = "x-started", "x-joined"
"""Marks between recorded actions: ``{"op": STARTED, THREAD: number, BY: number of who did it}``."""
BY = "x-by"
"""Of a mark: the thread that started or joined; absent for the main one."""
POOL, WORKERS, BEHIND = "x-pool", "x-workers", "x-behind"
"""Of the mark of a task's start: its pool, the threads of that, and for a callback its task."""

_FUTURES = "concurrent.futures._base"
"""The module that waits for the ends of tasks, which are noted."""
NOBODY = -1
"""Number of a thread that nobody saw start."""
KIND = "host-threads"
_IN_PLACE = frozenset({"planguard.capture.values.own_turns"})
"""Modules whose functions stand in the place of a wait, and hand it on for who called them."""
NUMBER = "_planguard_number"
"""Attribute of a thread that was started while a rank was played."""
_IS_ALIVE = threading.Thread.is_alive
"""As it is; a played rank asks in its place who comes first."""


class Threads:
    """The threads of one rank, numbered as they start; the session's own is 0."""

    def __init__(self, marks: list[Action]) -> None:
        self.marks = marks
        self.numbers = {threading.get_ident(): 0}
        self.waits: list[str] = []
        self.tasks = Tasks(self._handed_over, self.as_thread, self.joined)
        self.takers: dict[Any, set[int]] = defaultdict(set)  # by queue
        self._count = 0

    def number(self) -> int | None:
        """Return the number of the running thread, None if nobody saw it start."""
        return self.numbers.get(threading.get_ident())

    def begun(self) -> int:
        """Note that something starts that runs as a thread of its own; return its number."""
        self._count += 1
        self._mark(STARTED, self._count)
        return self._count

    def joined(self, number: int) -> None:
        """Note that the running thread has waited for another."""
        self._mark(JOINED, number)

    def known_to_end(self, one: Any) -> None:
        """Note that the running thread was told that a thread or the task of a future has ended."""
        if not isinstance(one, threading.Thread):
            self.tasks.known_to_end(one)
        elif hasattr(one, NUMBER) and not _IS_ALIVE(one):
            self.joined(getattr(one, NUMBER))

    def _handed_over(self, place: Place) -> int:
        """Note that a task, or a callback behind one, is handed to a pool."""
        self._count += 1
        about = {POOL: place.pool, WORKERS: place.workers}
        self._mark(STARTED, self._count, about | ({BEHIND: place.behind} if place.behind else {}))
        return self._count

    @contextmanager
    def as_thread(self, number: int) -> Iterator[None]:
        """Take the running thread for another, to the end of the block."""
        mine, own = threading.get_ident(), self.number()
        self.numbers[mine] = number
        try:
            yield
        finally:
            if own is None:
                del self.numbers[mine]
            else:
                self.numbers[mine] = own

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note every start and join of a thread, and waits of threads for each other."""
        kind: Any = threading.Thread
        start, join = kind.start, kind.join
        event: Any = threading.Event
        condition: Any = threading.Condition
        waits = event.wait, condition.wait

        def started(thread: Any) -> None:
            number, run = self.begun(), thread.run
            setattr(thread, NUMBER, number)
            if getattr(thread, "_target", None) is multiprocessing.pool.worker:  # type: ignore[attr-defined]  # not public
                self.takers[thread._args[0]].add(number)  # noqa: SLF001 - its queue of tasks

            def numbered() -> None:
                self.numbers[threading.get_ident()] = number
                run()

            thread.run = numbered
            start(thread)

        def joined(thread: Any, timeout: float | None = None) -> None:
            join(thread, timeout)
            if not thread.is_alive():
                self.joined(getattr(thread, NUMBER, 0))

        with ExitStack() as stack:

            def replace(owner: Any, name: str, value: Any) -> None:
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, value)

            replace(kind, "start", started)
            replace(kind, "join", joined)
            for owner, original in zip((event, condition), waits, strict=True):
                replace(owner, "wait", self._waiting(original))
            replace(queue.Queue, "get", self._taking(queue.Queue.get))
            self.tasks.follow(replace)
            yield

    def luck(self, rank: int) -> str:
        """Say where several threads that communicate take their work from one queue, else nothing.

        Which of them takes what differs from run to run, and between ranks.

        Args:
            rank: The rank, for the ledger.
        """
        calls = [action for action in self.marks if not _is_mark(action) and THREAD in action]
        busy = {action[THREAD] for action in calls}
        taking = [some & busy for some in self.takers.values() if len(some) > 1 and some & busy]
        if not taking:
            return ""
        return (
            f"threads of rank {rank} that communicate take their work from one queue: which of "
            f"them takes what is not known{_lines(a for a in calls if a[THREAD] in taking[0])}"
        )

    def _taking(self, original: Any) -> Any:
        @functools.wraps(original)
        def get(one: Any, *args: Any, **options: Any) -> Any:
            self.takers[one].add(self.number() or 0)
            return original(one, *args, **options)

        return get

    def _mark(self, op: str, number: int, about: Mapping[str, Any] | None = None) -> None:
        by = self.numbers.get(threading.get_ident(), NOBODY)
        mark = {"op": op, THREAD: number, **(about or {}), **({BY: by} if by else {})}
        frame: Any = sys._getframe(1)  # noqa: SLF001 - torch or the interpreter has no public way
        while frame is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
        if op == STARTED and frame is not None:
            mark["src"] = [frame.f_code.co_filename, frame.f_lineno]
        self.marks.append(mark)

    def _waiting(self, original: Any) -> Any:
        def wait(self_: Any, timeout: float | None = None) -> Any:
            frame: Any = sys._getframe(1)  # noqa: SLF001 - torch or the interpreter has no public way
            while frame.f_back is not None and frame.f_globals.get("__name__") in _IN_PLACE:
                frame = frame.f_back
            module = str(frame.f_globals.get("__name__", ""))
            # A thread waits for its own start, a task's reader for its end, ours for each other.
            is_known = module in ("threading", _FUTURES) or module.startswith("planguard.")
            if not is_known:
                self.waits.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            return original(self_, timeout)

        return wait


def lists(
    actions: Sequence[Action], thread_of: Mapping[int, int]
) -> tuple[list[list[Action]], bool]:
    """Return the actions of every thread, and whether one waits for what another started.

    Args:
        actions: Actions in the order of the run.
        thread_of: Number of the thread of every action, by the identity of its dictionary.
    """
    home: dict[str, int] = {}
    found: dict[int, list[Action]] = {}
    crosses = False
    for action in actions:
        works = action.get("work", [])
        works = [works] if isinstance(works, str) else works
        # A handle that dies does so in whatever thread collects it; it is the issuer's.
        thread = thread_of.get(id(action), 0)
        if action["op"] == "drop":
            thread = home.get(works[0], thread)
        elif action["op"] == "wait":
            crosses = crosses or any(home.get(work, thread) != thread for work in works)
        else:
            home.update(dict.fromkeys(works, thread))
        found.setdefault(thread, []).append(action)
    return list(found.values()), crosses


def open_threads(
    rank: int, actions: Sequence[Action], waits: Sequence[str] = ()
) -> tuple[list[Action], list[tuple[str, str, str]]]:
    """Put what threads of a rank issue side by side into `threads` blocks.

    Args:
        rank: The rank, for the ledger.
        actions: Its actions and marks in the order of the run.
        waits: Places where a thread waited for another by other means than a join.

    Returns:
        The actions without marks, and ledger entries.
    """
    actions = _in_turn(actions)
    busy = {action[THREAD] for action in actions if THREAD in action and not _is_mark(action)}
    if not busy:
        return [action for action in actions if not _is_mark(action)], []
    pools = _Pools({a[THREAD]: a for a in actions if a["op"] == STARTED})
    found: list[Action] = []
    notes = pools.callbacks(rank, busy)
    side: list[Action] = []
    running: set[int] = set()
    ended_by: dict[int, set[int]] = defaultdict(set)
    for action in _starts_first(actions):
        number = action.get(THREAD, 0)
        if _is_mark(action):
            side.append(action)
            if action["op"] == STARTED:
                running |= {number} & busy
            elif BY in action:  # the main thread has not waited for it: it has for who did, later
                ended_by[action[BY]].add(number)
                continue
            else:
                running -= _ended_with(number, ended_by)  # a thread may be joined twice
            if not running:
                found += _block(rank, side, notes, pools, len(found))
                side = []
        elif running or number:
            side.append(action)
        else:
            found.append(action)
    found += _block(rank, side, notes, pools, len(found))
    if waits and found:
        said = (
            f"threads of rank {rank} wait for each other otherwise than by join ({waits[0]}); they "
            "are interleaved freely all the same"
        )
        notes.append((KIND, said, "over"))
    return found, notes


@dataclass(frozen=True)
class _Pools:
    """What starts say of tasks: the marks by the number of what started."""

    marks: Mapping[int, Action]

    def lane(self, number: int) -> int:
        """Return what a task shares with those that come in an order: its pool of one thread."""
        mark = self.marks.get(number, {})
        if mark.get(WORKERS) == 1:
            return -int(mark[POOL])
        return int(mark.get(BEHIND, number))

    def callbacks(self, rank: int, busy: set[int]) -> list[tuple[str, str, str]]:
        """Say where callbacks of tasks communicate, whose end nobody is known to wait for."""
        if not any(BEHIND in self.marks.get(number, {}) for number in busy):
            return []
        said = (
            f"a callback of a task of rank {rank} communicates: its calls and those of its task "
            "are taken to come as late as the pool lives"
        )
        return [(KIND, said, "over")]

    def undecided(self, rank: int, numbers: set[int]) -> str:
        """Say why the order of some tasks is not known; empty where it is.

        More tasks than threads of their pool wait for each other in ways that no lanes have: which
        of them ends first says who begins next. Tasks that several threads hand to a pool of one
        come in any order.
        """
        tasks: dict[int, list[Action]] = defaultdict(list)
        for number in sorted(numbers):
            mark = self.marks.get(number, {})
            if POOL in mark:
                tasks[mark[POOL]].append(mark)
        for marks in tasks.values():
            workers, given = marks[0][WORKERS], [one for one in marks if BEHIND not in one]
            if 1 < workers < len(given):
                return (
                    f"{len(given)} tasks of rank {rank} communicate in a pool of {workers} "
                    "threads: which of them waits for which is not known"
                )
            if workers == 1 and len({one.get(BY, 0) for one in given}) > 1:
                return (
                    f"several threads of rank {rank} give tasks that communicate to a pool of one "
                    "thread: their order is not known"
                )
        return ""


def _in_turn(actions: Sequence[Action]) -> list[Action]:
    """Return the actions with those of a thread as the main one's, where that only waits for it.

    Between the start and the join of such a thread the main one calls, starts and joins nothing:
    what it does later comes behind, whatever other threads run meanwhile.
    """
    found = list(actions)
    for mark in [a for a in actions if a["op"] == STARTED and BY not in a and POOL not in a]:
        number = mark[THREAD]
        begin = next(at for at, one in enumerate(found) if one is mark)
        behind = next((at for at in range(begin + 1, len(found)) if _is_mains(found[at])), None)
        if behind is None or found[behind]["op"] != JOINED or found[behind][THREAD] != number:
            continue
        found = [
            _as_mains(one, number) for at, one in enumerate(found) if at not in (begin, behind)
        ]
    return found


def _as_mains(action: Action, number: int) -> Action:
    whose = BY if _is_mark(action) else THREAD
    if action.get(whose) != number:
        return action
    return {name: value for name, value in action.items() if name != whose}


def _is_mains(action: Action) -> bool:
    """Tell whether the main thread does it: a call, a start, or a join."""
    return not action.get(BY if _is_mark(action) else THREAD)


def _starts_first(actions: Sequence[Action]) -> list[Action]:
    """Return the actions with every start as early as it may come.

    What another thread starts may come as soon as that thread has been started: calls of the main
    thread that stood in front of the mark in this run need not.
    """
    late = [a for a in actions if a["op"] == STARTED and BY in a]
    if not late:
        return list(actions)
    found = [action for action in actions if action not in late]
    for mark in late:
        begun = (n for n, a in enumerate(found) if a["op"] == STARTED and a[THREAD] == mark[BY])
        found.insert(next(begun, -1) + 1, mark)
    return found


def _ended_with(number: int, ended_by: Mapping[int, set[int]]) -> set[int]:
    """Return a thread and those that it, or one of them, had waited for."""
    found, new = set[int](), {number}
    while new:
        found |= new
        new = {inner for one in new for inner in ended_by.get(one, ())} - found
    return found


def _is_mark(action: Action) -> bool:
    return action["op"] in (STARTED, JOINED)


def _block(
    rank: int, side: list[Action], notes: list[tuple[str, str, str]], pools: _Pools, at: int
) -> list[Action]:
    """Return what was issued side by side as a block, or in order where one thread issued it.

    Args:
        rank: The rank, for the ledger.
        side: Actions and marks.
        notes: What is said of them is put here.
        pools: What is known of tasks.
        at: The place of the block among the actions of the rank, for names in it.
    """
    thread_of: dict[int, int] = defaultdict(int)
    plain = []
    numbers = {one.get(THREAD, 0) for one in side if not _is_mark(one)}
    for action in _with_ends(side, pools, at):
        kept = {name: value for name, value in action.items() if name != THREAD}
        thread_of[id(kept)] = pools.lane(action.get(THREAD, 0))
        plain.append(kept)
    found, crosses = lists(plain, thread_of)
    said = pools.undecided(rank, numbers)
    if crosses:
        said = f"a thread of rank {rank} waits for what another started: their order is not known"
    if said:
        said += _lines(action for action in side if action.get(THREAD))
    if said or len(found) < 2:
        plain = [
            {name: value for name, value in action.items() if name not in ("x-thread", "after")}
            for action in plain
            if not action.get("id", "").startswith(_END)
        ]
    if said:
        notes += [(KIND, said, "under"), (KIND, said, "over")]
        return plain
    return plain if len(found) < 2 else [{"op": "threads", "threads": found}]


def _lines(actions: Iterable[Action]) -> str:
    """Return the first line that issued one of some actions, to go behind a sentence."""
    sources = (one.get("src") for one in actions)
    return next((f" ({one[0]}:{one[1]})" for one in sources if one), "")


_END = "end of a thread"
"""How the names begin of computations that stand for the end of what a thread did."""


def _with_ends(side: Sequence[Action], pools: _Pools, block: int) -> list[Action]:
    """Return the actions, with what each thread has to wait for by a join or by its start.

    A join waits for the last call to come back, not only for it to be made: so there is a
    computation behind that call, which its thread gets to then, and `after` names it.
    """
    last: dict[int, int] = {}  # by thread: where its last action is
    waiting: dict[int, set[int]] = defaultdict(set)  # by thread: places it is behind
    ended_by: dict[int, set[int]] = defaultdict(set)
    behind: dict[int, list[int]] = {}
    for place, action in enumerate(side):
        number, by = action.get(THREAD, 0), action.get(BY, 0)
        if not _is_mark(action):
            last[number] = place
            if waiting.get(number):
                behind[place] = sorted(waiting.pop(number))
        elif action["op"] == STARTED and BEHIND not in pools.marks.get(number, {}):
            waiting[number] |= ({last[by]} if by in last else set()) | waiting.get(by, set())
        elif action["op"] == JOINED:
            ended_by[by].add(number)
            ended = _ended_with(number, {k: v for k, v in ended_by.items() if k != by})
            waiting[by] |= {last[one] for one in ended if one in last}
    ends = {one: f"{_END} {block}.{one}" for places in behind.values() for one in places}
    found: list[Action] = []
    for place, action in enumerate(side):
        if _is_mark(action):
            continue
        after = {"after": [ends[one] for one in behind[place]]} if place in behind else {}
        found.append({**action, **after})
        if place in ends:
            whose = {THREAD: action[THREAD]} if THREAD in action else {}
            found.append({"op": "compute", "op_name": "end", "id": ends[place], **whose})
    return found
