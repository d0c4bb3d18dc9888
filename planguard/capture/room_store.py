"""The store that played ranks meet at: keys travel through the room like every other control value.

``_get_default_store()`` and what is built on it (votes, barriers by counting, a plan that rank 0
writes) are real: ``set`` on one rank is what ``get`` brings on another, and ``wait`` waits.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.capture.mailbox import Keys
from planguard.capture.recorder import Stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.capture.mailbox import Mailbox
    from planguard.capture.recorder import Recorder

PROBLEM = "the store of the ranks"
"""Why a rank that used the store cannot stand for another: keys often name ranks."""


def answer_store(store: dict[str, bytes], operation: str, arguments: Sequence[Any]) -> Any:
    """Do one operation of a rank to the store, on the side of the room."""
    key = arguments[0] if arguments else ""
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


@cache
def room_store_class() -> Any:
    """Return the class of the store; made at the first call, since torch must be imported."""
    import torch.distributed as dist

    class RoomStore(dist.Store):  # type: ignore[misc]  # torch is Any here
        def __init__(self, mailbox: Mailbox, recorder: Recorder) -> None:
            super().__init__()
            self.mailbox = mailbox
            self.recorder = recorder

        def _do(self, operation: str, *arguments: Any) -> Any:
            return self._answered(lambda: self.mailbox.store(operation, *arguments))

        def _await(self, keys: Sequence[str]) -> None:
            self._answered(lambda: self.mailbox.ask(Keys(tuple(keys))))

        def _answered(self, ask: Callable[[], Any]) -> Any:
            if PROBLEM not in self.recorder.problems:
                self.recorder.problems.append(PROBLEM)
            try:
                return ask()
            except Stalled:
                self.recorder.give_up()  # a wait for a key is no action of a plan

        def set(self, key: str, value: Any) -> None:
            self._do("set", key, _bytes(value))

        def get(self, key: str) -> bytes:
            self._await([key])
            found: bytes = self._do("get", key)
            return found

        def add(self, key: str, value: int) -> int:
            found: int = self._do("add", key, int(value))
            return found

        def append(self, key: str, value: Any) -> None:
            self._do("append", key, _bytes(value))

        def check(self, keys: Sequence[str]) -> bool:
            return bool(self._do("check", *keys))

        def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
            self._await(keys)

        def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
            found: bytes = self._do("compare", key, _bytes(expected), _bytes(desired))
            return found

        def delete_key(self, key: str) -> bool:
            return bool(self._do("delete", key))

        def num_keys(self) -> int:
            return len(self._do("keys"))

        def list_keys(self) -> list[str]:
            return list(self._do("keys"))

        def multi_get(self, keys: Sequence[str]) -> list[bytes]:
            return [self.get(key) for key in keys]

        def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
            for key, value in zip(keys, values, strict=True):
                self.set(key, value)

        def clone(self) -> Any:
            return self

        def has_extended_api(self) -> bool:
            return True

        @property
        def timeout(self) -> Any:
            from datetime import timedelta

            return timedelta(seconds=300)

        def set_timeout(self, timeout: Any) -> None:
            """Take no notice: nobody waits here in vain for longer than it takes to see it."""

    return RoomStore


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
