"""Pieces of small plans: what each says of itself is in the name; together they match.

A piece puts its calls at the end of the programs of all ranks concerned. What is wrong with a plan
comes in where a piece draws it (another name, another order), or by `careless` afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

Item = dict[str, Any]
SMALL, LARGE = 1, 4096  # elements of four bytes: below and above what MPI buffers
MODES = ("standard", "synchronous", "buffered", "ready")


class Sketch:
    """A flat plan under construction."""

    def __init__(self, rng: random.Random, worlds: tuple[int, ...] = (2, 2, 3)) -> None:
        self.rng = rng
        self.world = rng.choice(worlds)
        self.groups: dict[str, list[int]] = {}
        for name in "AB"[: rng.choice([0, 1, 2])]:
            count = rng.choice([2, 2, self.world])
            self.groups[name] = sorted(rng.sample(range(self.world), count))
        self.programs: list[list[Item]] = [[] for _ in range(self.world)]
        self.made = 0
        self.labeled = rng.random() < 0.7

    def number(self) -> int:
        """Give a number not given before."""
        self.made += 1
        return self.made

    def group(self, fewest: int = 1) -> tuple[str, list[int]]:
        """Draw a group with its members."""
        every = {"world": list(range(self.world)), **self.groups}
        name = self.rng.choice([name for name, ranks in every.items() if len(ranks) >= fewest])
        return name, every[name]

    def label(self, item: Item, label: str) -> Item:
        """Label a call, if this plan has labels and the hand does not slip."""
        return item | {"label": label} if self.labeled and self.rng.random() < 0.95 else item

    def put(self, rank: int, item: Item, work: str = "") -> None:
        """Append a call; with `work` it is asynchronous and waited for somewhere behind it."""
        if work:
            item = {**item, "work": work}
            if item["op"] in {"send", "recv"}:
                item["op"] = "i" + item["op"]
            elif item["op"] not in {"isend", "irecv", "batch"}:
                item["async"] = True
        self.programs[rank].append(item)

    def document(self) -> Item:
        """Give the plan."""
        return {
            "schema": "planguard.plan/1",
            "world_size": self.world,
            "groups": {name: {"ranks": ranks} for name, ranks in self.groups.items()},
            "templates": {},
            "ranks": {str(rank): {"actions": own} for rank, own in enumerate(self.programs)},
        }


def settle(sketch: Sketch) -> None:
    """Wait for what is open: at a place of each rank's own, some of it never."""
    rng = sketch.rng
    for program in sketch.programs:
        dropped = {item["work"] for item in program if item["op"] == "drop"}
        for item in list(program):
            if item["op"] == "drop" or item.get("work") in {None, *dropped} or rng.random() < 0.07:
                continue
            first = program.index(item) + 1
            place = rng.randint(first, len(program))
            program.insert(place, {"op": "wait", "work": item["work"]})


def in_group(item: Item, group: str) -> Item:
    """Name the group of a call."""
    return item if group == "world" else {**item, "group": group}


def plain(sketch: Sketch) -> None:
    """An ordinary collective or message."""
    rng, number = sketch.rng, sketch.number()
    if rng.random() < 0.4:
        message(sketch)
        return
    group, ranks = sketch.group()
    item = {"op": rng.choice(["all_reduce", "all_reduce", "all_gather", "broadcast", "reduce"])}
    item |= {"count": SMALL, "dtype": "f32"}
    if item["op"] in {"broadcast", "reduce"}:
        item["root"] = rng.choice(ranks)
    later = rng.random() < 0.3
    for rank in ranks:
        sketch.put(rank, sketch.label(in_group(item, group), f"t{number}"), later * f"h{number}")


