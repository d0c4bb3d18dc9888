"""Files of a workload to records; every defect is a PlanError with its file and node."""

from __future__ import annotations

import os
import re
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from planguard.errors import PlanError
from planguard.plan.vocabulary import CHAKRA

from ..common.reading import load_json
from .model import COLLECTIVE, SEND, Node, Workload
from .wire import messages, node_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 256 * 2**20
MAX_RANKS = 1 << 14
GROUPS = "comm_groups.json"
_NAME = re.compile(r"(?P<name>.+)\.(?P<rank>[0-9]{1,6})\.(?P<kind>et|json)\Z")
_ATTRIBUTES = ("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "root_rank")


def files_of(path: Path) -> dict[tuple[str, str], dict[int, Path]]:
    """Return the files of the workloads of a folder, or of the one that a file belongs to."""
    wanted = None if path.is_dir() else _NAME.match(path.name)
    if wanted is None and not path.is_dir():
        return {}
    found: dict[tuple[str, str], dict[int, Path]] = {}
    folder = path if path.is_dir() else path.parent
    for name in sorted(os.listdir(folder)):  # noqa: PTH208  asked of every folder of an experiment
        parts = _NAME.match(name)
        if parts is None or not (file := folder / name).is_file():
            continue
        key = parts["name"], parts["kind"]
        if wanted is None or key == (wanted["name"], wanted["kind"]):
            found.setdefault(key, {})[int(parts["rank"])] = file
    return found


def read_workload(obj: object, groups: Mapping[str, tuple[int, ...]] | None = None) -> Workload:
    """Read a folder ``NAME.0.et``, ``NAME.1.et``, ..., or the workload of one such file.

    Raises:
        PlanError: A file is missing or malformed; the message names the node.
    """
    if not isinstance(obj, str | Path):
        raise PlanError("not a workload", value=type(obj).__name__, hint="give a folder or a file")
    path = Path(obj)
    found = files_of(path) if path.exists() else {}
    if len(found) != 1:
        raise PlanError(
            f"{len(found)} workloads, expected one",
            file=str(path),
            hint="files are called NAME.0.et, NAME.1.et, ...; name one of them",
        )
    (name, kind), files = next(iter(found.items()))
    if len(files) > MAX_RANKS:
        raise PlanError(f"more than {MAX_RANKS} ranks", file=str(path))
    missing = [rank for rank in range(max(files) + 1) if rank not in files]
    if missing:
        raise PlanError(
            f"the file of rank {missing[0]} is missing",
            file=str(path),
            value=f"{name}.{missing[0]}.{kind}",
            hint="every rank has a file, from rank 0 on",
        )
    nodes = tuple(
        _ordered(_nodes(files[rank], rank, len(files)), str(files[rank]))
        for rank in range(len(files))
    )
    named = _groups(files[0].parent / GROUPS, len(files)) | _given(groups, len(files))
    return Workload(name, tuple(str(files[rank]) for rank in range(len(files))), nodes, named)


def _nodes(file: Path, rank: int, ranks: int) -> list[Node]:
    raw = _protobuf(file) if file.suffix == ".et" else _json(file)
    known: set[int] = set()
    nodes = []
    for one in raw:
        node = _node(one, rank, ranks, str(file))
        if node.number in known:
            _refuse("two nodes have this id", node.number, str(file))
        known.add(node.number)
        nodes.append(node)
    for node in nodes:
        for dep in node.deps:
            if dep not in known:
                _refuse(f"depends on node {dep}, which does not exist", node.number, str(file))
    return nodes


def _refuse(message: str, number: object, file: str, hint: str = "") -> NoReturn:
    hint = hint or "docs/planners/chakra.md lists what a node needs"
    raise PlanError(message, file=file, path=f"node {number}", hint=hint)


def _protobuf(file: Path) -> list[dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        found = list(messages(data))
        if not found:
            raise ValueError("no message")
        known: dict[bytes, tuple[str, Any]] = {}
        return [node_of(message, known) for message in found[1:]]
    except (OSError, IndexError, ValueError) as error:
        raise PlanError(
            f"not a Chakra trace: {error}", file=str(file), hint="write it again"
        ) from None


def _json(file: Path) -> list[dict[str, Any]]:
    top = load_json(file)
    found = dict(top.items())
    if "workload_graph" not in found:
        top.fail("'workload_graph' is missing")
    nodes = []
    for at in found["workload_graph"].each():
        fields = dict(at.items())
        if "Id" not in fields or "NodeType" not in fields:
            at.fail("'Id' and 'NodeType' are needed")
        deps = [
            one.integer()
            for name in ("data_deps", "ctrl_deps")
            if name in fields
            for one in fields[name].each()
        ]
        nodes.append(
            {
                "id": fields["Id"].integer(),
                "name": fields["Name"].text() if "Name" in fields else "",
                "type": fields["NodeType"].integer(0, 1 << 16),
                "deps": deps,
                "attr": {name: fields[name].value for name in _ATTRIBUTES if name in fields},
            }
        )
    return nodes


def _node(raw: dict[str, Any], rank: int, ranks: int, file: str) -> Node:
    number, about, kind = raw["id"], raw["attr"], raw["type"]
    node = Node(number, raw["name"][:200], kind, tuple(dict.fromkeys(raw["deps"])))
    if not node.communicates:
        return node

    def value(name: str, high: int, default: int | None = None) -> int:
        given = about.get(name, default)
        if given is None:
            _refuse(f"attribute {name} is missing", number, file)
        if type(given) is not int or not 0 <= given < high:
            _refuse(f"attribute {name} is {given!r}, not from 0 to {high - 1}", number, file)
        return given

    size = value("comm_size", 1 << 62, 0)
    group = about.get("pg_name") or ""
    if not isinstance(group, str):
        _refuse("attribute pg_name is no string", number, file)
    fields: dict[str, Any] = {"size": size, "group": group[:200]}
    if kind == COLLECTIVE:
        fields["op"] = CHAKRA[value("comm_type", len(CHAKRA))]
        fields["root"] = value("root_rank", ranks) if "root_rank" in about else None
    else:
        fields["peer"] = value("comm_dst" if kind == SEND else "comm_src", ranks)
        fields["tag"] = value("comm_tag", 1 << 31, 0)
        if fields["peer"] == rank:
            _refuse("the other rank is the rank itself", number, file)
    return Node(node.number, node.name, kind, node.deps, **fields)


def _ordered(nodes: list[Node], file: str) -> tuple[Node, ...]:
    """Return nodes after what they depend on, else by id."""
    by_id = {node.number: node for node in nodes}
    behind: dict[int, list[int]] = {}
    for node in nodes:
        for dep in node.deps:
            behind.setdefault(dep, []).append(node.number)
    left = {node.number: len(node.deps) for node in nodes}
    ready = [number for number, count in left.items() if not count]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(by_id[number])
        for follower in behind.get(number, ()):
            left[follower] -= 1
            if not left[follower]:
                heappush(ready, follower)
    if len(order) < len(nodes):
        stuck = min(number for number, count in left.items() if count)
        _refuse("its dependencies form a cycle, so it never starts", stuck, file)
    return tuple(order)


def _groups(path: Path, ranks: int) -> dict[str, tuple[int, ...]]:
    """Read ``comm_groups.json``: process group to its ranks; nothing if there is no such file."""
    if not path.is_file():
        return {}
    found = {}
    for name, at in load_json(path).items():
        members = tuple(at.integers(0, ranks - 1))
        if not members or len(set(members)) < len(members):
            at.fail("expected different ranks")
        found[name] = members
    return found


def _given(groups: Mapping[str, Any] | None, ranks: int) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, members in (groups or {}).items():
        listed = tuple(members) if isinstance(members, list | tuple) else ()
        fine = listed and all(type(rank) is int and 0 <= rank < ranks for rank in listed)
        if not fine or len(set(listed)) < len(listed):
            raise PlanError(
                "expected different ranks of the workload",
                path=f"$.options.groups.{name}",
                value=members,
                hint=f"ranks are 0 to {ranks - 1}",
            )
        found[str(name)] = listed
    return found
