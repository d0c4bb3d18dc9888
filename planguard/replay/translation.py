"""Actions of a plan turned into the operations of a replay script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import shorten
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import (
    BLOCKING,
    BOTH_SPLITS,
    BUILT_IN,
    DEVICE,
    HANDLES,
    LASTING,
    LIFETIME,
    MESSAGES,
    RECEIVES,
    REDUCING,
    bytes_of,
)
from planguard.replay import flat
from planguard.replay.matching import (
    Op,
    annotate,
    drops_first,
    leave_after_creation,
    take_from_anyone,
)
from planguard.replay.sizes import Scale, action_dtype, scale_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.replay.flat import Action
    from planguard.replay.selection import Selection

# Data types that gloo cannot reduce, and what is played in their place.
STAND_IN = {"i16": "f16", "bool": "u8", "f8": "u8"}
PER_MEMBER = frozenset(row.name for row in BUILT_IN if row.splits[:1] == ("in_splits",))
"""Collectives of which every member gives a part to every member, or the root does."""
_EXCHANGES = frozenset(row.name for row in BUILT_IN if row.splits == BOTH_SPLITS)
_ENDS = LASTING - HANDLES - {"init"}
WITHOUT_DATA = frozenset({"barrier", "init"})
COMMUNICATIONS = MESSAGES | flat.COLLECTIVES


class Translation:
    """Actions of the plan turned into the operations of the script.

    Args:
        plan: A flat plan.
        selection: What is played.
        places: Per rank, how the plan as written numbers its actions; None when it is this one.
    """

    def __init__(
        self,
        plan: Mapping[str, Any],
        selection: Selection,
        places: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.tensors = plan.get("tensors", {})
        self.groups = selection.groups
        self.process = {rank: number for number, rank in enumerate(selection.ranks)}
        self.selection = selection
        self.scale = self._scale()
        self.stand_ins: set[str] = set()
        self.serial = 1
        self.loose = False
        pairs = zip(selection.ranks, selection.programs, strict=True)
        self.programs = [
            self._program(program, None if places is None else places[rank])
            for rank, program in pairs
        ]
        annotate([list(_communications(program)) for program in self.programs], self.groups)
        self._guess_unknown_sizes()
        drops_first(self.programs)
        leave_after_creation(self.programs)
        take_from_anyone(self.programs)
        self._uncheck_races(plan)
        self.programs = [
            self._in_threads(plan, rank, program)
            for rank, program in zip(selection.ranks, self.programs, strict=True)
        ]

    def _scale(self) -> Scale:
        """Choose one scale for all sizes, by the memory that all processes need together."""
        sizes: list[int] = []
        buffers = 0
        for program in self.selection.programs:
            alive = 0
            for _, action in program:
                for op in _leaves(action):
                    need = len(self.groups[op.get("group", "world")]) + 1
                    sizes += self._sizes(op)
                    if _lasts(action):
                        buffers += need if op["op"] not in MESSAGES else 1
                    alive = max(alive, need)
            buffers += alive
        return scale_sizes(sizes, buffers)

    def _sizes(self, op: Action) -> list[int]:
        """Return every size of a communication in bytes, as the plan has it."""
        if op["op"] in _EXCHANGES:
            return [*self._splits(op, "in_splits"), *self._splits(op, "out_splits")]
        size = bytes_of(op, self.tensors, dtype="f32")
        return [] if size is None else [size]

    def _splits(self, op: Action, field: str) -> list[int]:
        """Return the chunk sizes of an all-to-all in bytes; without splits, equal shares."""
        group = op.get("group", "world")
        size = bytes_of(op, self.tensors, dtype="f32") or 0
        splits = op.get(field)
        seats = self.selection.seats[group]
        if splits is None:
            return [size // self.selection.sizes[group]] * len(seats)
        dtype = action_dtype(op, self.tensors)
        width = element_width(dtype, size, sum(splits))
        return [splits[seat] * width for seat in seats]

    def _program(
        self, program: Sequence[tuple[int, Action]], places: Sequence[int] | None
    ) -> list[Op]:
        self.bound: set[str] = set()
        self.ids: set[str] = set()
        needed = {name for _, action in program for name in action.get("deps", ())}
        found = []
        for at, action in program:
            op = self.action(at, action)
            if places is not None and places[at] != at:
                for each in (op, *op.get("ops", ())):
                    each["place"] = places[at]
            found.append(op)
            if action["op"] not in HANDLES and "work" in action:
                self.bound.add(action["work"])
            is_communication = action["op"] in COMMUNICATIONS | {"batch"}
            if is_communication and action.get("id") in needed:
                op["id"] = action["id"]
                self.ids.add(action["id"])
        return found

    def _uncheck_races(self, plan: Mapping[str, Any]) -> None:
        """Do not judge the data of groups that host threads use: who meets whom is up to them."""
        raced: set[str] = set()
        for rank in self.selection.ranks:
            for item in plan["ranks"][str(rank)]["actions"]:
                if not isinstance(item, list) and item["op"] == "threads":
                    issued = flat.flat_actions(item["threads"])
                    raced |= {op.get("group", "world") for a in issued for op in flat.inner(a)}
        for program in self.programs:
            for op in _communications(program):
                if op.get("group") in raced and "label" not in op:
                    for each in (op, *op.get("ops", ())):
                        each["unchecked"] = True

    def _in_threads(self, plan: Mapping[str, Any], rank: int, program: list[Op]) -> list[Op]:
        """Put the operations of host threads back into their threads."""
        by_place = {op["at"]: op for op in program}
        count = 0

        def placed(items: list[Any]) -> list[Op]:
            nonlocal count
            found: list[Op] = []
            for item in items:
                if isinstance(item, list):
                    found += placed(item)
                elif item["op"] == "threads":
                    threads = [placed(thread) for thread in item["threads"]]
                    found.append({"at": -1, "op": "threads", "threads": threads})
                elif item["op"] == "unordered":
                    found += placed(item["body"])
                else:
                    if count in by_place:
                        found.append(by_place[count])
                    count += 1
            return found

        actions = plan["ranks"][str(rank)]["actions"]
        if not any(not isinstance(a, list) and a["op"] == "threads" for a in actions):
            return program
        return placed(actions)

    def _handles(self, action: Action) -> list[str]:
        """Return the handles an action names; a witness may have left out what starts them."""
        works = action["work"] if isinstance(action["work"], list) else [action["work"]]
        played = [work for work in works if work in self.bound]
        self.loose = self.loose or len(played) < len(works)
        return played

    def action(self, at: int, action: Action) -> Op:
        """Translate one action of a rank program."""
        name = action["op"]
        text = describe(action)
        op: Op
        needed = [dep for dep in action.get("deps", ()) if dep in self.ids]
        if name == "compute" and needed:
            return {"at": at, "text": text, "op": "look", "name": name, "ids": needed}
        if name in DEVICE:
            return {"at": at, "text": text, "op": "nothing", "name": name}
        if name == "batch":
            inner = [self.operation(at, member) for member in action["ops"]]
            for number, member in enumerate(inner):
                member.update({"member": number, "async": True})
            op = {"at": at, "text": text, "op": name, "ops": inner}
            return _with_handle(op, action, asynchronous="work" in action)
        if name in HANDLES:
            op = {"at": at, "text": text, "op": name, "works": self._handles(action)}
            if name == "wait" and action.get("mode", "all") != "all":
                op["first"] = True
            return op
        if name in _ENDS:
            return {"at": at, "text": text, "op": name, **_group(action)}
        op = {"at": at, "text": text, **self.operation(at, action)}
        if op["op"] != name:
            op["name"] = name
        if name == "coalesced":
            op["ops"] = self._coalesced(at, action)
            op["serial"] = op["ops"][0]["serial"] if op["ops"] else 0
        buffered = name == "send" and action.get("mode") == "buffered"
        waits = name not in BLOCKING and not action.get("async") and not buffered
        return _with_handle(op, action, asynchronous=not waits)

    def _coalesced(self, at: int, action: Action) -> list[Op]:
        shared: Action = {key: action[key] for key in ("group", "reduce_op") if key in action}
        found = []
        for number, tensor in enumerate(action["ops"]):
            member = self.operation(at, {**tensor, **shared, "op": action["kind"]})
            found.append({**member, "member": number})
        return found

    def operation(self, at: int, action: Action) -> Op:
        """Translate one communication, without its handle."""
        name = action["op"]
        op: Op = {"at": at, "op": name, "group": action.get("group", "world")}
        if name in MESSAGES:
            op["op"] = name.removeprefix("i")
            op["peer"] = None if action["peer"] == "any" else self.process[action["peer"]]
            if action.get("tag"):
                op["tag"] = action["tag"]
            op |= {key: action[key] for key in ("x-tag", "x-anyone") if key in action}
        if "label" in action:
            op["label"] = action["label"]
        if name == "coalesced":
            return {**op, "kind": action["kind"]}
        if name in WITHOUT_DATA:
            return {**op, "op": "barrier"}
        if "root" in action:
            op["root"] = self.process[action["root"]]
        if name in REDUCING and action.get("reduce_op", "sum") != "sum":
            op["reduce_op"] = (
                "sum" if action["reduce_op"] in ("avg", "premul_sum") else action["reduce_op"]
            )
        self._data(op, action)
        return op

    def _data(self, op: Op, action: Action) -> None:
        """Add size, data type and serial number."""
        name = action["op"]
        size = bytes_of(action, self.tensors, dtype="f32")
        if name in _EXCHANGES:
            op["ins"] = [self.scale(n) for n in self._splits(action, "in_splits")]
            op["outs"] = [self.scale(n) for n in self._splits(action, "out_splits")]
            op["nbytes"] = sum(op["ins"])
        else:
            op["nbytes"] = None if size is None else self.scale(size)
        dtype = action_dtype(action, self.tensors)
        if dtype is not None:
            op["dtype"] = dtype
        if name in REDUCING:  # the others copy bytes, and gloo compares bytes only
            played = dtype or ("f32" if (size or 4) % 4 == 0 else "u8")
            op["torch"] = STAND_IN.get(played, played)
            if played in STAND_IN:
                self.stand_ins.add(played)
        if name in RECEIVES:
            return
        members = len(self.groups[op["group"]])
        op["serial"] = self.serial
        if name in PER_MEMBER:
            op["width"] = members
        self.serial += op.get("width", 1)

    def _guess_unknown_sizes(self) -> None:
        """Give actions without a size that of the action they meet, else four bytes."""
        known: dict[int, int] = {}
        everything = [op for program in self.programs for op in _data_operations(program)]
        for op in everything:
            if op.get("nbytes") is not None:
                for serial in (op.get("serial"), op.get("expect")):
                    if isinstance(serial, int):
                        known.setdefault(serial, op["nbytes"])
        for op in everything:
            if "nbytes" in op and op["nbytes"] is None:
                expect = op.get("expect")
                partners = expect if isinstance(expect, list) else [expect, op.get("serial")]
                op["nbytes"] = next((known[s] for s in partners if s in known), 4)

    def notes(self) -> tuple[str, ...]:
        """Say what the replay does differently from the plan."""
        found = []
        if self.scale.divisor > 1:
            found.append(f"Sizes are played about {self.scale.divisor:,} times smaller.")
        found += [
            f"gloo cannot reduce {dtype}; {STAND_IN[dtype]} stands in for it."
            for dtype in sorted(self.stand_ins)
        ]
        if self.loose:
            found.append("Waits for handles that the witness leaves out are passed over.")
        if self.selection.idle:
            found.append(_idle_note(self.selection.idle))
        if self.selection.folded:
            found.append(
                f"{self.selection.folded} more members of the groups are not needed and left out."
            )
        return tuple(found)


def _idle_note(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]} only completes the groups; it issues nothing."
    shown = ", ".join(map(str, ranks[:16])) + (", ..." if len(ranks) > 16 else "")
    return f"Ranks {shown} only complete the groups; they issue nothing."


def element_width(dtype: str | None, size: int, count: int) -> int:
    """Return the bytes per element that splits count in."""
    if dtype is not None:
        return ITEM_BYTES[dtype]
    return max(1, size // count) if count else 1


def _group(action: Action) -> dict[str, str]:
    return {"group": action.get("group", "world")} if action["op"] != "exit" else {}


def _with_handle(op: Op, action: Action, *, asynchronous: bool) -> Op:
    """Add what decides whether the host waits at once: ``work`` and ``async``."""
    if "work" in action:
        op["work"] = action["work"]
    if asynchronous:
        op["async"] = True
    return op


def _lasts(action: Action) -> bool:
    return bool(action.get("async")) or action["op"] in BLOCKING or action["op"] == "batch"


def _leaves(action: Action) -> Iterator[Action]:
    """Yield the communications with data of one action of the plan."""
    if action["op"] == "coalesced":
        shared = {"op": action["kind"], "group": action.get("group", "world")}
        for tensor in action["ops"]:
            yield {**tensor, **shared}
        return
    for op in flat.inner(action):
        if op["op"] in COMMUNICATIONS - WITHOUT_DATA:
            yield op


def _communications(program: list[Op]) -> Iterator[Op]:
    """Yield what is matched: batch members one by one, a coalesced collective as one."""
    for op in program:
        if op["op"] == "batch":
            yield from op["ops"]
        elif op["op"] in COMMUNICATIONS:
            yield op


def _data_operations(program: list[Op]) -> Iterator[Op]:
    for op in _communications(program):
        yield from op.get("ops", (op,))


def describe(action: Action) -> str:
    """Render an action in one line, as in a finding: ``send -> 6  act_s1_s2  4.00 MiB f16``."""
    name = action["op"]
    if name == "batch":
        return f"batch({', '.join(describe(member) for member in action['ops'][:4])})"
    text = f"{name}({action['kind']})" if name == "coalesced" else name
    if name in MESSAGES:
        text += f" {'->' if name.endswith('send') else '<-'} {action['peer']}"
    elif name in flat.COLLECTIVES | LIFETIME:
        text += f" on {action.get('group', 'world')}"
    elif "work" in action:
        works = action["work"] if isinstance(action["work"], list) else [action["work"]]
        text += f" {' '.join(map(str, works[:4]))}"
    if "root" in action:
        text += f" root {action['root']}"
    if "label" in action:
        text += f"  {action['label']}"
    return shorten(text, 100)
