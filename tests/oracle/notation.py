"""Plans in one line, for tables of tiny plans by hand.

    A=01 B=12 :: ar@A s1:4k#x | ar r0 | {ar#a [ba ar#b]}

Groups first, then one program for each rank between bars. A call is a word:

    ar ag rs aa ba scan      all_reduce, all_gather, reduce_scatter, all_to_all_single, barrier
    bc0 rd0 ga0 sc0          broadcast, reduce, gather, scatter; the root
    s1 r1 is1 ir1 p1 r*      send, recv, isend, irecv, probe; the peer
    w(h,g) wany(h,g) drop(h) x new(A) init(A) destroy(A) sync
    co(ar a b _:2)           coalesced, its parts by label and size

and what is said of it, in any order: `@A` group, `:2` elements, `:4k` 4096 of them, `:?` no size,
`:2i` of i32, `#a` label, `.1` tag, `=h` handle (asynchronous), `^b` mode (by its first letter),
`+i1,2` and `+o1,2` splits, `~n` id, `%n` after. Blocks: `{..}` unordered, `[..]` a chain in it,
`<.. / ..>` threads, `?c(.. / ..)` a choice, `!c(.. / ..)` a uniform one, `2*(..)` a loop, `b[..]` a
batch. `m1` is member m1 of a fused buffer, asynchronous under that name; `F=negotiated,8` in the
head says how its ranks agree and how many bytes it takes, `F=rank0-broadcast,8` likewise.
"""

from __future__ import annotations

import re
from typing import Any

Item = dict[str, Any]
CALLS = {
    "ar": "all_reduce",
    "ag": "all_gather",
    "agt": "all_gather_into_tensor",
    "rs": "reduce_scatter",
    "rst": "reduce_scatter_tensor",
    "aa": "all_to_all_single",
    "ba": "barrier",
    "bc": "broadcast",
    "rd": "reduce",
    "ga": "gather",
    "sc": "scatter",
    "s": "send",
    "r": "recv",
    "is": "isend",
    "ir": "irecv",
    "p": "probe",
    "scan": "scan",
    "exscan": "exscan",
    "shift": "oracle_shift",
    "deal": "oracle_deal",
    "collect": "oracle_collect",
}
PEERS = {"s", "r", "is", "ir", "p"}
MODES = {"s": "synchronous", "b": "buffered", "r": "ready"}
OUTCOMES = {
    "S": "SAFE",
    "D": "DEADLOCK",
    "M": "MISMATCH",
    "P": "POTENTIAL_DEADLOCK",
    "U": "UNKNOWN",
    "X": "refused",
}
MODELS = {
    "g": ("gloo", "gloo-detail"),
    "g1": ("gloo",),
    "gd": ("gloo-detail",),
    "n": ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized"),
    "n1": ("nccl",),
    "nl": ("nccl-lazy",),
    "ne": ("nccl-eager",),
    "ns": ("nccl-serialized",),
    "m": ("mpi-eager", "mpi-sync", "mpi-pg"),
    "me": ("mpi-eager",),
    "ms": ("mpi-sync",),
    "mp": ("mpi-pg",),
}
MODELS["all"] = MODELS["g"] + MODELS["n"] + MODELS["m"]
_HEAD = re.compile(r"(exscan|scan|shift|collect|[a-z]+?)(\d+|\*)?(?=[@:#.=^+~%]|$)")
_SAID = re.compile(r"([@:#.=^+~%])([^@:#.=^+~%]*)")


def plan(text: str) -> Item:
    """Give the plan that a line says."""
    head, _, rest = text.rpartition("::")
    programs = _split(rest, "|")
    groups = {}
    fusion = []
    for word in head.split():
        name, _, ranks = word.partition("=")
        if name == "F":
            fusion = [_buffer(ranks, sorted(set(re.findall(r"\bm\d", rest))))]
        else:
            groups[name] = {"ranks": [int(rank) for rank in ranks]}
    more = {"fusion": fusion} if fusion else {}
    return more | {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": groups,
        "ranks": {str(at): {"actions": _items(one)} for at, one in enumerate(programs)},
    }


def _buffer(text: str, members: list[str]) -> Item:
    coordination, cap = text.split(",")
    spec = {"coordination": coordination, "membership": "fixed", "launch": "ordered"}
    return {"id": "f", "group": "world", "cap_bytes": int(cap), "members": members, **spec}


