"""Steps of all devices to a plan: the only module here that talks to ``PlanBuilder``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from .labels import Key, Labels, key_of, leaves
from .loops import flat_loops
from .overlap import find_overlap
from .steps import (
    Choice,
    Collective,
    Doubt,
    Exchange,
    Loop,
    Message,
    Origin,
    Part,
    Plain,
    Sending,
    Step,
    Trace,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.plan import Plan

    from .options import XlaOptions

Row = dict[str, Any]
"""An action, as a plan file has it."""
_COALESCED = frozenset({"all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"})
_REDUCING = frozenset({"all_reduce", "reduce_scatter_tensor"})


def emit(
    traces: Mapping[int, Trace],
    files: Sequence[str],
    plan: PlanBuilder,
    options: XlaOptions,
    doubts: Sequence[Doubt],
    *,
    overlap: bool = True,
    families: Mapping[tuple[int, ...], tuple[str, ...]] | None = None,
) -> Plan:
    """Build the plan of all ranks.

    Args:
        traces: What each rank does.
        files: File of each program, for source locations.
        plan: The builder, empty.
        options: Options of the adapter.
        doubts: Entries for the ledger beside those of the traces.
        overlap: Look for collectives in flight together that can block each other.
        families: Where all ranks do what rank 0 does, and ``traces`` has that alone: the dimensions
            of the plan's mesh that vary in each of its groups.
    """
    rows: dict[int, list[Step]] = {}
    ledger = {(doubt.kind, doubt.message): doubt for doubt in doubts}
    for rank, trace in sorted(traces.items()):
        rows[rank], numbered = flat_loops(trace.steps)
        ledger |= trace.doubts
        if not numbered:
            _note(
                ledger, Doubt("no-labels", "loops inside loops are too long to tell rounds apart")
            )
    sends = {rank: list(leaves(row)) for rank, row in rows.items()}
    labels = Labels(sends)
    names = Names(plan, labels.keys, families)
    made: dict[int, Row] | None = {} if len(rows) > 1 else None
    for rank, row in rows.items():
        ranks = rank if families is None else f"0-{plan.world_size - 1}"
        writer = Writer(plan.program(ranks), rank, files, names, labels, options, made)
        writer.begin(row)
        writer.write(row)
    found = _overlap_doubts(rows, options) if overlap else []
    for doubt in (*found, *_permute_doubts(sends)):
        _note(ledger, doubt)
    if labels.missing:
        message = f"{labels.missing} communications are told apart by position only"
        _note(ledger, Doubt("no-labels", message, "exact"))
    for doubt in ledger.values():
        plan.approximate(doubt.kind, doubt.message, direction=doubt.direction, scope="plan")
    return plan.build()


def _note(ledger: dict[tuple[str, str], Doubt], doubt: Doubt) -> None:
    ledger.setdefault((doubt.kind, doubt.message), doubt)


def _overlap_doubts(rows: Mapping[int, Sequence[Step]], options: XlaOptions) -> list[Doubt]:
    try:
        found = find_overlap(rows)
    except OverflowError as error:
        return [Doubt("overlap", f"{error}; circles among them were not all looked for", "exact")]
    if found is None:
        return []
    seen = "XLA's rule about pairs sees it" if found.pairwise else "no two share two devices"
    message = f"{found}: in flight together, they block each other if started in a circle ({seen})"
    if options.launch_order == "issue":
        return [Doubt("overlap", f"{message}; launch_order='free' judges that", "exact")]
    if _side_by_side(rows, found.calls):
        return []
    return [Doubt("overlap", message)]


def _side_by_side(rows: Mapping[int, Sequence[Step]], calls: Sequence[tuple[str, Any]]) -> bool:
    """Tell whether the plan lets every rank start its calls of a circle in any order."""
    for row in rows.values():
        own = [place for place, step in enumerate(row) if _call(step) in calls]
        if own and (own[-1] - own[0] != len(own) - 1):
            return False
    return True


def _call(step: Step) -> tuple[str, Any] | None:
    if isinstance(step, Collective) and step.handle is not None:
        return step.origin.text, step.group
    if isinstance(step, Exchange) and step.handle is not None:
        return step.origin.text, step.domain
    return None


def _permute_doubts(sends: Mapping[int, Sequence[Sending]]) -> list[Doubt]:
    """Say so where the devices of a permute do not all run it.

    Messages need two; the CPU backend and the communicator of the GPU backend need all.
    """
    counts: dict[tuple[int, ...], dict[int, int]] = {}
    for rank, row in sends.items():
        for step in row:
            if isinstance(step, Exchange):
                if step.domain not in counts:
                    counts[step.domain] = dict.fromkeys(step.domain, 0)
                counts[step.domain][rank] += 1
    uneven = [domain for domain, ranks in counts.items() if len(set(ranks.values())) > 1]
    message = "not every device of a collective permute runs it; a backend may wait for all of them"
    return [Doubt("permute-rendezvous", message)] if uneven else []


class Names:
    """Names of the groups, and their declaration.

    Attributes:
        by_key: The name of every communicator.
    """

    def __init__(
        self,
        plan: PlanBuilder,
        keys: Iterable[Key],
        families: Mapping[tuple[int, ...], tuple[str, ...]] | None = None,
    ) -> None:
        self._families = families
        self._world = tuple(range(plan.world_size))
        self._plan = plan
        self.by_key: dict[Key, str] = {}
        for key in sorted(keys):
            self._declare(key)

    def _declare(self, key: Key) -> None:
        kind, ranks = key
        if not kind and ranks == self._world:
            self.by_key[key] = "world"
        elif self._families is not None:
            dims = self._families[ranks]
            self.by_key[key] = self._plan.group("+".join(dims), mesh_dims=dims)
        else:
            self.by_key[key] = self._plan.group(group_name(key), ranks)

    def of_rank(self, rank: int) -> list[str]:
        """Return the groups of a rank, larger ones first."""
        return self._of_ranks.get(rank, [])

    @cached_property
    def _of_ranks(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for key in sorted(self.by_key, key=lambda key: (-len(key[1]), key)):
            for rank in key[1]:
                found.setdefault(rank, []).append(self.by_key[key])
        return found


def group_name(key: Key) -> str:
    """Return the name of a group that is not the world."""
    kind, ranks = key
    return f"{kind}:{_listed(ranks)}" if kind else _listed(ranks)


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks as intervals; the order counts, so only rising neighbors are merged."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


class Writer:
    """Writes the steps of one rank into its program."""

    def __init__(
        self,
        program: ProgramBuilder,
        rank: int,
        files: Sequence[str],
        names: Names,
        labels: Labels,
        options: XlaOptions,
        made: dict[int, Row] | None,
    ) -> None:
        self._program = program
        self._rank = rank
        self._files = files
        self._names = names
        self._labels = labels
        self._options = options
        self._made = made
        self._started: set[str] = set()

    def begin(self, row: Sequence[Step]) -> None:
        """Create the communicators that the program of this rank uses, if asked to."""
        if self._options.cliques == "start":
            used = {self._names.by_key[key_of(step)] for step in leaves(row)}
            for name in self._names.of_rank(self._rank):
                if name in used:
                    self._program.init(name)

    def write(self, row: Sequence[Step]) -> None:
        """Write all steps in order."""
        self._program.extend(self._rows(row))

    def _rows(self, steps: Sequence[Step]) -> list[Row]:
        """Return the actions of steps, as a plan file has them."""
        write = self.WRITERS
        if self._options.launch_order != "free":
            if self._made is None:
                return [row for step in steps if (row := write[step.__class__](self, step))]
            return self._shared(steps, self._made)
        rows: list[Row] = []
        place = 0
        while place < len(steps):
            run = _launches(steps, place)
            if run > 1:
                inside = [self._row(step) for step in steps[place : place + run]]
                rows.append({"op": "unordered", "body": list(filter(None, inside))})
            elif row := self._row(steps[place]):
                rows.append(row)
            place += max(run, 1)
        return rows

    def _shared(self, steps: Sequence[Step], made: dict[int, Row]) -> list[Row]:
        """Return the actions of steps; one that several ranks take has one action, where it can."""
        write, rows = self.WRITERS, []
        for step in steps:
            row = made.get(id(step))
            if row is None:
                kind = step.__class__
                row = write[kind](self, step)
                # A handle is started on each rank, and what has no label is counted on each.
                if kind is Plain or (kind is Collective and "label" in row and "work" not in row):
                    made[id(step)] = row
            if row:
                rows.append(row)
        return rows

    def _row(self, step: Step) -> Row:
        """Return the action of a step; empty where it is none on this rank."""
        return self.WRITERS[step.__class__](self, step)

    def _wait(self, step: Wait) -> Row:
        if step.handle not in self._started:
            return {}
        return {"op": "wait", "work": _work(step.handle), "src": self._src(step.origin)}

    def _loop(self, step: Loop) -> Row:
        return {"op": "repeat", "times": step.times, "body": self._rows(step.body)}

    def _plain(self, step: Plain) -> Row:
        return {"op": step.op, "src": self._src(step.origin), **dict(step.fields)}

    def _choice(self, step: Choice) -> Row:
        branches = [self._rows(branch) for branch in step.branches]
        head = {"op": "choice", "name": step.origin.text or "branch", "uniform": step.uniform}
        return {**head, "src": self._src(step.origin), "branches": branches}

    def _collective(self, step: Collective) -> Row:
        row = self._common(step.op, step)
        if step.handle is not None:
            self._started.add(step.handle)
            row |= {"async": True, "work": _work(step.handle)}
        if step.op in _REDUCING and step.reduce_op is not None:
            row["reduce_op"] = step.reduce_op
        if len(step.parts) > 1 and step.op in _COALESCED:
            parts = [_size(part) for part in step.parts]
            return {**row, "op": "coalesced", "kind": step.op, "ops": parts}
        if step.root is not None:
            row["root"] = step.root
        whole = step.parts[0] if len(step.parts) == 1 else Part(_total(step), None)
        row.update(_size(whole))
        return row

    def _common(self, op: str, step: Sending) -> Row:
        key, origin = key_of(step), step.origin
        row = {"op": op, "src": self._src(origin), "group": self._names.by_key[key]}
        label = self._labels.label(origin, key)
        if label is not None:
            row["label"] = label
        return row

    def _exchange(self, step: Exchange) -> Row:
        common = self._common("", step) | _size(step.part)
        ops: list[Row] = []
        if step.target not in (None, self._rank):
            ops.append({**common, "op": "isend", "peer": step.target})
        if step.source not in (None, self._rank):
            ops.append({**common, "op": "irecv", "peer": step.source})
        if not ops:
            return {}
        row = {"op": "batch", "src": common["src"], "ops": ops}
        if step.handle is not None:
            self._started.add(step.handle)
            row["work"] = _work(step.handle)
        return row

    def _message(self, step: Message) -> Row:
        row = self._common("send" if step.sends else "recv", step)
        row["peer"] = step.peer
        if not step.blocking:
            self._started.add(step.handle)
            row["op"], row["work"] = f"i{row['op']}", _work(step.handle)
        if step.stream is not None:
            row["stream"] = step.stream
        if step.part.bytes is not None:
            row["bytes"] = step.part.bytes
        if step.part.dtype is not None:
            row["dtype"] = step.part.dtype
        return row

    def _src(self, origin: Origin) -> tuple[str, int, str]:
        text = f"{origin.name} ({origin.place})" if origin.place else origin.name
        return (self._files[origin.program], origin.line, text)

    WRITERS: ClassVar[dict[type, Callable[[Writer, Any], Row]]] = {
        Collective: _collective,
        Exchange: _exchange,
        Message: _message,
        Wait: _wait,
        Loop: _loop,
        Plain: _plain,
        Choice: _choice,
    }


def _launches(row: Sequence[Step], place: int) -> int:
    """Return how many asynchronous launches follow each other."""
    count = 0
    for step in row[place:]:
        if not isinstance(step, Collective | Exchange) or step.handle is None:
            break
        count += 1
    return count


def _work(handle: str) -> str:
    return handle.replace("[{i}]", "")


def _size(part: Part) -> Row:
    if part.dtype is None:
        return {} if part.bytes is None else {"bytes": part.bytes}
    if part.bytes is None:
        return {"dtype": part.dtype}
    return {"bytes": part.bytes, "dtype": part.dtype}


def _total(step: Collective) -> int | None:
    sizes = [part.bytes for part in step.parts]
    return None if None in sizes else sum(size or 0 for size in sizes)
