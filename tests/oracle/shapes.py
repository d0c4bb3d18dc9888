"""Random plans, one shape for each thing that the shapes of the other generators leave out.

Each starts from pieces that match; what is put around them, or left out, is the shape. Not all are
valid: the door has to say so.
"""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

from oracle import pieces
from oracle.combined import block_of, chains_of
from oracle.opened import programs
from oracle.pieces import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable

Item = dict[str, Any]


def _sketch(
    rng: random.Random, *own: Callable[[Sketch], None], worlds: tuple[int, ...] = (2, 2, 3)
) -> Item:
    """Give a plan of one to three pieces, at least one of `own`, all waited for."""
    sketch = Sketch(rng, worlds)
    chosen = [rng.choice(own)]
    chosen += [rng.choice([*own, pieces.plain]) for _ in range(rng.choice([0, 1, 1, 2]))]
    for piece in rng.sample(chosen, len(chosen)):
        piece(sketch)
    pieces.settle(sketch)
    document = sketch.document()
    if rng.random() < 0.35:
        careless(document, rng)
    return document


def careless(document: Item, rng: random.Random) -> None:
    """Leave out, repeat or swap an action somewhere, or change its size or its label."""
    lists = [one for program in programs(document) for one in chains_of(program) if one]
    if not lists:
        return
    chain = rng.choice(lists)
    at = rng.randrange(len(chain))
    pick = rng.random()
    if pick < 0.3:
        del chain[at]
    elif pick < 0.6 and len(chain) > 1:
        other = rng.randrange(len(chain))
        chain[at], chain[other] = chain[other], chain[at]
    elif pick < 0.7 and isinstance(chain[at], dict):
        twin = copy.deepcopy(chain[at])
        for name in ("work", "id"):
            twin.pop(name, None)
        chain.insert(at, twin)
    elif isinstance(chain[at], dict):
        item = chain[at]
        for name in ("count", "label"):
            if name in item and rng.random() < 0.5:
                item[name] += item[name]


def _wrapped(document: Item, rng: random.Random, *kinds: str, most: int = 2) -> Item:
    """Put stretches of programs into blocks of some kinds."""
    for program in programs(document):
        for _ in range(rng.randint(0, most)):
            block_of(rng.choice(list(chains_of(program))), rng, kinds)
    return document


def parts(rng: random.Random) -> Item:
    """Labels of parts of coalesced calls."""
    return _sketch(rng, pieces.coalesced)


def exits(rng: random.Random) -> Item:
    """A rank that ends anywhere, in any block."""
    document = _sketch(rng, pieces.plain)
    _wrapped(document, rng, "unordered", "threads", "choice", "repeat")
    for program in programs(document):
        if rng.random() < 0.6:
            chain = rng.choice(list(chains_of(program)))
            chain.insert(rng.randint(0, len(chain)), {"op": "exit"})
            if rng.random() < 0.3:
                block_of(program, rng, ("unordered", "threads", "choice"))
    return document


def names(rng: random.Random) -> Item:
    """Branches that have one name or several, on one rank or on all, in loops or not."""
    document = _sketch(rng, pieces.choice)
    if rng.random() < 0.2:
        _wrapped(document, rng, "repeat", "choice", most=1)
    return document


def splits(rng: random.Random) -> Item:
    """Splits of v-collectives."""
    return _sketch(rng, pieces.splits, worlds=(2, 3, 3))


def sizeless(rng: random.Random) -> Item:
    """Calls of which a plan does not say the size, on some ranks or on all."""
    document = _sketch(rng, pieces.plain, pieces.coalesced, pieces.head_to_head)
    everywhere = rng.random() < 0.4
    for program in programs(document):
        for item in program:
            for part in item.get("ops", [item]):
                if "count" in part and (everywhere or rng.random() < 0.5):
                    _say_less(part, rng)
    return document


def _say_less(call: Item, rng: random.Random) -> None:
    """Leave out of the size of a call its count, its type, or both."""
    count, pick = call.pop("count"), rng.random()
    if pick < 0.6:
        call.pop("dtype", None)
    elif pick < 0.8:
        call["dtype"] = rng.choice(["f32", "f32", "f32", "i32"])
    else:
        call.pop("dtype", None)
        call["bytes"] = 4 * count


def batches(rng: random.Random) -> Item:
    """Batches over several communicators."""
    return _sketch(rng, pieces.batch)


def modes(rng: random.Random) -> Item:
    """Sends in the modes of MPI."""
    return _sketch(rng, pieces.mode)


