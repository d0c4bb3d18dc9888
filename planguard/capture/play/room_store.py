"""The store that played ranks meet at: keys travel through the room like every other control value.

``_get_default_store()`` and what is built on it (votes, barriers by counting, a plan that rank 0
writes) are real: ``set`` on one rank is what ``get`` brings on another, and ``wait`` waits.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.recorder import Stalled
from planguard.capture.play.mailbox import Keys
from planguard.capture.values.sinks import is_dropped, place_of
from planguard.sources import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.capture.groups.recorder import Recorder
    from planguard.capture.play.mailbox import Mailbox

PROBLEM = "the store of the ranks"
"""Why a rank that used the store cannot stand for another: keys often name ranks."""


class Clock:
    """Which changes of the store a rank knows to have happened: by what it was sent since.

    The number that ``add`` returns depends on who came first. Where other ranks' changes are known
    to lie before, and none beside, every run gives the same; else this one is as good as another.
    """

    def __init__(self) -> None:
        self._known: dict[int, dict[int, int]] = {}
        self._stamps: dict[Any, dict[int, int]] = {}
        self._touched: dict[str, list[tuple[int, int, bool]]] = {}

    def stamp(self, sent: Any, rank: int) -> None:
        """Remember what a rank knew when it sent something."""
        if rank in self._known:
            self._stamps[sent] = self._known[rank]

    def learn(self, rank: int, sent: Any) -> None:
        """Let a rank know what the sender knew."""
        stamp = self._stamps.get(sent)
        if stamp:
            mine = self._known.get(rank, {})
            both = stamp.keys() | mine.keys()
            self._known[rank] = {one: max(stamp.get(one, 0), mine.get(one, 0)) for one in both}

    def touch(self, rank: int, key: str, *, is_change: bool) -> tuple[str, list[str]]:
        """Count what a rank does to a key; return its name, and the names of raced readings.

        A reading is raced by a change that lies neither before nor after it.
        """
        mine = dict(self._known.get(rank, {}))
        mine[rank] = number = mine.get(rank, 0) + 1
        self._known[rank] = mine
        own = f"{rank}:{number}"
        raced = []
        for other, at, was_change in self._touched.setdefault(key, []):
            if other != rank and mine.get(other, 0) < at:
                raced += [own] if was_change else []
                raced += [f"{other}:{at}"] if is_change else []
        self._touched[key].append((rank, number, is_change))
        return own, raced


def answer_store(
    store: dict[str, bytes], clock: Clock, rank: int, operation: str, arguments: Sequence[Any]
) -> tuple[Any, str, list[str]]:
    """Do one operation of a rank to the store.

    Returns:
        The answer, the name of this reading, and the names of readings that are raced.
    """
    keys = list(arguments if operation == "check" else arguments[:1]) or list(store)
    if operation == "get":  # it has waited for the key, so what was set lies before
        clock.learn(rank, ("key", keys[0]))
    is_change = operation in _CHANGES and not (operation == "add" and not arguments[1])
    own, raced = "", list[str]()
    for key in keys:
        name, found = clock.touch(rank, key, is_change=is_change)
        raced += [own or name if one == name else one for one in found]
        own = own or name
    if is_change:
        clock.stamp(("key", keys[0]), rank)
    return _done(store, operation, keys[0] if keys else "", arguments), own, raced


_CHANGES = frozenset({"set", "add", "append", "delete", "compare"})


def _done(store: dict[str, bytes], operation: str, key: str, arguments: Sequence[Any]) -> Any:
    if operation == "set":
        store[key] = arguments[1]
        return True
    if operation == "add":
        total = int(store.get(key, b"0")) + arguments[1]
        store[key] = str(total).encode()
        return total
    if operation == "get":
        return store[key]
    if operation == "append":
        store[key] = store.get(key, b"") + arguments[1]
        return True
    if operation == "check":
        return all(one in store for one in arguments)
    if operation == "delete":
        return store.pop(key, None) is not None
    if operation == "compare":  # TCPStore: an absent key is set where nothing is expected
        _, expected, desired = arguments
        if store.get(key, b"") == expected:
            store[key] = desired
        return store.get(key, expected)
    return list(store)


class _Store:
    """The methods of a store, by the mailbox of one rank; torch calls them, too."""

    def __init__(self, mailbox: Mailbox, recorder: Recorder) -> None:
        super().__init__()
        self.mailbox = mailbox
        self.recorder = recorder

    def _do(self, operation: str, *arguments: Any) -> Any:
        found, reading, raced = self._answered(lambda: self.mailbox.store(operation, *arguments))
        self.recorder.store_races.update(raced)
        frame = sys._getframe(2)  # noqa: SLF001 - the interpreter has no public way
        while is_own(frame.f_code.co_filename) and frame.f_back is not None:
            frame = frame.f_back  # stores of the program are watched (``elsewhere``)
        if operation not in ("set", "append") and not is_dropped(frame):
            key = str(arguments[0]) if arguments else "(all)"
            self.recorder.store_reads.setdefault(reading, [place_of(frame), key])
        return found

    def _await(self, keys: Sequence[str]) -> None:
        self.recorder.missing = ", ".join(keys)
        self._answered(lambda: self.mailbox.ask(Keys(tuple(keys))))
        self.recorder.missing = ""

    def _answered(self, ask: Callable[[], Any]) -> Any:
        if PROBLEM not in self.recorder.problems:
            self.recorder.problems.append(PROBLEM)
        try:
            return ask()
        except Stalled:
            self.recorder.give_up()  # a wait for a key is no action of a plan

    def set(self, key: str, value: Any) -> None:
        """Set a key."""
        self._do("set", key, _bytes(value))

    def get(self, key: str) -> bytes:
        """Wait for a key, and return what it holds."""
        self._await([key])
        found: bytes = self._do("get", key)
        return found

    def add(self, key: str, value: int) -> int:
        """Add to a counter, and return it."""
        found: int = self._do("add", key, int(value))
        return found

    def append(self, key: str, value: Any) -> None:
        """Append to a key."""
        self._do("append", key, _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        """Tell whether keys are there."""
        return bool(self._do("check", *keys))

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Wait for keys."""
        self._await(keys)

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        """Set a key if it holds what is expected."""
        found: bytes = self._do("compare", key, _bytes(expected), _bytes(desired))
        return found

    def delete_key(self, key: str) -> bool:
        """Delete a key."""
        return bool(self._do("delete", key))

    def num_keys(self) -> int:
        """Count the keys."""
        return len(self._do("keys"))

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return list(self._do("keys"))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Get several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def clone(self) -> Any:
        """Return the same store: the room is one."""
        return self

    def has_extended_api(self) -> bool:
        """Tell that several keys can be asked for at once."""
        return True

    @property
    def timeout(self) -> Any:
        """Return how long torch says that it waits."""
        from datetime import timedelta

        return timedelta(seconds=300)

    def set_timeout(self, timeout: Any) -> None:
        """Take no notice: nobody waits here in vain for longer than it takes to see it."""


@cache
def room_store_class() -> Any:
    """Return the class of the store; made at the first call, since torch must be imported."""
    import torch.distributed as dist

    class RoomStore(_Store, dist.Store):  # type: ignore[misc]  # torch is Any here
        pass

    return RoomStore


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
