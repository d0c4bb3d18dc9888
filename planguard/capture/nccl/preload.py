"""Read the logs of the NCCL interposer: who called what where, and who never came back.

``native/preload`` writes one log per process (native/preload/log.h). Every call stands in it before
and after; a call without its second record is the one the process is stuck in, or was killed in.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.capture.nccl.preload_log import SUFFIX, Entry, Log, read_log
from planguard.errors import PlanError, UsageError
from planguard.plan.vocabulary import MESSAGES, NCCL, NCCL_DTYPES, NCCL_REDUCE_OPS, REDUCING, ROOTED
from planguard.recording import Call, Gap, Observed, Progress, RankRecord, RecordedGroup, Recording
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLAN_DTYPE = {"u32": "i32", "u64": "i64"}
MOST_RANKS = 1_000_000
_FUNCTIONS = (
    "AllReduce", "Broadcast", "Bcast", "Reduce", "AllGather", "ReduceScatter", "AlltoAll", "Gather",
    "Scatter", "Send", "Recv",
)  # fmt: skip
OPS = {number: NCCL[name] for number, name in enumerate(_FUNCTIONS, start=1)}
"""Operation by the number of its call in the log."""
SIGNALS = frozenset({12, 13, 14})
GROUP_START, GROUP_END, GROUP_SIMULATE_END = 20, 21, 22
CREATIONS = frozenset({30, 31, 32, 34, 35, 36})
INIT_ALL = 33
ENDINGS = frozenset({38, 39})
COMM_INFO = 50


def read_logs(paths: Iterable[str | Path]) -> Recording:
    """Read the logs of one run, files or folders of them.

    Raises:
        UsageError: There is no log, or a path does not exist.
        PlanError: A file is not a log, or two of them are of one rank.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            hint = "give the folder that PLANGUARD_PRELOAD_LOG named"
            raise UsageError(f"no such file or folder: {path}", hint=hint)
        files += sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        hint = "run the job with PLANGUARD_PRELOAD_LOG set to a folder"
        raise UsageError(f"no log of the NCCL interposer (*{SUFFIX})", hint=hint)
    logs = [read_log(file) for file in files]
    for log in logs:
        if log.mpi:
            hint = "planguard dryrun --mpi reads it"
            raise PlanError("a log of calls of MPI, not NCCL", file=log.file, path="72", hint=hint)
    return _Reader(logs).recording()


