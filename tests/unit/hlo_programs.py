"""Random programs of XLA, as text and as plans: what XLA's rules say that each device does.

The rules are those of XLA's documentation, written down anew: what an id of a group means
(``CollectiveOpGroupMode``), and that collectives of two channels are two collectives, whatever they
are called. Nothing is shared with the adapter that reads the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

ADD = """%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

"""
ROWS = (48, 96)
"""Elements of the arrays that travel; each divides among any of the groups."""
PLAIN = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather_into_tensor",
    "reduce-scatter": "reduce_scatter_tensor",
    "all-to-all": "all_to_all_single",
    "collective-broadcast": "broadcast",
}
FLAT = ("all-reduce", "all-gather", "reduce-scatter")


@dataclass(frozen=True)
class Call:
    """A collective, or a permute with ``pairs``."""

    name: str
    opcode: str
    rows: int
    channel: int = 0
    is_global: bool = False
    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Branch:
    """A conditional: on the partition (``below``), or on data (None)."""

    name: str
    below: int | None
    arms: tuple[tuple[Call, ...], tuple[Call, ...]]


@dataclass(frozen=True)
class Source:
    """A program of ``replicas`` times ``partitions`` devices."""

    replicas: int
    partitions: int
    items: tuple[Call | Branch, ...]

    @property
    def devices(self) -> int:
        """How many devices run it."""
        return self.replicas * self.partitions


# --- making them ---------------------------------------------------------------------------------


def source(rng: random.Random, *, channels: int = 3) -> Source:
    """Return a random program of two to four devices."""
    replicas, partitions = rng.choice([(1, 2), (1, 4), (2, 2), (4, 1), (2, 1), (1, 3)])
    items: list[Call | Branch] = []
    for at in range(rng.randint(1, 4)):
        if rng.random() < 0.35:
            below = rng.randrange(partitions + 1) if rng.random() < 0.5 else None
            first = tuple(
                _call(rng, f"b{at}x{n}", replicas, partitions, channels) for n in range(2)
            )
            other = tuple(
                _varied(rng, call, f"c{at}x{n}", channels) for n, call in enumerate(first)
            )
            if rng.random() < 0.2:
                other = other[::-1]
            arms = (first[: rng.randint(0, 2)], other[: rng.randint(0, 2)])
            if rng.random() < 0.7:
                arms = (first, other)
            items.append(Branch(f"cond{at}", below, arms))
        else:
            items.append(_call(rng, f"call{at}", replicas, partitions, channels))
    return Source(replicas, partitions, tuple(items))


def _call(rng: random.Random, name: str, replicas: int, partitions: int, channels: int) -> Call:
    channel = rng.randint(1, channels) if rng.random() < 0.7 else 0
    if rng.random() < 0.2:
        ids = list(range(partitions if channel else replicas))
        targets = rng.sample(ids, len(ids))
        pairs = tuple((s, t) for s, t in zip(ids, targets, strict=True) if rng.random() < 0.8)
        return Call(name, "collective-permute", rng.choice(ROWS), channel, pairs=pairs)
    opcode = rng.choice(("all-reduce",) * 3 + tuple(PLAIN))
    is_global = bool(channel) and opcode in FLAT and rng.random() < 0.6
    if is_global:
        count = replicas * partitions
    else:
        count = partitions if channel and opcode not in FLAT else replicas
    return Call(name, opcode, rng.choice(ROWS), channel, is_global, _groups(rng, count))


def _groups(rng: random.Random, count: int) -> tuple[tuple[int, ...], ...]:
    ids = list(range(count)) if rng.random() < 0.7 else rng.sample(range(count), count)
    width = rng.choice([w for w in range(1, count + 1) if count % w == 0])
    return tuple(tuple(ids[at : at + width]) for at in range(0, count, width))


def _varied(rng: random.Random, call: Call, name: str, channels: int) -> Call:
    """Return a call with one thing changed, or none."""
    made = {**call.__dict__, "name": name}
    roll = rng.random()
    if roll < 0.25 and call.channel:
        made["channel"] = rng.randint(1, channels)
    elif roll < 0.35:
        made["rows"] = rng.choice(ROWS)
    elif roll < 0.45 and call.pairs:
        made["pairs"] = tuple((t, s) for s, t in call.pairs)
    elif roll < 0.5 and call.groups:
        made["groups"] = _groups(rng, sum(map(len, call.groups)))
    return Call(**made)


def edited(rng: random.Random, program: Source, channels: int = 3) -> Source:
    """Return the program that another process compiled: one call is another one."""
    items = list(program.items)
    plain = [at for at, item in enumerate(items) if isinstance(item, Call)]
    if plain:
        at = rng.choice(plain)
        items[at] = _varied(rng, items[at], items[at].name, channels)  # type: ignore[arg-type]
        if len(plain) > 1 and rng.random() < 0.2:
            one, other = rng.sample(plain, 2)
            items[one], items[other] = items[other], items[one]
    return Source(program.replicas, program.partitions, tuple(items))


# --- as text -------------------------------------------------------------------------------------


def text(program: Source) -> str:
    """Return HLO of a program, as XLA prints it behind its scheduler."""
    before, body = [ADD], []
    for item in program.items:
        if isinstance(item, Call):
            body += _lines(program, item)
            continue
        for arm, calls in zip("tf", item.arms, strict=True):
            inner = "\n".join(f"  {line}" for call in calls for line in _lines(program, call))
            before.append(
                f"%{item.name}{arm} (q48: f32[48]) -> f32[48] {{\n"
                "  %a48 = f32[48]{0} parameter(0)\n"
                f"{_other('a48')}\n{inner}\n"
                f"  ROOT %r{item.name}{arm} = f32[48]{{0}} copy(%a48)\n}}\n\n"
            )
        if item.below is None:
            body.append(f"%p{item.name} = pred[] get-tuple-element(%data), index=0")
        else:
            body += [
                f"%i{item.name} = u32[] partition-id()",
                f"%k{item.name} = u32[] constant({item.below})",
                f"%p{item.name} = pred[] compare(%i{item.name}, %k{item.name}), direction=LT",
            ]
        body.append(
            f"%{item.name} = f32[48]{{0}} conditional(%p{item.name}, %a48, %a48), "
            f"true_computation=%{item.name}t, false_computation=%{item.name}f"
        )
    counts = f"replica_count={program.replicas}, num_partitions={program.partitions}"
    lines = "\n".join(f"  {line}" for line in body)
    return (
        f"HloModule m, is_scheduled=true, {counts}\n\n{''.join(before)}"
        "ENTRY %main (a: f32[48], d: (pred[])) -> f32[48] {\n"
        "  %a48 = f32[48]{0} parameter(0)\n  %data = (pred[]) parameter(1)\n"
        f"{_other('a48')}\n{lines}\n  ROOT %done = f32[48]{{0}} copy(%a48)\n}}\n"
    )


def _other(name: str) -> str:
    return f"  %a96 = f32[96]{{0}} concatenate(%{name}, %{name}), dimensions={{0}}"


def _lines(program: Source, call: Call) -> list[str]:
    channel = f", channel_id={call.channel}" if call.channel else ""
    operand = f"(%a{call.rows}){channel}"
    if call.opcode == "collective-permute":
        pairs = ",".join(f"{{{s},{t}}}" for s, t in call.pairs)
        line = f"%{call.name} = f32[{call.rows}]{{0}} {call.opcode}{operand}, "
        return [line + f"source_target_pairs={{{pairs}}}"]
    members = len(members_of(program, call)[0])
    rows = {"all-gather": call.rows * members, "reduce-scatter": call.rows // members}.get(
        call.opcode, call.rows
    )
    listed = ",".join("{" + ",".join(map(str, group)) + "}" for group in call.groups)
    line = f"%{call.name} = f32[{rows}]{{0}} {call.opcode}{operand}, replica_groups={{{listed}}}"
    if call.is_global:
        line += ", use_global_device_ids=true"
    if call.opcode in {"all-reduce", "reduce-scatter"}:
        line += ", to_apply=%add"
    if call.opcode in {"all-gather", "reduce-scatter", "all-to-all"}:
        line += ", dimensions={0}"
    return [line]


# --- as a plan -----------------------------------------------------------------------------------


def members_of(program: Source, call: Call) -> list[tuple[int, ...]]:
    """Return the devices of each group, by XLA's table of what the ids mean."""
    replicas, partitions = range(program.replicas), range(program.partitions)

    def device(replica: int, partition: int) -> int:
        return replica * program.partitions + partition

    if not call.channel:  # replicas, of one partition
        return [tuple(device(r, p) for r in g) for p in partitions for g in call.groups]
    if call.is_global:
        return list(call.groups)
    if call.opcode in FLAT:  # replicas, all of their partitions
        return [tuple(device(r, p) for r, p in product(g, partitions)) for g in call.groups]
    return [tuple(device(r, p) for p in g) for r in replicas for g in call.groups]


