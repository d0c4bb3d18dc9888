"""A second, deliberately plain reader of plan files: valid input only, no diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oracle.branches import Branches, loose, variable
from oracle.program import (
    COLLECTIVES,
    POINT_TO_POINT,
    REGISTERED,
    Action,
    OracleUnsupported,
    Program,
    Size,
)

DTYPE_BYTES = {
    "f64": 8,
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "f8": 1,
    "i64": 8,
    "i32": 4,
    "i16": 2,
    "i8": 1,
    "u8": 1,
    "bool": 1,
}
PLAIN = frozenset(
    {
        "wait",
        "test",
        "drop",
        "host_sync",
        "event_record",
        "event_wait",
        "init",
        "new_group",
        "destroy",
        "exit",
        "compute",
    }
)


@dataclass
class Mesh:
    """The device mesh: row-major coordinates of every rank."""

    names: list[str]
    sizes: list[int]

    def coordinates(self, rank: int) -> dict[str, int]:
        """Give the coordinate of a rank in every dimension."""
        result: dict[str, int] = {}
        for name, size in zip(reversed(self.names), reversed(self.sizes), strict=True):
            rank, result[name] = divmod(rank, size)
        return result

    def rank(self, coordinates: dict[str, int]) -> int:
        """Give the rank at a point of the mesh."""
        rank = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            rank = rank * size + coordinates[name]
        return rank


@dataclass
class _Writer:
    """Collects the flat actions of one rank while it walks the written program."""

    plan: dict[str, Any]
    mesh: Mesh | None
    rank: int
    program: str
    groups: dict[str, tuple[int, ...]]
    actions: list[Action] = field(default_factory=list)
    handles: dict[str, int] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    named: dict[str, frozenset[int]] = field(default_factory=dict)
    ends: dict[str, set[int]] = field(default_factory=dict)
    path: list[object] = field(default_factory=list)
    reordering: int = 0
    reorderable: bool = False
    branches: Branches | None = None
    iterations: list[int] = field(default_factory=list)
    blocks: int = 0
    thread: tuple[int, ...] = ()
    waiting: list[tuple[int, str]] = field(default_factory=list)

    def walk(self, items: list[dict[str, Any]], before: frozenset[int]) -> frozenset[int]:
        """Append a chain; give the actions that precede whatever follows it."""
        for place, item in enumerate(items):
            self.path.append(place)
            first = len(self.actions)
            known, later = self._named(item)
            before |= known
            if item["op"] == "repeat":
                for iteration in range(item["times"]):
                    self.path.append(iteration)
                    self.iterations.append(iteration)
                    before = self.walk(_iteration(item["body"], iteration), before)
                    self.iterations.pop()
                    self.path.pop()
            elif item["op"] == "choice":
                before = self._choice(item, before)
            elif item["op"] == "threads":
                before = self._threads(item, before)
            elif item["op"] == "unordered":
                before = self._unordered(item, before)
            else:
                before = frozenset({self._append(item, before)})
            if "id" in item:
                self.named[item["id"]] = before
            if later:
                self._postpone(first, later)
            self.path.pop()
        return before

    def _postpone(self, first: int, later: list[str]) -> None:
        """Note which actions come after an item that is written behind them."""
        inside = range(first, len(self.actions))
        if not inside:
            raise OracleUnsupported("an empty item `after` one that is written later")
        self.waiting += [(at, name) for name in later for at in inside]

    def _unordered(self, block: dict[str, Any], before: frozenset[int]) -> frozenset[int]:
        # A fence at both ends: everything inside comes after `before`, and before what follows.
        self.reorderable = True
        self.reordering += 1
        first = len(self.actions)
        for place, item in enumerate(block["body"]):
            self.path.append(place)
            self.walk(item if isinstance(item, list) else [item], before)
            self.path.pop()
        self.reordering -= 1
        if not self.reordering and not self.thread:
            self._resolve()
        inside = frozenset(range(first, len(self.actions)))
        return inside or before

    def _resolve(self) -> None:
        """Order what comes after an item that was written behind it, now that it is known."""
        for at, name in self.waiting:
            if name not in self.named:
                raise OracleUnsupported("`after` an item that is in no branch taken")
            before = self.actions[at].before | self.named[name]
            self.actions[at] = replace(self.actions[at], before=before)
        self.waiting.clear()

    def _choice(self, item: dict[str, Any], before: frozenset[int]) -> frozenset[int]:
        if self.branches is None:
            raise OracleUnsupported("a branch that nobody takes")
        name = variable(item, self.iterations)
        branch = self.branches.take(name, self.rank, len(item["branches"]))
        return self.walk(item["branches"][branch], before)

    def _threads(self, item: dict[str, Any], before: frozenset[int]) -> frozenset[int]:
        self.reorderable = True
        self.blocks += 1
        block, around = self.blocks, self.thread
        first = len(self.actions)
        for place, thread in enumerate(item["threads"]):
            self.thread = (*around, block, place)
            self.path.append(place)
            self.walk(thread, before)
            self.path.pop()
        self.thread = around
        inside = frozenset(range(first, len(self.actions)))
        if self.reordering:
            self._enter_together(inside)
        elif not around:
            self._resolve()
        return inside or before

    def _enter_together(self, inside: frozenset[int]) -> None:
        """Let a whole threads block come after what any action in it needs from outside."""
        needed = frozenset[int]().union(*(self.actions[at].before for at in inside)) - inside
        for at in inside:
            self.actions[at] = replace(self.actions[at], before=self.actions[at].before | needed)

    def _append(self, item: dict[str, Any], before: frozenset[int]) -> int:
        index = len(self.actions)
        if self.reordering or self.thread:
            before |= self._by_name(item, index)
        action = self._action(item, index, before)
        if self.thread:
            action = replace(action, thread=self.thread)
        if self.reordering:
            action = replace(action, place=(self.program, *self.path))
        self.actions.append(action)
        if isinstance(item.get("work"), str) and item["op"] not in {"wait", "test", "drop"}:
            self.handles[item["work"]] = index
        if "id" in item:
            self.ids[item["id"]] = index
        return index

    def _named(self, item: dict[str, Any]) -> tuple[frozenset[int], list[str]]:
        """Give what an item, a block too, comes after by name, and the names not known yet."""
        names = item.get("after", ())
        known = frozenset[int]().union(*(self.named.get(name, frozenset()) for name in names))
        return known, [name for name in names if name not in self.named]

    def _by_name(self, item: dict[str, Any], index: int) -> frozenset[int]:
        """Give what a handle or a result orders: its start, its end, and that its name is free."""
        work = item.get("work", [])
        names = [work] if isinstance(work, str) else work
        found = {self.ids[name] for name in item.get("deps", ())}
        for name in names:
            if item["op"] in {"wait", "test", "drop"}:
                found |= {self.handles[name]} if name in self.handles else set()
                self.ends.setdefault(name, set()).add(index)
            else:
                found |= self.ends.pop(name, set())
        return frozenset(found)

    def _action(self, item: dict[str, Any], index: int, before: frozenset[int]) -> Action:
        kind = item["op"]
        known = COLLECTIVES | POINT_TO_POINT | REGISTERED.keys() | {"probe"}
        if kind in known:
            return self._communication(item, index, before)
        if kind in {"batch", "coalesced"}:
            return self._several(item, index, before)
        if kind not in PLAIN:
            raise OracleUnsupported(f"operation {kind}")
        work = item.get("work", [])
        names = [work] if isinstance(work, str) else work
        if any(name not in self.handles for name in names):
            raise OracleUnsupported("a wait for what starts elsewhere in a block")
        return Action(
            index,
            kind,
            group=self._group(item.get("group", "world")) if kind in _GROUPED else "world",
            targets=tuple(self.handles[name] for name in names),
            wait_mode=item.get("mode", "all"),
            stream=item.get("stream"),
            event=item.get("event"),
            deps=tuple(self.ids[name] for name in item.get("deps", ())),
            before=before,
        )

    def _communication(
        self, item: dict[str, Any], index: int, before: frozenset[int] = frozenset()
    ) -> Action:
        kind = item["op"]
        if kind in REGISTERED:
            kind = REGISTERED[kind].spelling or kind
        return Action(
            index,
            kind,
            group=self._group(item.get("group", "world")),
            peer=self._peer(item.get("peer")),
            tag=item.get("tag", 0),
            root=item.get("root"),
            reduce_op=item.get("reduce_op"),
            size=self._size(item),
            in_splits=_splits(item.get("in_splits")),
            out_splits=_splits(item.get("out_splits")),
            label=item.get("label"),
            sync=kind not in {"isend", "irecv"} and not item.get("async", False),
            stream=item.get("stream"),
            before=before,
            mode=item.get("mode", "standard"),
        )

    def _several(self, item: dict[str, Any], index: int, before: frozenset[int]) -> Action:
        coalesced = item["op"] == "coalesced"
        if coalesced:
            shared = {"op": item["kind"], "group": item.get("group", "world")}
            parts = [self._communication({**part, **shared}, index) for part in item["ops"]]
        else:
            parts = [self._communication(part, index) for part in item["ops"]]
        return Action(
            index,
            item["kind"] if coalesced else "batch",
            group=parts[0].group,
            label=item.get("label"),
            reduce_op=item.get("reduce_op"),
            sync=not item.get("async", False) if coalesced else "work" not in item,
            stream=item.get("stream"),
            parts=tuple(parts),
            coalesced=coalesced,
            before=before,
        )

    def _group(self, name: str) -> str:
        if name == "world":
            return name
        declared = self.plan["groups"][name]
        if "ranks" in declared:
            return name
        if self.mesh is None:
            raise OracleUnsupported("a family of groups without a mesh")
        free = set(declared["mesh_dims"])
        mine = self.mesh.coordinates(self.rank)
        members = tuple(
            rank
            for rank in range(self.plan["world_size"])
            if all(
                value == mine[dim]
                for dim, value in self.mesh.coordinates(rank).items()
                if dim not in free
            )
        )
        concrete = f"{name}[{','.join(map(str, members))}]"
        self.groups[concrete] = members
        return concrete

    def _peer(self, peer: int | str | dict[str, Any] | None) -> int | str | None:
        if not isinstance(peer, dict):
            return peer
        if self.mesh is None:
            raise OracleUnsupported("a relative peer without a mesh")
        ((dim, step),) = [(key, value) for key, value in peer.items() if key != "wrap"]
        coordinates = self.mesh.coordinates(self.rank)
        size = self.mesh.sizes[self.mesh.names.index(dim)]
        coordinates[dim] += step
        if peer.get("wrap"):
            coordinates[dim] %= size
        return self.mesh.rank(coordinates)

    def _size(self, item: dict[str, Any]) -> Size:
        if "tensor" in item:
            item = {**self.plan["tensors"][item["tensor"]], **item}
        dtype = item.get("dtype")
        count = item.get("count")
        if "shape" in item and count is None:
            count = 1
            for extent in item["shape"]:
                count *= extent
        if item.get("bytes") is not None:
            if count is None and dtype is not None and item["bytes"] % DTYPE_BYTES[dtype] == 0:
                count = item["bytes"] // DTYPE_BYTES[dtype]
            return Size(item["bytes"], dtype, count)
        if count is not None and dtype is not None:
            return Size(count * DTYPE_BYTES[dtype], dtype, count)
        return Size(None, dtype, count)


_GROUPED = frozenset({"init", "new_group", "destroy"})


def _splits(value: list[int] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


def _iteration(body: list[dict[str, Any]], iteration: int) -> list[dict[str, Any]]:
    """Copy the body of a loop, its `{i}` replaced in labels and ids; an inner loop has its own."""

    def visit(value: Any, key: str = "") -> Any:
        if isinstance(value, dict) and value.get("op") == "repeat":
            return value
        if isinstance(value, dict):
            return {name: visit(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [visit(inner, key) for inner in value]
        if isinstance(value, str) and key in {"label", "id", "after", "deps"}:
            return value.replace("{i}", str(iteration))
        return value

    return [visit(item) for item in body]


def _integers(text: str) -> list[int]:
    """Read `3`, `0-3`, `0-15:4` and comma lists of them; both ends are included."""
    result: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        result += range(int(low), int(high or low) + 1, int(step or 1))
    return result


def _selected(selector: str, world_size: int, mesh: Mesh | None) -> list[int]:
    if "=" not in selector:
        return _integers(selector)
    if mesh is None:
        raise OracleUnsupported("a mesh selector without a mesh")
    wanted: dict[str, list[int]] = {}
    dim = ""
    for part in selector.split(","):
        name, equals, values = part.rpartition("=")
        dim = name if equals else dim
        wanted.setdefault(dim, []).extend(_integers(values))
    return [
        rank
        for rank in range(world_size)
        if all(mesh.coordinates(rank)[dim] in values for dim, values in wanted.items())
    ]


def expand(plan: dict[str, Any], branches: Branches | None = None) -> Program:
    """Expand templates, selectors, families, relative peers and repeats into flat programs.

    Args:
        plan: a decoded `planguard.plan/1` document that is known to be valid.
        branches: which branch every choice takes.

    Raises:
        OracleUnsupported: the plan uses an operation that this enumerator does not judge.
    """
    if plan.get("fusion"):
        raise OracleUnsupported("fused buffers")
    world_size = plan["world_size"]
    mesh = None
    if plan.get("mesh"):
        names, sizes = zip(*plan["mesh"]["dims"], strict=True)
        mesh = Mesh(list(names), list(sizes))
    groups: dict[str, tuple[int, ...]] = {"world": tuple(range(world_size))}
    for name, declared in plan.get("groups", {}).items():
        if "ranks" in declared:
            groups[name] = tuple(declared["ranks"])
    programs: dict[int, tuple[Action, ...]] = {}
    reorderable = False
    if branches is not None:
        for body in plan["ranks"].values():
            own = plan["templates"][body["template"]] if "template" in body else body["actions"]
            branches.loose |= loose(own, [])
    for selector, body in plan["ranks"].items():
        shared = "template" in body
        actions = plan["templates"][body["template"]] if shared else body["actions"]
        program = f"template {body['template']}" if shared else f"ranks {selector}"
        for rank in _selected(selector, world_size, mesh):
            writer = _Writer(plan, mesh, rank, program, groups, branches=branches)
            writer.walk(actions, frozenset())
            programs[rank] = tuple(writer.actions)
            reorderable |= writer.reorderable
    ranks = tuple(programs[rank] for rank in range(world_size))
    return Program(groups, ranks, reorderable)