class _Reader:
    """Puts the logs of one run together."""

    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs
        self.places = [_places(log) for log in logs]  # communicator -> (rank in it, size)
        self.rank = self._ranks()
        self.size = max(
            [rank + 1 for rank in self.rank]
            + [log.world_size or 0 for log in logs]
            + [size for own in self.places for _, size in own.values()]
        )
        self.members = self._members()

    def _ranks(self) -> list[int]:
        """Return the global rank of every log: RANK, else its place in its largest communicator."""
        found: list[int] = []
        for log, places in zip(self.logs, self.places, strict=True):
            largest = max(places.values(), key=lambda place: place[1], default=(len(found), 0))
            found.append(largest[0] if log.rank is None else log.rank)
        for index, rank in enumerate(found):
            if rank in found[:index]:
                file = self.logs[index].file
                hint = "give the logs of one run, one per rank"
                raise PlanError(
                    "two logs of one rank", file=file, path="rank", value=rank, hint=hint
                )
        return found

    def _members(self) -> dict[int, dict[int, int]]:
        """Return the global rank behind every rank of every communicator that some log names."""
        members: dict[int, dict[int, int]] = defaultdict(dict)
        for rank, places in zip(self.rank, self.places, strict=True):
            for comm, (place, _) in places.items():
                members[comm][place] = rank
        return members

    def name(self, comm: int) -> str:
        """Return the name of a communicator: ``world``, or its identity."""
        size = max((own[comm][1] for own in self.places if comm in own), default=0)
        ordered = [self.members[comm].get(place) for place in range(size)]
        if size == self.size and all(rank in (None, n) for n, rank in enumerate(ordered)):
            worlds = [c for c in self.members if self._spans(c)]
            if comm == min(worlds, key=self._first_use):
                return "world"
        return f"comm-{comm:016x}"

    def _spans(self, comm: int) -> bool:
        return any(own.get(comm, (0, 0))[1] == self.size for own in self.places)

    def _first_use(self, comm: int) -> int:
        return min(e.time for log in self.logs for e in log.entries if e.comm == comm)

    def recording(self) -> Recording:
        """Return the recording."""
        names = {comm: self.name(comm) for comm in self.members}
        groups = {names[comm]: self._group(comm, names[comm]) for comm in self.members}
        ranks, gaps = {}, []
        for log, rank in zip(self.logs, self.rank, strict=True):
            actions = tuple(self._actions(log, names))
            ranks[rank] = RankRecord(rank, actions, file=log.file)
            if log.dropped or log.torn:
                lost = log.dropped + log.torn
                message = f"{lost:,} records of rank {rank} did not fit: the log is INCOMPLETE"
                gaps.append(Gap("unrecorded-calls", message, "PG912", (rank,), lost))
        missing = tuple(rank for rank in range(self.size) if rank not in ranks)
        if missing:
            gaps.append(Gap("missing-rank", f"no log of {name_ranks(missing)}", "PG911", missing))
        notes = ("the calls moved no data: stub mode",) if any(g.stub for g in self.logs) else ()
        profiled = any(log.profiler for log in self.logs)
        kinds = ("nccl-profiler",) if profiled else ("nccl-preload",)
        return Recording(
            self.size, dict(sorted(ranks.items())), groups, tuple(gaps), "nccl", kinds,
            notes,
        )  # fmt: skip

    def _group(self, comm: int, name: str) -> RecordedGroup:
        size = max(own[comm][1] for own in self.places if comm in own)
        ordered = [self.members[comm].get(place) for place in range(size)]
        known = tuple(rank for rank in ordered if rank is not None)
        whole = len(known) == size
        return RecordedGroup(name, known if whole else None, tuple(sorted(known)), size=size)

    def _actions(self, log: Log, names: dict[int, str]) -> Iterator[Observed]:
        """Yield what one process called, in order of issue."""
        progress = _completed(log.entries) if log.profiler else _returned(log.entries)
        batches, simulated = _batches(log.entries)
        rounds: dict[object, int] = defaultdict(int)
        for at, entry in enumerate(log.entries):
            if entry.phase or (entry.op not in OPS and entry.op not in CREATIONS):
                continue
            if at in simulated:
                continue
            call = self._call(entry, names)
            key = (call.group, call.peer, call.op) if call.is_point_to_point else call.group
            if call.op != "init":
                rounds[key] += 1
            yield Observed(
                call,
                position=rounds[key],
                progress=progress.get(at, Progress.ISSUED),
                batch=batches.get(at),
                created_ns=entry.time,
                number=at,
            )

    def _call(self, entry: Entry, names: dict[int, str]) -> Call:
        group = names.get(entry.comm, f"comm-{entry.comm:016x}")
        if entry.op in CREATIONS:
            return Call("init", group)
        members = self.members.get(entry.comm, {})
        size = max((own[entry.comm][1] for own in self.places if entry.comm in own), default=0)
        other = members.get(entry.peer) if entry.peer >= 0 else None
        dtype = NCCL_DTYPES[entry.dtype] if entry.dtype < len(NCCL_DTYPES) else None
        op = OPS[entry.op]
        reduces = op in REDUCING and entry.redop < len(NCCL_REDUCE_OPS)
        return Call(
            op,
            group,
            peer=other if op in MESSAGES else None,
            root=other if op in ROOTED else None,
            reduce_op=NCCL_REDUCE_OPS[entry.redop] if reduces else None,
            # ncclAlltoAll counts what goes to one peer; the plan format counts a rank's input.
            count=entry.count * size if op == "all_to_all" else entry.count,
            dtype=None if dtype is None else _PLAN_DTYPE.get(dtype, dtype),
        )


def _places(log: Log) -> dict[int, tuple[int, int]]:
    """Return the place of a process in every communicator, and how many that has.

    Raises:
        PlanError: There is no such place, or there are more ranks than are read.
    """
    places = {e.comm: (e.peer, e.count) for e in log.entries if e.op == COMM_INFO}
    places_of_all = [(log.rank or 0, log.world_size or MOST_RANKS), *places.values()]
    for place, size in places_of_all:
        if not 0 <= place < size <= MOST_RANKS:
            hint = f"at most {MOST_RANKS:,} ranks are read"
            raise PlanError(
                f"rank {place:,} of {size:,}", file=log.file, path="rank", value=place, hint=hint
            )
    return places


