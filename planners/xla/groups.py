"""Replica groups: three spellings, four meanings, and the ranks they stand for.

The meaning of an id depends on ``channel_id`` and ``use_global_device_ids`` (XLA's
``CollectiveOpGroupMode``): a replica id, a partition id, or ``replica * partitions + partition``.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from .text import Unbalanced, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Instruction, Module

Groups = tuple[tuple[int, ...], ...]
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?$")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:,?\s*device_ids=\(([^{]*)\))?\s*\{([^}]*)\}$")
_AXIS = re.compile(r"'?([\w.\-]+)'?(?::\((\d+)\)(\d+))?$")
_LIST = re.compile(r"\{\s*(\d+(?:\s*,\s*\d+)*)?\s*\}")
MAX_IDS = 1 << 20


def read_groups(text: str) -> Groups:
    """Read replica groups in any spelling: ``{{0,1},{2,3}}``, ``[2,4]<=[8]``, ``mesh[..] {..}``.

    Raises:
        ValueError: It is none of them.
    """
    text = text.strip()
    if text.startswith("mesh"):
        return _from_mesh(text)
    if text.startswith("["):
        return _from_iota(text)
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError("replica groups are expected")
    inner = text[1:-1].strip()
    if _LIST.sub("", inner).strip(", ") or inner.startswith(","):
        raise ValueError("replica groups are expected")
    return tuple(_numbers(group) for group in _LIST.findall(inner))


def read_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Read source-target pairs, ``{{0,1},{1,2}}``.

    Raises:
        ValueError: They are none.
    """
    groups = read_groups(text)
    if not all(len(group) == 2 for group in groups):
        raise ValueError("pairs of a source and a target are expected")
    return tuple((group[0], group[1]) for group in groups)


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(",") if part.strip())
    if len(numbers) > MAX_IDS or any(number >= MAX_IDS for number in numbers):
        raise ValueError("more devices than can be")
    return numbers


def _from_iota(text: str) -> Groups:
    match = _IOTA.match(text)
    if match is None:
        raise ValueError("replica groups are expected")
    shape, reshape = _numbers(match[1]), _numbers(match[2])
    order = _numbers(match[3]) if match[3] else tuple(range(len(reshape)))
    ids = transposed(reshape, order)
    if len(shape) != 2 or math.prod(shape) != len(ids) or 0 in shape:
        raise ValueError("the dimensions of the replica groups do not fit")
    return tuple(tuple(ids[at : at + shape[1]]) for at in range(0, len(ids), shape[1]))


