"""See every communication of torch.distributed: a kernel in front of the dispatcher's own.

c10d operators pass through torch's dispatcher, DDP's C++ reducer included. A kernel under the
autograd key notes the call and hands it on, so nothing else is taxed. Waits are seen by wrapping
``Work.wait``; handles are matched to calls where the process group returns them to Python. A
communication hook waits for the future of a handle instead, which is followed to its call, too.
"""

from __future__ import annotations

import atexit
import functools
import itertools
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import C10D, COLLECTIVES, FUNCTIONAL, MESSAGES, METHODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.live.tracker import Tracker

COLLECTIVE = {
    operator: op
    for operator, (op, _) in FUNCTIONAL.items()
    if op in COLLECTIVES and not operator.endswith("_out")
}
"""Functional operators that call no other one: those into a given tensor call the plain ones."""
CALLS = {operator: op for operator, (op, _) in C10D.items() if operator != "monitored_barrier_"}
"""Operators that return a handle; a monitored barrier does not, so nobody would see it end."""
RETURNING = (*itertools.chain(*METHODS), "_end_coalescing")
KEYS = ("AutogradCPU", "AutogradCUDA")


class Hooks:
    """Installed hooks; ``remove`` takes them away."""

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self._undo: list[Callable[[], None]] = []
        self._groups: dict[str, tuple[int, ...]] = {}
        self._script: Any = None
        self._unbox: Any = None

    def install(self) -> None:
        """Put the hooks in place.

        Raises:
            ImportError: torch is not installed.
        """
        import torch
        import torch.distributed as dist

        self._script, self._unbox = torch.ScriptObject, dist.ProcessGroup.unbox
        for space, names, note in (
            ("c10d", CALLS, self._note),
            ("_c10d_functional", COLLECTIVE, self._note_functional),
        ):
            library = torch.library.Library(space, "IMPL")
            for name, op in names.items():
                operator = getattr(getattr(torch.ops, space), name, None)
                if operator is not None:
                    for key in KEYS:
                        kernel = _passing(operator.default, op, note)
                        library.impl(name, kernel, key, with_keyset=True)
            self._undo.append(library._destroy)  # noqa: SLF001  torch has no public way
        self._wrap_waits()
        self._wrap_returns()
        # Kernels in Python must be gone before the interpreter is.
        atexit.register(self.remove)

    def remove(self) -> None:
        """Take the hooks away; a second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def _note(self, op: str, arguments: tuple[Any, ...]) -> None:
        script = next((a for a in arguments if isinstance(a, self._script)), None)
        if script is None:
            return
        group = self._unbox(script)
        name = group.group_name
        ranks = self._groups.get(name) or self._ranks(group)
        peer, tag = None, 0
        if op in MESSAGES:
            numbers = [a for a in arguments if isinstance(a, int) and not isinstance(a, bool)]
            tag = numbers[-1] if numbers else 0
            peer = ranks[numbers[0]] if len(numbers) > 1 else None
        self.tracker.issue(op, name, ranks, peer, tag)

    def _note_functional(self, op: str, arguments: tuple[Any, ...]) -> None:
        from torch.distributed.distributed_c10d import _resolve_process_group

        name = next((a for a in reversed(arguments) if isinstance(a, str)), None)
        if name is not None:
            group = _resolve_process_group(name)
            self.tracker.issue(op, group.group_name, self._ranks(group), None, 0)

    def _ranks(self, group: Any) -> tuple[int, ...]:
        import torch.distributed as dist

        name = group.group_name
        if name not in self._groups:
            try:
                self._groups[name] = tuple(dist.get_process_group_ranks(group))
            except (RuntimeError, KeyError, ValueError):
                self._groups[name] = tuple(range(group.size()))
        return self._groups[name]

    def _wrap_waits(self) -> None:
        import torch
        from torch._C._distributed_c10d import Work

        for name in ("wait", "synchronize"):
            self._replace(Work, name, _waiting(getattr(Work, name), self.tracker.enter))
        futures: Any = torch._C.Future  # noqa: SLF001  what Work.get_future returns
        for owner, name in ((Work, "get_future"), (futures, "then")):
            self._replace(owner, name, _giving_a_future(getattr(owner, name), self.tracker))
        self._replace(futures, "wait", _waiting(futures.wait, self.tracker.enter_future))

    def _wrap_returns(self) -> None:
        from torch._C._distributed_c10d import ProcessGroup

        for name in RETURNING:
            if name in vars(ProcessGroup):
                method = getattr(ProcessGroup, name)
                self._replace(ProcessGroup, name, _returning(method, self.tracker))

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        # The descriptor itself: what getattr gives would lose its binding when it is put back.
        old = vars(owner)[name]
        setattr(owner, name, new)
        self._undo.append(lambda: setattr(owner, name, old))


def _passing(operator: Any, op: str, note: Callable[[str, tuple[Any, ...]], None]) -> Any:
    import torch

    after = torch._C._after_autograd_keyset  # noqa: SLF001  as torch's own libraries do
    plain = operator.redispatch  # a third of what it costs to call the operator again

    def kernel(keys: Any, *arguments: Any, **named: Any) -> Any:
        note(op, (*arguments, *named.values()) if named else arguments)
        return plain(keys & after, *arguments, **named)

    return kernel


def _waiting(method: Any, enter: Callable[[Any], Callable[[], None]]) -> Any:
    @functools.wraps(method)
    def wait(self: Any, *arguments: Any, **named: Any) -> Any:
        leave = enter(self)
        try:
            return method(self, *arguments, **named)
        finally:
            leave()

    return wait


def _giving_a_future(method: Any, tracker: Tracker) -> Any:
    @functools.wraps(method)
    def give(self: Any, *arguments: Any, **named: Any) -> Any:
        future = method(self, *arguments, **named)
        tracker.future_of(self, future)
        return future

    return give


def _returning(method: Any, tracker: Tracker) -> Any:
    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        work = method(self, *arguments, **named)
        tracker.returned(work)
        return work

    return call