def probes(rng: random.Random) -> Item:
    """Looks for messages."""
    return _sketch(rng, pieces.probe)


def drops(rng: random.Random) -> Item:
    """Handles that die, in blocks too."""
    document = _sketch(rng, pieces.drop)
    if rng.random() < 0.3:
        _wrapped(document, rng, "unordered", "threads", "choice", most=1)
    return document


def destroys(rng: random.Random) -> Item:
    """Groups that end, behind everything or too early."""
    document = _sketch(rng, pieces.plain, pieces.batch)
    if rng.random() < 0.4:
        _wrapped(document, rng, "unordered", "threads", "choice", most=1)
    for rank, program in enumerate(programs(document)):
        every = {"world": list(range(document["world_size"]))}
        every |= {name: group["ranks"] for name, group in document["groups"].items()}
        for name, ranks in every.items():
            if rank in ranks and rng.random() < 0.6:
                chain = program if rng.random() < 0.7 else rng.choice(list(chains_of(program)))
                at = len(chain) if rng.random() < 0.7 else rng.randint(0, len(chain))
                chain.insert(at, {"op": "destroy", "group": name})
    return document


def creations(rng: random.Random) -> Item:
    """Groups that all ranks make, or only their members, in one order or two."""
    document = _sketch(rng, pieces.plain, pieces.batch, worlds=(2, 3, 4))
    declared = {name: group["ranks"] for name, group in document["groups"].items()}
    local, swapped = rng.random() < 0.3, rng.random() < 0.25
    for rank, program in enumerate(programs(document)):
        order = [name for name, ranks in declared.items() if rank in ranks or not local]
        if swapped and rng.random() < 0.5:
            order.reverse()
        if rng.random() < 0.06:
            order = order[:-1]
        made = [{"op": "new_group", "group": name} for name in order]
        if rng.random() < 0.2:
            made += [{"op": "init", "group": name} for name in order if rank in declared[name]]
        at = 0 if rng.random() < 0.85 else rng.randint(0, len(program))
        program[at:at] = made
    if rng.random() < 0.15:
        _wrapped(document, rng, "unordered", "choice", "threads", most=1)
    return document


def nested(rng: random.Random) -> Item:
    """Threads in blocks and blocks in threads."""
    document = _sketch(rng, pieces.plain)
    for program in programs(document):
        for kinds in rng.sample([("threads",), ("unordered", "choice", "repeat"), ("threads",)], 2):
            block_of(rng.choice(list(chains_of(program))), rng, kinds)
    return document


def selves(rng: random.Random) -> Item:
    """Messages of a rank to itself."""
    return _sketch(rng, pieces.own_message)


def registered(rng: random.Random) -> Item:
    """Operations that a library adds, and scans."""
    return _sketch(rng, pieces.added, pieces.added, pieces.prefix_or_plain)


PIECES = (
    pieces.plain,
    pieces.coalesced,
    pieces.splits,
    pieces.batch,
    pieces.mode,
    pieces.probe,
    pieces.drop,
    pieces.choice,
    pieces.own_message,
    pieces.added,
)


def everything(rng: random.Random) -> Item:
    """All of it in one plan."""
    document = _sketch(rng, *rng.sample(PIECES, 3))
    _wrapped(document, rng, "unordered", "threads", "choice", "repeat", most=1)
    for rank, program in enumerate(programs(document)):
        lists = list(chains_of(program))
        if rng.random() < 0.12:
            chain = rng.choice(lists)
            chain.insert(rng.randint(0, len(chain)), {"op": "exit"})
        for name, group in document["groups"].items():
            if rng.random() < 0.1:
                program.insert(0, {"op": "new_group", "group": name})
            if rank in group["ranks"] and rng.random() < 0.1:
                program.append({"op": "destroy", "group": name})
        for chain in lists:
            for item in chain:
                if "count" in item and "in_splits" not in item and rng.random() < 0.05:
                    del item["count"]
                    item.pop("dtype", None)
    return document


SHAPES: dict[str, Callable[[random.Random], Item]] = {
    shape.__name__: shape
    for shape in (
        parts,
        exits,
        names,
        splits,
        sizeless,
        batches,
        modes,
        probes,
        drops,
        destroys,
        creations,
        nested,
        selves,
        registered,
        everything,
    )
}


def shaped(shape: str, seed: int) -> Item:
    """Give the plan of a shape and a seed: the same seed always gives the same plan."""
    return SHAPES[shape](random.Random(f"{shape} {seed}"))