def transposed(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """Return 0, 1, .. as an array of ``dims``, transposed by ``order`` and flattened.

    Raises:
        ValueError: The order is no permutation of the dimensions, or the array is too large.
    """
    if sorted(order) != list(range(len(dims))) or not 0 < math.prod(dims) <= MAX_IDS:
        raise ValueError("the dimensions of the replica groups do not fit")
    strides = [math.prod(dims[at + 1 :]) for at in range(len(dims))]
    ranges = [range(0, dims[at] * strides[at], strides[at]) for at in order]
    return [sum(steps) for steps in itertools.product(*ranges)]


def _from_mesh(text: str) -> Groups:
    match = _MESH.match(text)
    if match is None:
        raise ValueError("replica groups over a mesh are expected")
    sizes = [_axis_size(part) for part in split(match[1])]
    names, dims = [name for name, _ in sizes], [size for _, size in sizes]
    total = math.prod(dims)
    if len(set(names)) != len(names) or not 0 < total <= MAX_IDS:
        raise ValueError("the mesh of the replica groups does not fit")
    devices = _mesh_devices(match[2], total)
    pieces: list[tuple[int, int, int]] = []
    for part in split(match[3]):
        axis = _AXIS.match(part)
        if axis is None or axis[1] not in names:
            raise ValueError("an axis of the replica groups is not in their mesh")
        place = names.index(axis[1])
        before, size = (int(axis[2]), int(axis[3])) if axis[2] else (1, dims[place])
        if before < 1 or size < 1 or dims[place] % (before * size):
            raise ValueError("a part of an axis does not divide it")
        pieces.append((place, before, size))
    return _grouped(dims, pieces, devices)


def _axis_size(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    return name.strip().strip("'\""), int(size)


def _mesh_devices(text: str | None, total: int) -> list[int]:
    if text is None:
        return list(range(total))
    text = text.strip()
    if "<=" in text:
        devices = list(itertools.chain.from_iterable(_from_iota_any(text)))
    elif text.startswith("["):
        dims, _, order = text[1:].partition("]T(")
        devices = transposed(_numbers(dims), _numbers(order.rstrip(")")))
    else:
        devices = list(_numbers(text))
    if sorted(devices) != list(range(total)):
        raise ValueError("the devices of the mesh are no permutation")
    return devices


def _from_iota_any(text: str) -> Groups:
    """Read an iota of any number of dimensions as one group."""
    match = _IOTA.match(text)
    if match is None:
        raise ValueError("the devices of the mesh cannot be read")
    reshape = _numbers(match[2])
    order = _numbers(match[3]) if match[3] else tuple(range(len(reshape)))
    return (tuple(transposed(reshape, order)),)


def _grouped(dims: list[int], pieces: list[tuple[int, int, int]], devices: list[int]) -> Groups:
    """Group devices that differ in the given (axis, size before, size) pieces only."""
    groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for position, coordinates in enumerate(itertools.product(*map(range, dims))):
        inside, outside = [], list(coordinates)
        for place, before, size in pieces:
            after = dims[place] // (before * size)
            inside.append(coordinates[place] // after % size)
            outside[place] -= inside[-1] * after
        groups.setdefault(tuple(outside), []).append((tuple(inside), devices[position]))
    return tuple(tuple(device for _, device in sorted(group)) for group in groups.values())


class Ends(NamedTuple):
    """Who sends to whom: the target of every source, and the source of every target."""

    targets: dict[int, int]
    sources: dict[int, int]


class Participants:
    """Which logical devices take part in an instruction, as XLA decides it.

    Devices are numbered ``replica * partitions + partition``.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._cache: dict[tuple[str, bool, str | None], dict[int, tuple[int, ...]]] = {}
        self._pairs: dict[tuple[str, bool], Ends] = {}

    def groups(
        self, instruction: Instruction, spelling: str, *, flat_ids: bool
    ) -> dict[int, tuple[int, ...]]:
        """Return the group of every device in a collective; members share one tuple.

        Args:
            instruction: The collective.
            spelling: Its ``replica_groups``.
            flat_ids: True for the operations that have ``use_global_device_ids``.

        Raises:
            PlanError: The groups do not cover the devices exactly once.
        """
        channel = "channel_id" in instruction.attrs
        flag = instruction.attrs.get("use_global_device_ids", "false") if flat_ids else None
        key = spelling, channel, flag
        if key not in self._cache:
            groups = self._resolve(instruction, spelling, channel=channel, flag=flag)
            self._cache[key] = {device: group for group in groups for device in group}
        return self._cache[key]

    def partitions(self) -> list[Groups]:
        """Return the groups of all devices, for each set of groups that was asked for."""
        return [tuple(dict.fromkeys(groups.values())) for groups in self._cache.values()]

    def _resolve(
        self, instruction: Instruction, spelling: str, *, channel: bool, flag: str | None
    ) -> Groups:
        module = self._module
        if not channel and flag == "true":
            hint = "XLA allows use_global_device_ids=true with a channel_id only"
            module.fail(instruction.line, "global ids without a channel", value=spelling, hint=hint)
        if flag == "true":
            ids = range(module.devices)
        else:
            partitioned = channel and flag is None
            ids = range(module.partitions if partitioned else module.replicas)
        groups = self._covering(instruction, spelling, ids)
        if flag == "true":
            return groups
        replicas, partitions = range(module.replicas), range(module.partitions)
        if not channel:  # cross-replica: the same partition of several replicas
            return tuple(tuple(self.device(r, p) for r in g) for p in partitions for g in groups)
        if flag is None:  # cross-partition: several partitions of one replica
            return tuple(tuple(self.device(r, p) for p in g) for r in replicas for g in groups)
        return tuple(tuple(self.device(r, p) for r in g for p in partitions) for g in groups)

    def device(self, replica: int, partition: int) -> int:
        """Return the logical device of a replica and a partition."""
        return replica * self._module.partitions + partition

    def _covering(self, instruction: Instruction, spelling: str, ids: range) -> Groups:
        try:
            groups = read_groups(spelling)
        except (ValueError, Unbalanced) as error:
            self._module.fail(instruction.line, str(error), value=spelling)
        if not groups:
            return (tuple(ids),)
        listed = sorted(itertools.chain.from_iterable(groups))
        if listed != list(ids):
            self._module.fail(
                instruction.line,
                f"the replica groups of {instruction.name} do not list every id exactly once",
                value=spelling,
                hint=f"XLA's verifier wants each of {ids.start}..{ids.stop - 1} once",
                code="PG409",
            )
        return groups

    def ends(self, instruction: Instruction, spelling: str) -> Ends:
        """Return who sends to whom in a permute, a send or a receive.

        Raises:
            PlanError: The pairs name ids outside the module, or one twice on a side.
        """
        module = self._module
        channel = "channel_id" in instruction.attrs
        if (spelling, channel) in self._pairs:
            return self._pairs[spelling, channel]
        ids = module.partitions if channel else module.replicas
        try:
            pairs = read_pairs(spelling)
        except (ValueError, Unbalanced) as error:
            module.fail(instruction.line, str(error), value=spelling)
        self._check_pairs(instruction, pairs, ids)
        if channel:
            others = range(module.replicas)
            found = [(self.device(r, s), self.device(r, t)) for r in others for s, t in pairs]
        else:
            others = range(module.partitions)
            found = [(self.device(s, p), self.device(t, p)) for p in others for s, t in pairs]
        ends = Ends(dict(found), {target: source for source, target in found})
        self._pairs[spelling, channel] = ends
        return ends

    def _check_pairs(
        self, instruction: Instruction, pairs: tuple[tuple[int, int], ...], ids: int
    ) -> None:
        for side, what in enumerate(("source", "target")):
            listed = [pair[side] for pair in pairs]
            if len(set(listed)) != len(listed):
                message = f"{instruction.name} names a {what} twice"
                self._module.fail(instruction.line, message, value=pairs, hint=_PAIRS)
            if any(number >= ids for number in listed):
                message = f"{instruction.name} names a {what} outside of the {ids} ids"
                self._module.fail(instruction.line, message, value=pairs, hint=_PAIRS, code="PG402")


_PAIRS = "XLA wants each source and each target at most once"