def message(sketch: Sketch, *, modes: bool = False, drops: bool = False) -> None:
    """A message between two ranks."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group(2)
    source, target = rng.sample(ranks, 2)
    item = in_group({"count": rng.choice([SMALL, SMALL, LARGE]), "dtype": "f32"}, group)
    if rng.random() < 0.2:
        item["tag"] = 1
    for rank, peer, op in ((source, target, "send"), (target, source, "recv")):
        own = sketch.label({"op": op, "peer": peer, **item}, f"m{number}")
        if modes and op == "send":
            own["mode"] = rng.choice(MODES)
        dropped = drops and rng.random() < 0.5
        later = dropped or rng.random() < 0.4
        sketch.put(rank, own, later * f"h{number}")
        if dropped:
            sketch.programs[rank].append({"op": "drop", "work": f"h{number}"})


def head_to_head(sketch: Sketch) -> None:
    """Two ranks that send to each other before they receive, in any mode."""
    rng = sketch.rng
    group, ranks = sketch.group(2)
    pair = rng.sample(ranks, 2)
    for rank, peer in (pair, pair[::-1]):
        item = in_group({"peer": peer, "count": rng.choice([SMALL, LARGE]), "dtype": "f32"}, group)
        modes = {"mode": rng.choice(MODES)} if rng.random() < 0.8 else {}
        sketch.put(rank, {"op": "send", **item, **modes})
        sketch.put(rank, {"op": "recv", **item, "count": LARGE})


def coalesced(sketch: Sketch) -> None:
    """A coalesced call whose parts have labels, in an order that may differ by rank."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group()
    names = [f"p{number}{letter}" for letter in "abc"[: rng.choice([1, 2, 2, 3])]]
    kind = rng.choice(["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"])
    later = rng.random() < 0.4
    for rank in ranks:
        own = rng.sample(names, len(names)) if rng.random() < 0.15 else list(names)
        parts: list[Item] = [{"count": 1, "dtype": "f32"} for _ in own]
        for part, name in zip(parts, own, strict=True):
            if rng.random() < 0.9:
                part["label"] = name
        item = in_group({"op": "coalesced", "kind": kind, "ops": parts}, group)
        sketch.put(rank, sketch.label(item, f"c{number}"), later * f"h{number}")


def splits(sketch: Sketch) -> None:
    """A v-collective: what each sends is what the others expect, unless a number slips."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group(2)
    op = rng.choice(["gather", "scatter", "all_gather", "reduce_scatter", "all_to_all_single"])
    table = [[rng.randint(0, 3) for _ in ranks] for _ in ranks]
    counts = [rng.randint(1, 3) for _ in ranks]
    root = rng.choice(ranks)
    slip = rng.random() < 0.3
    for place, rank in enumerate(ranks):
        item: Item = {"op": op, "count": counts[place], "dtype": "i32"}
        if op in {"gather", "scatter"}:
            item["root"] = root
        field = "in_splits" if op in {"scatter", "reduce_scatter"} else "out_splits"
        if op == "all_to_all_single":
            own, theirs = list(table[place]), [row[place] for row in table]
            item |= {"in_splits": own, "out_splits": theirs, "count": sum(own)}
        elif rank == root or op in {"all_gather", "reduce_scatter"}:
            item[field] = list(counts)
        named = [name for name in ("in_splits", "out_splits") if name in item]
        if slip and named and rng.random() < 0.6:
            item[rng.choice(named)][rng.randrange(len(ranks))] += 1
        if rng.random() < 0.08:
            item.pop(rng.choice([*named, "count"]), None)
            if "count" not in item:
                del item["dtype"]
        sketch.put(rank, sketch.label(in_group(item, group), f"v{number}"))


def batch(sketch: Sketch) -> None:
    """A batch of calls on several communicators, and of messages, in an order that may differ."""
    rng, number = sketch.rng, sketch.number()
    every = {"world": list(range(sketch.world)), **sketch.groups}
    names = [rng.choice(list(every)) for _ in range(rng.choice([1, 2, 2, 3]))]
    source, target = rng.sample(range(sketch.world), 2)
    size = {"count": 1, "dtype": "f32"}
    order = [*enumerate(names), (9, "")]
    for rank in range(sketch.world):
        own = rng.sample(order, len(order)) if rng.random() < 0.3 else order
        ops: list[Item] = []
        for place, name in own:
            if name and rank in every[name]:
                item = in_group({"op": "all_reduce", **size}, name)
                ops.append(sketch.label(item, f"b{number}{place}"))
            elif not name and rank in (source, target):
                op, peer = ("isend", target) if rank == source else ("irecv", source)
                ops.append({"op": op, "peer": peer, **size})
        if ops and rng.random() < 0.15:
            for item in ops:
                item["op"] = item["op"].removeprefix("i")
                sketch.put(rank, item)
        elif ops:
            sketch.put(rank, {"op": "batch", "ops": ops}, (rng.random() < 0.3) * f"h{number}")


def probe(sketch: Sketch) -> None:
    """A look for a message, before its receive, behind it, or for one that nobody sends."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group(2)
    source, target = rng.sample(ranks, 2)
    item = in_group({"count": 1, "dtype": "f32"}, group)
    tag = {"tag": 1} if rng.random() < 0.3 else {}
    sketch.put(source, {"op": "send", "peer": target, **item, **tag})
    look: Item = in_group({"op": "probe", "peer": rng.choice([source, source, "any"])}, group)
    look |= tag if rng.random() < 0.7 else {"tag": rng.choice([0, 1, "any"])}
    take = {"op": "recv", "peer": rng.choice([source, source, "any"]), **item, **tag}
    both = [look, take] if rng.random() < 0.8 else [take, look]
    for own in both:
        sketch.put(target, own, (own is take and rng.random() < 0.2) * f"h{number}")


