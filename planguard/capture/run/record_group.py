"""A process group that writes every call down and hands it to the group that does it.

What it writes is read off the arguments the way the stub group does it; so the C++ reducer of DDP,
FSDP2, DTensor and the functional collectives are seen, too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.process_group import BACKEND, _Collectives
from planguard.capture.values.agreed import agree, results_of
from planguard.execution.findings.undecided import UNSEEN
from planguard.plan.vocabulary import BLOCKING, METHODS

if TYPE_CHECKING:
    from planguard.capture.run.recorder import Handle, RunRecorder

_OTHER_NAME = {
    name: other for names in METHODS if len(names) == 2 for name, other in (names, names[::-1])
}
"""The other spelling of a method that has two."""


@cache
def recorded_work_class() -> Any:
    """Return the work handle that tells the recorder who waits, and waits."""
    from torch.distributed import Work

    class RecordedWork(Work):  # type: ignore[misc]  # torch is Any here
        def __init__(
            self,
            recorder: RunRecorder,
            handle: Handle,
            inner: Any,
            results: list[Any],
            *,
            is_agreed: bool,
        ) -> None:
            super().__init__()
            self.recorder = recorder
            self.handle = handle
            self.inner = inner
            self.results = results
            self.is_agreed = is_agreed

        def wait(self, timeout: Any = None) -> bool:
            self.recorder.wait(self.handle)
            done = self.inner.wait() if timeout is None else self.inner.wait(timeout)
            self.recorder.done(self.handle)
            if self.results:
                self.recorder.saw_result(self.handle, self.results)
                if self.is_agreed:
                    agree(self.results)
                self.results = []
            return bool(done)

        def get_future(self) -> Any:
            # The reducer of DDP waits through the future, before backward returns.
            self.recorder.wait_unseen(self.handle)
            return self.inner.get_future()

        def synchronize(self) -> None:
            self.recorder.wait(self.handle)
            self.inner.synchronize()

        def is_completed(self) -> bool:
            return bool(self.inner.is_completed())

        def is_success(self) -> bool:
            return bool(self.inner.is_success())

        def exception(self) -> Any:
            return self.inner.exception()

        def result(self) -> Any:
            return self.inner.result()

        def source_rank(self) -> int:
            return int(self.inner.source_rank())

        def _source_rank(self) -> int:
            return int(self.inner._source_rank())  # noqa: SLF001 - torch asks for it itself

        def block_current_stream(self) -> None:
            self.inner.block_current_stream()

    return RecordedWork


@cache
def recorded_message_class() -> Any:
    """Return the work handle of a send or a receive, which tells when it dies."""

    class RecordedMessage(recorded_work_class()):  # type: ignore[misc]  # torch is Any here
        def __del__(self) -> None:
            self.recorder.drop(self.handle)

    return RecordedMessage


class _Reading(_Collectives):
    """Reads the fields of a call off its arguments and touches no tensor."""

    recorder: Any

    def _work(self, issued: Any, result: list[Any]) -> Any:
        return issued

    def _dependent(self, what: str) -> None:
        pass

    def _fill(self, target: Any, tensor: Any) -> None:
        pass

    def _repeat(self, output: Any, tensor: Any) -> None:
        pass

    def _own_part(self, output: Any, tensor: Any) -> None:
        pass

    def _zero(self, tensors: Any) -> None:
        pass


class _Asking:
    """What is asked of the real group, and the groups that are made of it."""

    recorder: Any
    members: list[int]
    inner: Any
    backend: str

    def _get_sequence_number_for_group(self) -> int:
        return int(self.inner._get_sequence_number_for_group())  # noqa: SLF001 - torch asks itself

    def _set_sequence_number_for_group(self) -> None:
        self.inner._set_sequence_number_for_group()  # noqa: SLF001 - torch asks itself

    def _wait_for_pending_works(self) -> None:
        self.inner._wait_for_pending_works()  # noqa: SLF001 - torch asks itself

    def get_group_store(self) -> Any:
        return self.inner.get_group_store()

    def split_group(self, ranks: Any, *args: Any, **options: Any) -> Any:
        """Split the real group, and record what the part does; ranks are this group's."""
        self.recorder.note(UNSEEN, _split("split"), "under")
        inner = self.inner.split_group(ranks, *args, **options)
        if inner is None:
            return None
        members = [self.members[place] for place in ranks]
        key = self.recorder.group(members)
        self.recorder.met(key)
        self.recorder.names[inner.group_name] = key
        part: Any = record_group_class()(self.recorder, members, key, inner, self.backend)
        part._set_group_name(inner.group_name)  # noqa: SLF001 - as torch does
        part._set_group_desc(inner.group_desc)  # noqa: SLF001 - same
        return part

    def merge_remote_group(self, *args: Any, **options: Any) -> Any:
        """Merge the real group; what the larger one does is not seen, and that is said."""
        self.recorder.note(UNSEEN, _split("merged with a remote one"), "under")
        return self.inner.merge_remote_group(*args, **options)


