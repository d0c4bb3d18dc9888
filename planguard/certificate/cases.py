"""Check a certificate of SAFE over all branches: standard library only, no engine.

A plan with ``choice`` becomes one of finitely many plans without: a plan for every combination of
branches. A certificate of kind ``cases`` holds one proof for each of them, in the order in which
this file enumerates them from the flat plan: docs/reference/certificates.md. Nothing of the
enumeration is taken from the certificate; a combination without a proof is a rejection.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from planguard.certificate import flushes
from planguard.certificate.agreement import Call, OutsideError, RejectedError
from planguard.certificate.checker import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 2_000
"""Most combinations that a certificate covers."""
Variable = tuple[Any, ...]
Taken = dict[Variable, int]


def cases(flat: Call, model: str) -> Iterator[tuple[str, Call]]:
    """Yield every plan without branches that a flat plan can become, and what is taken in it.

    The model says where a negotiated member may be a call of a group of its own (``flushes.py``).

    A choice with a name is a variable of its rank, or of all ranks where every choice of that name
    is uniform. One without a name is a variable of its own: that admits more than the plan does.

    Raises:
        OutsideError: There are more than ``LIMIT``, or it is not clear which belong together.
    """
    programs = {rank: use["actions"] for rank, use in flat["ranks"].items()}
    uses = defaultdict[Variable, list[tuple[str, Call]]](list)
    numbered = {rank: _number(body) for rank, body in programs.items()}
    for rank, body in numbered.items():
        for choice in _choices(body):
            name = choice["name"]
            uses[(name,) if isinstance(name, str) else (name, rank)].append((rank, choice))
    sizes = dict[Variable, int]()
    for key, found in uses.items():
        counts = {len(choice["branches"]) for _, choice in found}
        if len(counts) > 1:
            raise OutsideError(f"choices named {key[0]} have different numbers of branches")
        is_one = len(key) > 1 or all(choice.get("uniform") for _, choice in found)
        own = [key] if is_one else [(*key, rank) for rank, _ in found]
        sizes |= dict.fromkeys(own, counts.pop())
    total = 1
    for size in sizes.values():
        total *= size
        if total > LIMIT:
            raise OutsideError(f"more than {LIMIT:,} combinations of branches")
    for branches in product(*(range(size) for size in sizes.values())):
        taken = dict(zip(sizes, branches, strict=True))
        ranks = {rank: {"actions": _resolve(body, rank, taken)} for rank, body in numbered.items()}
        where = ", ".join(f"{'/'.join(map(str, key))}={branch}" for key, branch in taken.items())
        yield from _flushed(where, {**flat, "ranks": ranks}, model)


def _flushed(where: str, flat: Call, model: str) -> Iterator[tuple[str, Call]]:
    """Yield what a plan without branches becomes by every way to flush its fused buffers."""
    if not flat.get("fusion"):
        yield where, flat
        return
    flat, ways = flushes.without_fusion(flat, model)
    if prod(map(len, ways)) > LIMIT:
        raise OutsideError(f"more than {LIMIT:,} combinations of flushes")
    bare = {key: flat[key] for key in flat if key != "fusion"}
    for number, chosen in enumerate(product(*ways)):
        ranks = {str(rank): {"actions": body} for rank, body in enumerate(chosen)}
        yield f"{where} flushes={number}".strip(), {**bare, "ranks": ranks}


def _number(body: list[Any]) -> list[Any]:
    """Give every choice without a name one that no other has."""
    count = 0

    def walk(item: Any) -> Any:
        nonlocal count
        if isinstance(item, list):
            return [walk(one) for one in item]
        inner = {key: walk(item[key]) for key in ("body", "threads", "branches") if key in item}
        if item["op"] == "choice" and "name" not in item:
            count += 1
            inner["name"] = count  # a number: names of a plan are text
        return item | inner if inner else item

    return [walk(item) for item in body]


def _choices(item: Any) -> Iterator[Call]:
    """Yield every choice in a list of actions."""
    if isinstance(item, list):
        for one in item:
            yield from _choices(one)
        return
    if item["op"] == "choice":
        yield item
    for key in ("body", "threads", "branches"):
        yield from _choices(item.get(key, []))


def _resolve(body: list[Any], rank: str, taken: Taken) -> list[Any]:
    """Return actions that follow each other, each choice replaced by the branch it takes."""
    out = list[Any]()
    for item in body:
        if item["op"] == "choice":
            key: Variable = (item["name"],) if (item["name"],) in taken else (item["name"], rank)
            out += _resolve(item["branches"][taken[key]], rank, taken)
        elif item["op"] == "unordered":
            out.append({**item, "body": [_item(one, rank, taken) for one in item["body"]]})
        elif item["op"] == "threads":
            out.append({**item, "threads": [_resolve(t, rank, taken) for t in item["threads"]]})
        else:
            out.append(item)
    return out


def _item(item: Any, rank: str, taken: Taken) -> Any:
    """Return an item of a block of open order; a branch is a chain in it."""
    if isinstance(item, list):
        return _resolve(item, rank, taken)
    if item["op"] != "choice":
        return _resolve([item], rank, taken)[0]
    chain = _resolve([item], rank, taken)
    # An empty branch that nothing comes after orders nothing; else it passes its order on.
    said = ("id", "after") if chain or "id" in item else ()
    named = {key: item[key] for key in said if key in item}
    return {"op": "unordered", "body": [chain], **named}


def check(text: bytes, certificate: bytes, verify: Callable[[bytes, bytes], str]) -> str:
    """Return what a certificate over all branches proves of the text of a flat plan.

    Args:
        text: The flat plan.
        certificate: The certificate.
        verify: What checks the proof of one case, as a certificate of its own.

    Raises:
        RejectedError: It proves nothing; the message says of which case.
    """
    flat, proof = opened(text, certificate, "cases")
    model = proof["model"]
    left, count = list(proof["cases"]), 0
    for where, case in cases(flat, model):
        if not left:
            raise RejectedError(f"no proof of the case {where}")
        try:
            verify(*alone(case, model, left.pop(0)))
        except OutsideError as error:
            raise OutsideError(f"where {where}: {error}") from error
        except RejectedError as error:
            raise RejectedError(f"where {where}: {error}") from error
        count += 1
    if not count:
        raise RejectedError("the plan has no case at all: a choice without a branch")
    if left:
        raise RejectedError(f"{len(left)} proofs of cases that the plan does not have")
    return f"{len(flat['ranks'])} ranks complete under {model} in every case: {count}"


def alone(case: Call, model: str, body: Call) -> tuple[bytes, bytes]:
    """Return the text of a case, and its proof as a certificate about that text.

    Raises:
        RejectedError: The proof of a case is one over cases again.
    """
    if body["kind"] == "cases":
        raise RejectedError("a case is proved by cases again")
    text = json.dumps(case, sort_keys=True).encode()
    about = {"model": model, "plan_sha256": hashlib.sha256(text).hexdigest()}
    return text, json.dumps({**body, **about, "schema": "planguard.certificate/1"}).encode()