def outcomes(text: str) -> dict[str, str]:
    """Give the outcome of each model that a line such as `g:S n:D me:P` names; later ones win."""
    found = {}
    for word in text.split():
        key, _, letter = word.partition(":")
        found |= dict.fromkeys(MODELS[key], OUTCOMES[letter])
    return found


def _split(text: str, mark: str) -> list[str]:
    """Cut a text at a mark that is in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "({[<") - (letter in ")}]>")
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _items(text: str) -> list[Any]:
    return [_item(word) for word in _split(text.strip(), " ") if word]


def _item(word: str) -> Any:
    if word[0] == "{":
        return {"op": "unordered", "body": _items(word[1 : word.rindex("}")])} | _said(word, "}")
    if word[0] == "[":
        return _items(word[1:-1])
    if word[0] == "<":
        threads = [_items(one) for one in _split(word[1:-1], "/")]
        return {"op": "threads", "threads": threads}
    if word[0] in "?!":
        name, _, inner = word[1:].partition("(")
        branches = [_items(one) for one in _split(inner[:-1], "/")]
        item: Item = {"op": "choice", "name": name, "branches": branches}
        return item | ({"uniform": True} if word[0] == "!" else {})
    if word[0].isdigit():
        times, _, inner = word.partition("*(")
        return {"op": "repeat", "times": int(times), "body": _items(inner[:-1])}
    if word.startswith("b["):
        return {"op": "batch", "ops": _items(word[2 : word.rindex("]")])} | _said(word, "]")
    return _words(word)


def _words(word: str) -> Item:
    name, _, inner = word.partition("(")
    if re.match(r"x(?=[~%]|$)", name):
        return {"op": "exit"} | _said(name[1:], "")
    if name == "sync":
        return {"op": "host_sync"}
    if name in {"w", "wany", "drop", "test"}:
        works = inner[:-1].split(",")
        item: Item = {"op": {"w": "wait", "wany": "wait"}.get(name, name)}
        item["work"] = works[0] if len(works) == 1 else works
        return item | ({"mode": "any"} if name == "wany" else {})
    if name in {"new", "init", "destroy"}:
        return {"op": {"new": "new_group"}.get(name, name), "group": inner[:-1]}
    if re.match(r"m\d", name):
        member, _, count = name.partition(":")
        item = {"op": "all_reduce", "async": True, "bytes": 4 * int(count or 1), "group": "world"}
        return item | {"id": member, "label": member, "work": member}
    if name == "co":
        kind, *parts = inner[: inner.rindex(")")].split()
        found = {"op": "coalesced", "kind": CALLS[kind], "ops": [_part(part) for part in parts]}
        said = _said(word, ")")
        if "work" in said:
            found["async"] = True
        return found | said
    return _call(word)


def _part(word: str) -> Item:
    label, _, size = word.partition(":")
    return _size(size or "1") | ({} if label == "_" else {"label": label})


def _size(text: str) -> Item:
    if text == "?":
        return {}
    dtype = "i32" if text.endswith("i") else "f32"
    text = text.rstrip("i")
    return {"count": 4096 if text == "4k" else int(text), "dtype": dtype}


def _call(word: str) -> Item:
    head = _HEAD.match(word)
    assert head is not None, word
    name, number = head.groups()
    item: Item = {"op": CALLS[name]}
    if name in PEERS:
        item["peer"] = "any" if number == "*" else int(number)
    elif number is not None:
        item["root"] = int(number)
    said = _said(word[head.end() :], "")
    if name not in {"ba", "p"}:
        item |= said.pop("size", _size("1"))
    if "work" in said and name not in {"is", "ir"}:
        item["async"] = True
    return item | said


def _said(word: str, end: str) -> Item:
    """Read what follows a call or a bracket."""
    text = word[word.rindex(end) + 1 :] if end else word
    said: Item = {}
    for mark, value in _SAID.findall(text):
        if mark == ":":
            said["size"] = _size(value)
        elif mark == "+":
            field = {"i": "in_splits", "o": "out_splits"}[value[0]]
            said[field] = [int(number) for number in value[1:].split(",")]
        elif mark == ".":
            said["tag"] = "any" if value == "*" else int(value)
        elif mark == "%":
            said["after"] = value.split(",")
        elif mark == "^":
            said["mode"] = MODES[value]
        else:
            said[{"@": "group", "#": "label", "=": "work", "~": "id"}[mark]] = value
    return said
