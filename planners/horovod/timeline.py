"""Read a Horovod timeline: which rank was ready for which tensor, and what was carried out.

The file is a Chrome trace that rank 0 writes (``HOROVOD_TIMELINE``). A tensor is a "process" with a
name; ``NEGOTIATE_<KIND>`` encloses one tick per rank that reported it, ``<KIND>`` what was done,
and its end names dtype and shape. Responses from the cache have no ticks: what was carried out was
reported by all ranks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..common.module import ITEM_BYTES

if TYPE_CHECKING:
    from ..common.reading import At

_SHAPE = re.compile(r"\[\s*(\d{1,12}(?:\s*,\s*\d{1,12})*)?\s*\]")
KINDS = ("ALLREDUCE", "BROADCAST", "ALLGATHER", "REDUCESCATTER", "ALLTOALL", "ADASUM", "BARRIER")


@dataclass
class Round:
    """One negotiation of one tensor.

    Attributes:
        kind: ``ALLREDUCE``, ``BROADCAST``, ...
        place: Number of the event in the file that began it.
        ranks: Ranks that reported the tensor.
        done: Whether the operation was carried out.
    """

    kind: str
    place: int
    ranks: set[int] = field(default_factory=set)
    done: bool = False


@dataclass
class Tensor:
    """A tensor of the timeline and its rounds.

    Attributes:
        name: Its name.
        dtype: torch's name of its dtype, empty when the file does not say.
        count: Number of elements, None when the file does not say.
        rounds: Its negotiations, in order.
    """

    name: str
    dtype: str = ""
    count: int | None = None
    rounds: list[Round] = field(default_factory=list)


def looks_like_timeline(document: object) -> bool:
    """Tell whether a JSON document begins like a timeline."""
    if not isinstance(document, list) or not document:
        return False
    return any(isinstance(e, dict) and _is_negotiation(e.get("name")) for e in document[:200])


def _is_negotiation(name: object) -> bool:
    return isinstance(name, str) and name.startswith("NEGOTIATE_")


def read_timeline(at: At) -> list[Tensor]:
    """Return the tensors of a timeline.

    Raises:
        PlanError: An event is malformed or does not fit the ones before it; the message names it.
    """
    names: dict[int, str] = {}
    tensors: dict[int, Tensor] = {}
    open_: dict[int, list[str]] = {}
    for place, event in enumerate(at.each()):
        if not isinstance(event.value, dict):
            event.fail("an event of a timeline is an object")
        entry: dict[str, Any] = event.value
        phase, pid = entry.get("ph"), entry.get("pid", 0)
        if not isinstance(phase, str) or isinstance(pid, bool) or not isinstance(pid, int):
            event.fail("an event has a phase `ph` and a number `pid`")
        if phase == "M":
            given = entry.get("args")
            if entry.get("name") == "process_name" and isinstance(given, dict) and "name" in given:
                if not isinstance(given["name"], str) or pid in names:
                    event.fail("a tensor is named twice, or by something that is no text")
                names[pid] = given["name"]
            continue
        if phase in {"i", "I"}:
            continue
        if pid not in names:
            event.fail("an event of a tensor without a name")
        tensor = tensors.setdefault(pid, Tensor(names[pid]))
        _step(event, entry, tensor, open_.setdefault(pid, []), place)
    return [tensor for tensor in tensors.values() if tensor.rounds]


def _step(event: At, entry: dict[str, Any], tensor: Tensor, stack: list[str], place: int) -> None:
    phase, name = entry["ph"], entry.get("name")
    if phase == "B":
        if not isinstance(name, str):
            event.fail("an operation has a name")
        if _is_negotiation(name):
            kind = name.removeprefix("NEGOTIATE_")
            if kind not in KINDS:
                event.fail("an operation that is not known", hint=f"known: {', '.join(KINDS)}")
            tensor.rounds.append(Round(kind, place))
        elif name in KINDS and not stack and tensor.rounds:
            tensor.rounds[-1].done = True
        stack.append(name)
    elif phase == "X" and stack and _is_negotiation(stack[-1]):
        if not isinstance(name, str) or not name.isdigit() or len(name) > 7:
            event.fail("a tick inside a negotiation names a rank")
        tensor.rounds[-1].ranks.add(int(name))
    elif phase == "E":
        if not stack:
            event.fail("an operation ends that never began")
        if stack.pop() in KINDS:
            _size(event, entry, tensor)


def _size(event: At, entry: dict[str, Any], tensor: Tensor) -> None:
    given = entry.get("args")
    if not isinstance(given, dict) or "shape" not in given:
        return
    shape, dtype = given["shape"], given.get("dtype")
    if not isinstance(shape, str) or not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        event.fail("the end of an operation names a dtype and a shape")
    found = _SHAPE.fullmatch(shape.strip())
    if found is None:
        event.fail("a shape is a list of numbers", hint="for example [64, 3, 7, 7]")
    count = 1
    for size in (found.group(1) or "").split(","):
        count *= int(size) if size.strip() else 1
    tensor.dtype, tensor.count = dtype, count
