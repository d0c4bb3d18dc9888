"""Random plans of every shape: the native kernels equal their Python twin, array by array."""

from __future__ import annotations

from array import array
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planguard import kernels
from planguard.errors import PlanError
from planguard.kernels.twin_rules import Family
from planguard.options import MODEL_NAMES
from planguard.plan.format import read
from planguard.semantics.model import buffered, find_model, lenient, rules_for, strict

if TYPE_CHECKING:
    import random

    from planguard.plan.code import CompiledPlan

COLUMNS = (
    "world_size", "rank_off", "op", "arg", "sig", "label", "stream", "aux", "ginst_group",
    "ginst_off", "slot_rank", "slot_ginst", "slot_count", "chan_ginst", "chan_src", "chan_dst",
    "chan_tag", "send_count", "recv_count", "has_markers", "has_new_group", "has_any_source",
    "has_any_tag", "has_wait_choice", "has_drop", "has_stream",
)  # fmt: skip
LANES = (
    "code", "lane_off", "lane_rank", "lane_kind", "lane_soft", "need", "origin", "why", "comm_base",
    "comm_ginst", "class_base", "class_chan", "p2p_base", "ext_base", "mismatched", "split_rounds",
    "mixed_async", "n_mismatched", "overflow",
)  # fmt: skip
SAME_LANES = tuple(name for name in LANES if name not in {"code", "origin", "why"})
"""What does not depend on whether origins are kept."""
RUN = ("pc", "need", "executed", "stuck_lanes")
BLOCKERS = ("lane", "match", "owed_match", "owed_lane", "owed_at")
MANY = 100_000
"""More entries than any plan here has."""