def _completed(entries: tuple[Entry, ...]) -> dict[int, Progress]:
    """Return how far every operation came that the profiler plugin numbered."""
    begun: dict[int, int] = {}
    done: dict[int, Progress] = {}
    for at, entry in enumerate(entries):
        if entry.op == COMM_INFO:
            continue
        if not entry.phase:
            begun[entry.stream] = at
        elif entry.stream in begun:
            ended = entry.phase == 2
            done[begun[entry.stream]] = Progress.COMPLETED if ended else Progress.STARTED
    return done


def _returned(entries: tuple[Entry, ...]) -> dict[int, Progress]:
    """Return the calls that came back; what became of them on the device is not known.

    Calls of one thread nest.
    """
    open_calls: dict[int, list[int]] = defaultdict(list)
    done: dict[int, Progress] = {}
    for at, entry in enumerate(entries):
        if entry.op == COMM_INFO:
            continue
        stack = open_calls[entry.thread]
        if not entry.phase:
            stack.append(at)
        elif stack:
            done[stack.pop()] = Progress.UNKNOWN
    return done


def _batches(entries: tuple[Entry, ...]) -> tuple[dict[int, int], frozenset[int]]:
    """Sort the calls between ncclGroupStart and the end of the outermost group.

    Returns:
        The launch of every call that has company in its group, and the calls whose group ended in
        ncclGroupSimulateEnd: NCCL estimates their time and launches nothing (nccl.h 2.32).
    """
    depth: dict[int, int] = defaultdict(int)
    inside: dict[int, list[int]] = defaultdict(list)
    found: dict[int, int] = {}
    simulated: list[int] = []
    launches = 0
    for at, entry in enumerate(entries):
        if entry.phase:
            continue
        if entry.op == GROUP_START:
            depth[entry.thread] += 1
        elif entry.op in (GROUP_END, GROUP_SIMULATE_END):
            depth[entry.thread] = max(0, depth[entry.thread] - 1)
            if depth[entry.thread]:
                continue
            members = inside.pop(entry.thread, [])
            if entry.op == GROUP_SIMULATE_END:
                simulated += members
            elif len(members) > 1:
                launches += 1
                found |= dict.fromkeys(members, launches)
        elif depth[entry.thread] and entry.op in OPS:
            inside[entry.thread].append(at)
    return found, frozenset(simulated)


def library() -> Path:
    """Return the path of the interposer, for LD_PRELOAD.

    Raises:
        UsageError: It was not built (no compiler when planguard was installed).
    """
    return _built("libplanguard_preload.so")


def profiler() -> Path:
    """Return the path of the profiler plugin, for NCCL_PROFILER_PLUGIN.

    Raises:
        UsageError: It was not built (no compiler when planguard was installed).
    """
    return _built("libnccl-profiler-planguard.so")


def _built(name: str) -> Path:
    from importlib.util import find_spec

    # Beside the compiled kernels: an editable install keeps both away from the sources.
    native = find_spec("planguard._native")
    if native is not None and native.origin is not None:
        found = Path(native.origin).with_name(name)
        if found.exists():
            return found
    hint = "install planguard where a C++ compiler is available"
    raise UsageError(f"{name} was not built", hint=hint)


def environment(
    folder: str | Path, *, stub: bool = False, records: int | None = None
) -> dict[str, str]:
    """Return the variables that make a process log its NCCL calls.

    Args:
        folder: Where logs go, one per process.
        stub: Let every call succeed without moving data, so that N ranks share one device or none.
        records: Records that a log holds; two per call.

    Raises:
        UsageError: The interposer was not built.
    """
    found = {"LD_PRELOAD": str(library()), "PLANGUARD_PRELOAD_LOG": str(folder)}
    if stub:
        found["PLANGUARD_PRELOAD_STUB"] = "1"
    if records is not None:
        found["PLANGUARD_PRELOAD_RECORDS"] = str(records)
    return found
