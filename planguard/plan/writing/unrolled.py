"""One program without loops: actions as plain objects, unique ids, references resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.plan import nodes as n

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.document import TensorSpec


class Unrolled:
    """A program with its loops unrolled, still for every rank that runs it.

    An id that a loop uses again without ``{i}`` gets a suffix from its second use on; references
    mean the latest, as in the loop. The id of a loop means its last action.

    Attributes:
        actions: The actions as JSON values.
        flat_ids: Id as written to the ids it became.
    """

    def __init__(self, actions: Sequence[Any], tensors: Mapping[str, TensorSpec]) -> None:
        self.flat_ids: dict[str, list[str]] = {}
        self._tensors = tensors
        self._latest: dict[str, str] = {}
        self._taken: set[str] = set()
        # Ids given before their action is reached: ``after`` may look forward in a block.
        self._prebound: dict[int, str] = {}
        self._iterations: list[int] = []
        self.actions: list[Any] = self._block(actions, None)

    def _block(self, actions: Sequence[Any], iteration: int | None) -> list[Any]:
        out: list[Any] = []
        for node in actions:
            if isinstance(node, n.Repeat):
                out += self._loop(node, iteration)
            else:
                out.append(self._one(node, iteration))
        return out

    def _loop(self, node: n.Repeat, iteration: int | None) -> list[Any]:
        out: list[Any] = []
        for inner in range(node.times):
            self._iterations.append(inner)
            out += self._block(node.body, inner)
            self._iterations.pop()
        if out and node.id is not UNSET:
            self._alias(node.id, out, iteration)
        if out and node.after is not UNSET and isinstance(out[0], dict):
            after = [self._reference(name, iteration) for name in node.after]
            out[0] = out[0] | {"after": out[0].get("after", []) + after}
        return out

    def _alias(self, name: str, out: list[Any], iteration: int | None) -> None:
        last = out[-1]
        if "id" not in last:
            last = out[-1] = last | {"id": self._define(name, iteration)}
        self._latest[_at(name, iteration)] = last["id"]

    def _define(self, name: str, iteration: int | None) -> str:
        text = _at(name, iteration)
        unique, use = text, 1
        while unique in self._taken:
            use += 1
            unique = f"{text}#{use}"
        self._taken.add(unique)
        self._latest[text] = unique
        self.flat_ids.setdefault(name, []).append(unique)
        return unique

    def _reference(self, name: str, iteration: int | None) -> str:
        text = _at(name, iteration)
        return self._latest.get(text, text)

    def _one(self, node: Any, iteration: int | None) -> dict[str, Any]:
        if isinstance(node, n.Unordered | n.Threads | n.Choice):
            return self._undecided(node, iteration)
        plain: dict[str, Any] = msgspec.to_builtins(node)
        if isinstance(node, n.Batch):
            plain["ops"] = [self._one(member, iteration) for member in node.ops]
        elif isinstance(node, n.Coalesced):
            plain["ops"] = [self._part(part, iteration) for part in plain["ops"]]
        self._size(plain)
        return self._names(node, plain, iteration)

    def _part(self, part: dict[str, Any], iteration: int | None) -> dict[str, Any]:
        if "label" in part:
            part["label"] = _at(part["label"], iteration)
        return self._size(part)

    def _names(self, node: Any, plain: dict[str, Any], iteration: int | None) -> dict[str, Any]:
        for field in ("deps", "after"):
            if field in plain:
                plain[field] = [self._reference(name, iteration) for name in plain[field]]
        if "label" in plain:
            plain["label"] = _at(plain["label"], iteration)
        if node.id is not UNSET:
            plain["id"] = self._prebound.pop(id(node), None) or self._define(node.id, iteration)
        return plain

    def _undecided(self, node: Any, iteration: int | None) -> dict[str, Any]:
        plain: dict[str, Any] = {"op": n.op_name(node)}
        for name in ("id", "label", "after", "reads", "writes", "stream", "src", "ns", "mb",
                     "stage", "phase", "name", "uniform"):  # fmt: skip
            value = getattr(node, name, UNSET)
            if value is not UNSET:
                plain[name] = msgspec.to_builtins(value)
        if isinstance(node, n.Unordered):
            self._prebind(node.body, iteration)
            body = [self._item(item, iteration) for item in node.body]
            plain["body"] = self._after_loops(node.body, body, iteration)
        elif isinstance(node, n.Threads):
            self._prebind(node.threads, iteration)
            plain["threads"] = [self._block(thread, iteration) for thread in node.threads]
        else:
            plain["branches"] = [self._block(branch, iteration) for branch in node.branches]
            if "name" in plain:
                plain["name"] = self._variable(plain["name"], iteration)
        return self._names(node, plain, iteration)

    def _variable(self, name: str, iteration: int | None) -> str:
        """Name a choice by its iterations; ``{i}`` stands for the innermost."""
        around = self._iterations[: -1 if "{i}" in name else None]
        return "@".join([_at(name, iteration), *map(str, around)])

    def _prebind(self, items: Sequence[Any], iteration: int | None) -> None:
        for item in items:
            for action in item if isinstance(item, list) else [item]:
                if action.id is UNSET:
                    continue
                if isinstance(action, n.Repeat):
                    # Known only once it is unrolled; until then not that of an earlier iteration.
                    self._latest.pop(_at(action.id, iteration), None)
                else:
                    self._prebound[id(action)] = self._define(action.id, iteration)

    def _after_loops(
        self, items: Sequence[Any], body: list[Any], iteration: int | None
    ) -> list[Any]:
        """Replace the ids of loops, which earlier items may name, by those of their ends."""
        loops = {
            _at(item.id, iteration)
            for item in items
            if isinstance(item, n.Repeat) and item.id is not UNSET
        }
        if not loops:
            return body
        return [
            [self._renamed(action, loops) for action in item]
            if isinstance(item, list)
            else self._renamed(item, loops)
            for item in body
        ]

    def _renamed(self, action: dict[str, Any], loops: set[str]) -> dict[str, Any]:
        if not loops & set(action.get("after", ())):
            return action
        after = [self._latest.get(name, name) for name in action["after"]]
        return action | {"after": after}

    def _item(self, item: Any, iteration: int | None) -> Any:
        """Return an item of an unordered block; a loop becomes a chain."""
        if isinstance(item, list):
            return self._block(item, iteration)
        if isinstance(item, n.Repeat):
            return self._loop(item, iteration)
        return self._one(item, iteration)

    def _size(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Replace a tensor or a shape by its number of elements and their type."""
        tensor = self._tensors.get(plain.get("tensor", ""))
        shape = plain.pop("shape", None) if tensor is None else tensor.shape
        if tensor is not None:
            plain["dtype"] = tensor.dtype
            del plain["tensor"]
        if shape is not None:
            count = 1
            for length in shape:
                count *= length
            plain["count"] = count
        return plain


def _at(text: str, iteration: int | None) -> str:
    return text if iteration is None else text.replace("{i}", str(iteration))