class Writer:
    """Writes a random plan: what matches by construction, then a few slips of the hand."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.size = rng.choice([1, 2, 2, 3, 4, 5])
        everyone = range(self.size)
        self.groups = {"world": list(everyone)}
        for name in "ab":
            self.groups[name] = rng.sample(everyone, rng.randint(1, self.size))
        self.programs: list[list[dict[str, Any]]] = [[] for _ in everyone]
        self.open: list[list[str]] = [[] for _ in everyone]
        self.names = 0
        self.has = {
            name: rng.random() < chance
            for name, chance in {
                "stream": 0.3, "batch": 0.4, "rooted": 0.4, "new_group": 0.2, "exit": 0.1,
                "drop": 0.15, "host_sync": 0.3, "init": 0.2, "mode": 0.2, "event": 0.2,
                "compute": 0.4, "any": 0.1, "tag": 0.3, "label": 0.3, "split": 0.1,
                "block": 0.2, "probe": 0.1, "slip": 0.5,
            }.items()
        }  # fmt: skip

    def maybe(self, feature: str, chance: float) -> bool:
        """Decide for a feature that this plan may or may not have."""
        return self.has[feature] and self.rng.random() < chance

    def name(self, prefix: str) -> str:
        """Make a fresh name."""
        self.names += 1
        return f"{prefix}{self.names}"

    def plan(self) -> dict[str, Any]:
        """Write the plan."""
        for rank in range(self.size):
            self._create(rank)
        for _ in range(self.rng.randint(1, 8)):
            self._batch() if self.maybe("batch", 0.3) else self._single()
        for rank, program in enumerate(self.programs):
            self._slip(program)
            program += [{"op": "wait", "work": work} for work in self.open[rank] if self._coin(0.8)]
            if self.maybe("exit", 0.5):
                program.append({"op": "exit"})
        groups = {name: {"ranks": ranks} for name, ranks in self.groups.items() if name != "world"}
        ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(self.programs)}
        return {
            "schema": "planguard.plan/1", "world_size": self.size, "groups": groups, "ranks": ranks
        }  # fmt: skip

    def _coin(self, chance: float) -> bool:
        return self.rng.random() < chance

    def _create(self, rank: int) -> None:
        if self.maybe("new_group", 0.9):
            names = self.rng.sample("ab", self.rng.choice([1, 2, 2]))
            self.programs[rank] += [{"op": "new_group", "group": name} for name in names]

    def _size(self) -> dict[str, Any]:
        if self._coin(0.05):
            return {}
        return self.rng.choice(
            [{"bytes": 0}, {"bytes": 8}, {"count": 2, "dtype": "f32"}, {"bytes": 1 << 20}]
        )

    def _parts(self) -> list[tuple[int, dict[str, Any]]]:
        """Write one communication: what every rank that takes part issues."""
        group = self.rng.choice(list(self.groups))
        members, size = self.groups[group], self._size()
        common = {"group": group, **size}
        if self.maybe("label", 0.7):
            common["label"] = self.rng.choice(["x", "y"])
        if len(members) > 1 and self._coin(0.5):
            return self._message(members, common)
        common["op"] = "all_reduce"
        if self.maybe("rooted", 0.6):
            common["op"] = self.rng.choice(["broadcast", "gather", "scatter", "reduce"])
            common["root"] = self.rng.choice(members)
        elif self._coin(0.4):
            common["op"] = self.rng.choice(
                ["all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "barrier"]
            )
        elif self.maybe("split", 0.5):
            common["op"], splits = "all_to_all_single", [1] * len(members)
            common |= {"in_splits": splits, "out_splits": splits}
        return [(rank, dict(common)) for rank in members]

    def _message(
        self, members: list[int], common: dict[str, Any]
    ) -> list[tuple[int, dict[str, Any]]]:
        src, dst = self.rng.sample(members, 2)
        tag = {"tag": self.rng.choice([0, 1])} if self.has["tag"] else {}
        mode = (
            {"mode": self.rng.choice(["synchronous", "buffered"])}
            if self.maybe("mode", 0.4)
            else {}
        )
        peer: Any = "any" if self.maybe("any", 0.3) else src
        recv_tag = {"tag": "any"} if self.maybe("any", 0.3) else tag
        parts = [(src, {**common, **tag, **mode, "op": "send", "peer": dst})]
        if self.maybe("probe", 0.4):
            parts.append((dst, {**common, **recv_tag, "op": "probe", "peer": peer}))
        return [*parts, (dst, {**common, **recv_tag, "op": "recv", "peer": peer})]

    def _single(self) -> None:
        for rank, action in self._parts():
            if self.maybe("slip", 0.05):
                continue
            if action["op"] != "probe" and self._coin(0.5):
                self._make_async(rank, action)
            if self.maybe("stream", 0.4):
                action["stream"] = self.rng.choice(["s", "t"])
            self._issue(rank, action)
            self._aside(rank)

    def _make_async(self, rank: int, action: dict[str, Any]) -> None:
        if action["op"] in {"send", "recv"}:
            action["op"] = f"i{action['op']}"
            action.pop("mode", None)
        else:
            action["async"] = True
        if self._coin(0.85):
            action["work"] = self.name("h")
            self.open[rank].append(action["work"])

    def _issue(self, rank: int, action: dict[str, Any]) -> None:
        program = self.programs[rank]
        if "work" not in action and self.maybe("block", 0.2):
            action = {"op": "repeat", "times": self.rng.randint(1, 3), "body": [action]}
        elif "work" not in action and self.maybe("block", 0.2):
            other = {"op": "compute", "id": self.name("i")}
            items = [{**action, "after": [other["id"]]}, other]
            action = {"op": "unordered", "body": items}
        program.append(action)

    def _batch(self) -> None:
        parts: dict[int, list[dict[str, Any]]] = {}
        for _ in range(self.rng.randint(1, 3)):
            for rank, action in self._parts():
                if action["op"] not in {"barrier", "probe"}:
                    parts.setdefault(rank, []).append(action)
        for rank, ops in parts.items():
            batch: dict[str, Any] = {"op": "batch", "ops": ops}
            if self._coin(0.5):
                batch["work"] = self.name("h")
                self.open[rank].append(batch["work"])
            self.programs[rank].append(batch)
            self._aside(rank)

    def _aside(self, rank: int) -> None:
        """Write what only this rank does: waits, computation, synchronization."""
        program, rng = self.programs[rank], self.rng
        stream = {"stream": "s"} if self.maybe("stream", 0.3) else {}
        if self.maybe("host_sync", 0.2):
            program.append({"op": "host_sync", **stream})
        if self.maybe("event", 0.3):
            program.append(
                {"op": rng.choice(["event_record", "event_wait"]), "event": "e", **stream}
            )
        if self.open[rank] and self._coin(0.5):
            count = rng.randint(1, len(self.open[rank]))
            works = [self.open[rank].pop(rng.randrange(len(self.open[rank]))) for _ in range(count)]
            if self.maybe("drop", 0.4):
                program.append({"op": "drop", "work": works.pop()})
            if works:
                work = works[0] if len(works) == 1 else works
                program.append({"op": "wait", "work": work, **stream})
        if self.maybe("init", 0.2):
            homes = [name for name, ranks in self.groups.items() if rank in ranks]
            program.append({"op": "init", "group": rng.choice(homes)})
        if self.maybe("compute", 0.4):
            self._compute(program, stream)

    def _compute(self, program: list[dict[str, Any]], stream: dict[str, str]) -> None:
        if program and "id" not in program[-1] and program[-1]["op"] != "unordered":
            program[-1]["id"] = self.name("i")
        ids = [action["id"] for action in program if "id" in action]
        deps = {"deps": [self.rng.choice(ids)]} if ids and self._coin(0.7) else {}
        program.append({"op": "compute", **deps, **stream})

    def _slip(self, program: list[dict[str, Any]]) -> None:
        if len(program) > 1 and self.maybe("slip", 0.3):
            at = self.rng.randrange(len(program) - 1)
            program[at], program[at + 1] = program[at + 1], program[at]


class MeshWriter:
    """Writes a random plan of few templates for the many ranks of a mesh."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes = {
            "pp": rng.choice([1, 2, 3]),
            "dp": rng.choice([1, 2]),
            "tp": rng.choice([2, 3]),
        }
        self.slips = rng.random() < 0.5
        self.streams = rng.random() < 0.2
        self.names = 0

    def plan(self) -> dict[str, Any]:
        """Write the plan."""
        dim = self.rng.choice(["pp", "tp"])
        steps = [self._step() for _ in range(self.rng.randint(1, 5))]
        templates = {f"t{at}": self._program(steps) for at in range(self.sizes[dim])}
        ranks = {f"{dim}={at}": {"template": f"t{at}"} for at in range(self.sizes[dim])}
        if self.rng.random() < 0.4:
            templates, ranks = {"t": self._program(steps)}, {f"{dim}=0-{self.sizes[dim] - 1}": None}
            ranks = {selector: {"template": "t"} for selector in ranks}
        return {
            "schema": "planguard.plan/1",
            "world_size": self.sizes["pp"] * self.sizes["dp"] * self.sizes["tp"],
            "mesh": {"dims": [[name, size] for name, size in self.sizes.items()]},
            "groups": {
                **{name: {"mesh_dims": [name]} for name in self.sizes},
                "plane": {"mesh_dims": ["pp", "tp"]},
            },
            "templates": templates,
            "ranks": ranks,
        }

    def _step(self) -> dict[str, Any]:
        rng, size = self.rng, self.rng.choice([{"bytes": 8}, {"count": 4, "dtype": "f32"}, {}])
        label = {"label": rng.choice(["x", "g{i}"])} if rng.random() < 0.3 else {}
        if rng.random() < 0.5:
            op = rng.choice(["all_reduce", "all_reduce", "all_gather", "barrier"])
            group = rng.choice(["world", "plane", *self.sizes])
            splits = {}
            if rng.random() < 0.1 and group in self.sizes:
                op, ones = "all_to_all_single", [1] * self.sizes[group]
                splits = {"in_splits": ones, "out_splits": ones}
            return {"op": op, "group": group, **size, **label, **splits}
        dim = rng.choice(list(self.sizes))
        peer = {dim: rng.choice([1, -1]), "wrap": True}
        tag = {"tag": rng.choice([0, 1])} if rng.random() < 0.3 else {}
        return {"op": "ring", "group": "world", "peer": peer, **size, **label, **tag}

    def _program(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        actions: list[dict[str, Any]] = []
        for step in steps:
            if not (self.slips and self.rng.random() < 0.1):
                body = self._actions(dict(step))
                times = self.rng.choice([1, 2, 3]) if not self.slips else 2
                actions.append({"op": "repeat", "times": times, "body": body})
        if self.slips and len(actions) > 1 and self.rng.random() < 0.2:
            actions.reverse()
        return actions

    def _actions(self, step: dict[str, Any]) -> list[dict[str, Any]]:
        if self.slips and self.rng.random() < 0.1:
            step["bytes"] = 16
            step.pop("count", None), step.pop("dtype", None)
        if self.streams and self.rng.random() < 0.4:
            step["stream"] = "s"
        self.names += 1
        work = f"h{self.names}"
        if step["op"] == "ring":
            back = {**step["peer"]}
            dim = next(name for name in back if name != "wrap")
            back[dim] = -back[dim]
            send = {**step, "op": "isend", "work": work}
            wait = [{"op": "wait", "work": work}] if self.rng.random() < 0.8 else []
            if not wait:
                send.pop("work")
            return [send, {**step, "op": "recv", "peer": back}, *wait]
        if self.rng.random() < 0.4:
            return [{**step, "async": True, "work": work}, {"op": "wait", "work": work}]
        return [step]


def expand(code: CompiledPlan, implementation: Any) -> Any:
    """Expand with one of the implementations."""
    return implementation.expand(
        code.world_size, code.mesh_sizes, code.group_kind, code.group_mask, code.group_off,
        code.group_members, code.refs, [program.code for program in code.programs],
        array("I", [program.n_slots for program in code.programs]), code.rank_program,
        code.sig_root, code.label_pool, code.aux, MANY,
    )  # fmt: skip


def lower(
    columns: Any,
    code: CompiledPlan,
    implementation: Any,
    rules: Any,
    forced: array[int],
    *,
    origins: bool,
    threads: bool = False,
) -> Any:
    """Lower with one of the implementations."""
    return implementation.lower(
        columns, code.sig_kind, code.sig_bytes, code.sig_dtype, code.sig_redop, code.sig_root,
        code.sig_layout, code.sig_splits, rules, origins, forced, threads,
    )  # fmt: skip


def fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Give the fields of a result as plain values that pytest can compare and print."""
    found = {name: getattr(value, name) for name in names}
    return {
        name: held if isinstance(held, (int, tuple)) else list(held) for name, held in found.items()
    }


def compare_expansion(code: CompiledPlan, native: Any, twin: Any) -> tuple[Any, Any] | None:
    """Compare the columns of both; None where the plan is refused, which both must do alike."""
    left, right = expand(code, native), expand(code, twin)
    assert left.failure == right.failure
    if left.failure[0]:
        return None
    assert fields(left, COLUMNS) == fields(right, COLUMNS)
    return left, right


def compare_execution(
    code: CompiledPlan, columns: tuple[Any, Any], rules: Any, forced: array[int]
) -> Any:
    """Compare lanes, end state and blockers of both; return the native lanes."""
    fast = compare_lanes(code, columns, rules, forced, origins=False)
    exact = compare_lanes(code, columns, rules, forced, origins=True)
    native = kernels.use("native")
    fast_end, exact_end = native.run(fast), native.run(exact)
    assert bool(fast_end.stuck_lanes) == bool(exact_end.stuck_lanes)
    assert fields(fast, SAME_LANES) == fields(exact, SAME_LANES)
    return exact


def compare_lanes(
    code: CompiledPlan,
    columns: tuple[Any, Any],
    rules: Any,
    forced: array[int],
    *,
    origins: bool,
    threads: bool = False,
) -> Any:
    """Compare what both make of the columns; return the native lanes."""
    native, twin = kernels.use("native"), kernels.use("python")
    left = lower(columns[0], code, native, rules, forced, origins=origins, threads=threads)
    right = lower(columns[1], code, twin, rules, forced, origins=origins, threads=threads)
    assert fields(left, LANES) == fields(right, LANES)
    extras = range(left.ext_base, len(left.need))
    assert [left.ext(match) for match in extras] == [right.ext(match) for match in extras]
    states = native.run(left), twin.run(right)
    assert fields(states[0], RUN) == fields(states[1], RUN)
    ends = native.blockers(left, states[0]), twin.blockers(right, states[1])
    assert fields(ends[0], BLOCKERS) == fields(ends[1], BLOCKERS)
    return left


def scenarios(name: str) -> list[dict[str, Any]]:
    """Give the rules of both ends of a model, and of the lenient one with unlimited buffers."""
    model = find_model(name)
    ends = (strict(model), lenient(model, 4096), buffered(lenient(model, 4096)))
    return [rules_for(model, scenario) for scenario in ends]


@pytest.fixture(scope="module", autouse=True)
def _native() -> None:
    """Both implementations, or nothing to compare."""
    pytest.importorskip("planguard._native", reason="the native kernels were not built")


@pytest.mark.parametrize("name", MODEL_NAMES)
@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_twin_equals_native_on_meshes(name: str, rng: random.Random) -> None:
    """Lowering one rank of a template and repeating it gives what lowering every rank gives."""
    try:
        code = read(MeshWriter(rng).plan()).code
    except PlanError:
        return  # a dimension of one rank makes a rank its own neighbor
    columns = compare_expansion(code, kernels.use("native"), kernels.use("python"))
    if columns is None:
        return
    for rules in scenarios(name):
        lanes = compare_execution(code, columns, rules, array("I"))
        if lanes.n_mismatched:
            compare_execution(code, columns, rules, array("I", lanes.mismatched))


@pytest.mark.parametrize("name", MODEL_NAMES)
@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_twin_equals_native(name: str, rng: random.Random) -> None:
    """Columns, lanes, end states and blockers of both implementations are equal, word by word."""
    try:
        code = read(Writer(rng).plan()).code
    except PlanError:
        return  # two slips may make a plan that the reader refuses
    columns = compare_expansion(code, kernels.use("native"), kernels.use("python"))
    if columns is None:
        return
    for rules in scenarios(name):
        lanes = compare_execution(code, columns, rules, array("I"))
        if rules["family"] == Family.DEVICE:  # hosts of threads are told apart later
            compare_lanes(code, columns, rules, array("I"), origins=True, threads=True)
        if lanes.n_mismatched:
            compare_execution(code, columns, rules, array("I", lanes.mismatched))


@settings(max_examples=150)
@given(rng=st.randoms(use_true_random=False), data=st.data())
def test_twin_equals_native_under_any_rules(rng: random.Random, data: st.DataObject) -> None:
    """The two agree under every combination of rules, also those that no model has."""
    try:
        code = read(Writer(rng).plan()).code
    except PlanError:
        return
    columns = compare_expansion(code, kernels.use("native"), kernels.use("python"))
    rules = dict(scenarios("gloo")[0])
    for name, value in rules.items():
        if isinstance(value, bool):
            rules[name] = data.draw(st.booleans(), label=name)
        elif isinstance(value, bytes) and name != "spelling":
            limit = 2 if name == "degree" else 1 if name == "empty_alone" else 63
            cells = st.integers(0, limit)
            rules[name] = bytes(data.draw(st.lists(cells, min_size=64, max_size=64), label=name))
    rules["family"] = data.draw(st.integers(0, 2), label="family")
    rules["new_group"] = data.draw(st.integers(0, 2), label="new_group")
    rules["eager_bytes"] = data.draw(st.sampled_from([0, 8, 4096, 1 << 63]), label="eager_bytes")
    if columns is not None:
        compare_execution(code, columns, rules, array("I"))


def compare_everywhere(plan: dict[str, Any]) -> None:
    """Compare one plan under both ends of every model, rounds that do not agree forced too."""
    code = read(plan).code
    columns = compare_expansion(code, kernels.use("native"), kernels.use("python"))
    assert columns is not None
    for name in MODEL_NAMES:
        for rules in scenarios(name):
            lanes = compare_execution(code, columns, rules, array("I"))
            if lanes.n_mismatched:
                compare_execution(code, columns, rules, array("I", lanes.mismatched))


@pytest.mark.parametrize("size", [3, 6])
@pytest.mark.parametrize("op", ["broadcast", "gather", "scatter", "reduce"])
def test_twin_equals_native_in_trees_that_do_not_agree(op: str, size: int) -> None:
    """One rank says another size: who waits for whom follows the tree of its root, of any root."""
    for root in range(size):
        calls = [{"op": op, "root": root, "bytes": 8 + 8 * (rank == 1)} for rank in range(size)]
        calls[2]["bytes"] = 0 if root % 2 else 1 << 20
        ranks = {str(rank): {"actions": [call]} for rank, call in enumerate(calls)}
        compare_everywhere({"schema": "planguard.plan/1", "world_size": size, "ranks": ranks})


def test_twin_equals_native_around_a_barrier() -> None:
    """Collectives that are done or not, on the group of a barrier or on another, before and after.

    Every sequence of three, on one rank alone followed by another.
    """
    moves: list[dict[str, Any]] = [
        {"op": "all_reduce", "bytes": 8, "async": True, "work": "h"},
        {"op": "all_reduce", "bytes": 8, "async": True, "work": "k", "group": "a"},
        {"op": "wait", "work": "h"},
        {"op": "barrier"},
        {"op": "barrier", "group": "a", "async": True, "work": "b"},
        {"op": "all_gather", "bytes": 0},
    ]
    tried = 0
    for chosen in product(moves, repeat=3):
        made = {action["work"] for action in chosen if action["op"] != "wait" and "work" in action}
        if len({id(action) for action in chosen}) < 3 or ("h" not in made and moves[2] in chosen):
            continue
        last = {"op": "barrier", "group": "a"}
        document = {
            "schema": "planguard.plan/1",
            "world_size": 2,
            "groups": {"a": {"ranks": [0, 1]}},
            "ranks": {"0": {"actions": [*chosen]}, "1": {"actions": [*chosen[::-1], last]}},
        }
        try:
            read(document)
        except PlanError:  # a wait before its work, on the rank that goes backwards
            document["ranks"]["1"]["actions"] = [*chosen, last]
        try:
            compare_everywhere(document)
        except PlanError:
            continue
        tried += 1
    assert tried > 60