@cache
def record_group_class() -> Any:  # noqa: C901 - one small method per name that torch asks for
    """Return the process group class; made at the first call, since torch must be imported."""
    import torch.distributed as dist

    class RecordGroup(_Asking, _Reading, dist.ProcessGroup):  # type: ignore[misc]  # torch is Any here
        def __init__(
            self, recorder: RunRecorder, ranks: list[int], key: str, inner: Any, backend: str
        ) -> None:
            super().__init__(ranks.index(recorder.rank), len(ranks))
            self.recorder = recorder
            self.members = ranks
            self.key = key
            self.inner = inner
            self.backend = backend
            self._name = ""

        def getBackendName(self) -> str:  # noqa: N802 - torch's name
            return BACKEND  # under the real name torch looks for a C++ backend in this group

        def name(self) -> str:
            return str(self.inner.name())

        def getRank(self) -> int:  # noqa: N802 - torch's name
            return int(self.members.index(self.recorder.rank))

        def getSize(self) -> int:  # noqa: N802 - torch's name
            return len(self.members)

        def _set_group_name(self, name: str) -> None:
            self._name = name
            super()._set_group_name(name)

        def _set_group_desc(self, said: str) -> None:
            super()._set_group_desc(said)
            self.inner._set_group_desc(said)  # noqa: SLF001 - in the dumps of its backends

        @property
        def pg_name(self) -> str:
            return self._name

        @property
        def group_name(self) -> str:
            return self._name

        @property
        def _device_types(self) -> Any:
            return self.inner._device_types  # noqa: SLF001 - torch asks for it itself

        def _get_backend(self, device: Any) -> Any:
            return self.inner._get_backend(device)  # noqa: SLF001 - torch asks for it itself

        def abort(self) -> None:
            self.inner.abort()

        def shutdown(self) -> None:
            self.inner.shutdown()

        def monitored_barrier(self, *args: Any, **options: Any) -> None:
            self._note_monitored()
            handle = self.recorder.issue("barrier", self.key, {})
            self.recorder.wait(handle)
            self.inner.monitored_barrier(*args, **options)
            self.recorder.done(handle)

        def _start_coalescing(self, device: Any) -> None:
            self.recorder.begin_batch()
            self.inner._start_coalescing(device)  # noqa: SLF001 - torch asks for it itself

        def _end_coalescing(self, device: Any) -> Any:
            self.recorder.end_batch()
            return self.inner._end_coalescing(device)  # noqa: SLF001 - torch asks for it itself

        def __repr__(self) -> str:
            return f"RecordGroup({self.members})"

    for names in METHODS:
        for name in names:
            setattr(RecordGroup, name, _handing_on(name))
    return RecordGroup


def _split(how: str) -> str:
    return (
        f"a process group was {how}: that all of its members came to that call is in no plan, so "
        "one that stays away is not found"
    )


def _handing_on(name: str) -> Any:
    """Return a method that writes a call down, hands it on and wraps the work."""
    read = getattr(_Reading, name)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        handle = read(self, *args, **options)
        inner = getattr(self.inner, name, None) or getattr(self.inner, _OTHER_NAME[name])
        work = inner(*args, **options)
        everybody = len(self.members) == self.recorder.log.world_size
        results = results_of(name, args) if everybody or self.recorder.values else []
        kind = recorded_message_class() if handle.op in BLOCKING else recorded_work_class()
        return kind(self.recorder, handle, work, results, is_agreed=everybody)

    call.__name__ = name
    return call