def drop(sketch: Sketch) -> None:
    """A message of which a handle dies."""
    message(sketch, drops=True)


def mode(sketch: Sketch) -> None:
    """A message in a mode of MPI, or two that meet head to head."""
    if sketch.rng.random() < 0.5:
        message(sketch, modes=True)
    else:
        head_to_head(sketch)


def choice(sketch: Sketch) -> None:
    """A branch whose name may differ by rank, in a loop or not, with the iteration or not."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group(2)
    names = [rng.choice(["c", "d", "c{i}"])] * len(ranks)
    if rng.random() < 0.4:
        names = [rng.choice(["c", "c", "d", "c{i}"]) for _ in ranks]
    uniform = rng.random() < 0.75
    times = rng.choice([0, 0, 1, 2])
    call = in_group({"op": rng.choice(["all_reduce", "barrier"])}, group)
    if call["op"] != "barrier":
        call |= {"count": 1, "dtype": "f32"}
    flipped = rng.random() < 0.5
    for rank, name in zip(ranks, names, strict=True):
        mine = sketch.label(call, f"k{number}") if call["op"] != "barrier" else dict(call)
        branches: list[list[Item]] = [[mine], []]
        if flipped or rng.random() < 0.1:
            branches.reverse()
        found: Item = {"op": "choice", "name": name, "branches": branches}
        if uniform and rng.random() < 0.95:
            found["uniform"] = True
        if times:
            found = {"op": "repeat", "times": times, "body": [found]}
        sketch.put(rank, found)


def own_message(sketch: Sketch) -> None:
    """A message of a rank to itself: in a batch, or nonblocking, or as it must not be."""
    rng, number = sketch.rng, sketch.number()
    rank = rng.randrange(sketch.world)
    size = {"peer": rank, "count": rng.choice([SMALL, LARGE]), "dtype": "f32"}
    give, take = {"op": "isend", **size}, {"op": "irecv", **size}
    if rng.random() < 0.1:
        take["count"] = 2
    both = [give, take] if rng.random() < 0.6 else [take, give]
    pick = rng.random()
    if pick < 0.5:
        sketch.put(rank, {"op": "batch", "ops": both})
    elif pick < 0.6:
        sketch.put(rank, {"op": "batch", "ops": both[:1]})
        sketch.put(rank, {"op": "batch", "ops": both[1:]})
    else:
        for place, item in enumerate(both):
            later = rng.random() < (0.7, 0.4)[place]
            plainly = {**item, "op": item["op"][1:]}
            sketch.put(rank, item if later else plainly, later * f"h{number}{place}")


def added(sketch: Sketch) -> None:
    """A call of an operation that is registered."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group()
    item: Item = {"op": rng.choice(["oracle_shift", "oracle_deal", "oracle_collect"])}
    if item["op"] == "oracle_deal":
        item["root"] = rng.choice(ranks)
    later = rng.random() < 0.2
    for rank in ranks:
        own = {**item, "count": 1, "dtype": "f32"}
        pick = rng.random()
        if pick < 0.15:
            own["count"] = 2
        elif pick < 0.2:
            own["dtype"] = "f16"
        elif pick < 0.25 and "root" in own:
            own["root"] = rng.choice(ranks)
        if item["op"] == "oracle_collect" and rng.random() < 0.3:
            own["op"] = "all_gather"
        sketch.put(rank, sketch.label(in_group(own, group), f"x{number}"), later * f"h{number}")


def prefix(sketch: Sketch) -> None:
    """A scan, of MPI only."""
    rng, number = sketch.rng, sketch.number()
    group, ranks = sketch.group()
    item = {"op": rng.choice(["scan", "exscan"]), "count": 1, "dtype": "f32"}
    for rank in ranks:
        own = {**item, "reduce_op": "max"} if rng.random() < 0.1 else item
        sketch.put(rank, sketch.label(in_group(own, group), f"s{number}"))


def prefix_or_plain(sketch: Sketch) -> None:
    """A scan or an ordinary call."""
    (prefix if sketch.rng.random() < 0.5 else plain)(sketch)