def plan(sources: list[Source], *, labels: bool = True) -> dict[str, Any]:
    """Return what every rank does; rank i runs the i-th program as its device i.

    Args:
        sources: The program of each rank; all have as many devices as there are ranks.
        labels: Say which collective each is, where it has a channel; XLA joins others by order.
    """
    groups: dict[str, Any] = {}
    ranks = {}
    for rank, program in enumerate(sources):
        body: list[Any] = []
        for item in program.items:
            if isinstance(item, Call):
                body += _action(program, item, rank, groups, labels=labels)
                continue
            arms = [
                [one for call in arm for one in _action(program, call, rank, groups, labels=labels)]
                for arm in item.arms
            ]
            if item.below is not None:
                body += arms[0 if rank % program.partitions < item.below else 1]
            elif any(arms):
                body.append({"op": "choice", "name": item.name, "uniform": False, "branches": arms})
        ranks[str(rank)] = {"actions": body}
    return {"schema": "planguard.plan/1", "world_size": len(sources), "groups": groups,
            "ranks": ranks}  # fmt: skip


def _action(
    program: Source, call: Call, rank: int, groups: dict[str, Any], *, labels: bool
) -> list[dict[str, Any]]:
    named = {"label": f"channel {call.channel}"} if labels and call.channel else {}
    if call.opcode == "collective-permute":
        return _permute(program, call, rank, groups, named)
    group = next(one for one in members_of(program, call) if rank in one)
    if len(group) == 1:
        return []
    rows = call.rows // len(group) if call.opcode == "reduce-scatter" else call.rows
    action = {
        "op": PLAIN[call.opcode], "group": _declared(groups, "", group), "count": rows,
        "dtype": "f32", **named,
    }  # fmt: skip
    if call.opcode == "collective-broadcast":
        action["root"] = group[0]
    if "reduce" in call.opcode:
        action["reduce_op"] = "sum"
    return [action]


def _permute(
    program: Source, call: Call, rank: int, groups: dict[str, Any], named: dict[str, str]
) -> list[dict[str, Any]]:
    replica, partition = divmod(rank, program.partitions)
    if call.channel:
        reach = tuple(replica * program.partitions + p for p in range(program.partitions))
        own = partition
    else:
        reach = tuple(r * program.partitions + partition for r in range(program.replicas))
        own = replica
    common = {"count": call.rows, "dtype": "f32", **named}
    ops = [{"op": "isend", "peer": reach[t], **common} for s, t in call.pairs if s == own != t]
    ops += [{"op": "irecv", "peer": reach[s], **common} for s, t in call.pairs if t == own != s]
    if not ops:
        return []
    group = _declared(groups, "p2p ", reach)
    return [{"op": "batch", "ops": [{**op, "group": group} for op in ops]}]


def _declared(groups: dict[str, Any], kind: str, ranks: tuple[int, ...]) -> str:
    name = kind + "-".join(map(str, ranks))
    groups[name] = {"ranks": list(ranks)}
    return name
