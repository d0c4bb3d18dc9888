"""Every field of the plan format decides, is refused, or is listed as informative.

For every operation and field of the JSON schema there is a pair of plans that differ in that field
of that operation alone and whose answers differ. Guard, screening, certificates and the enumerator
have to tell them apart. What can never matter stands in one list of docs/reference/plan-format.md.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pytest
from oracle.enumerator import Effort, OracleBudget, enumerate_plan
from oracle.program import OracleUnsupported

import planguard
from planguard import Guard, PlanError
from planguard.certificate.agreement import RejectedError
from planguard.certificate.format import digest, encode
from planguard.certificate.verify import verify
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines
from planguard.plan.reading.schema import plan_schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plan-format.md"
DOCUMENT = {"schema": "planguard.plan/1"}
COMMON = ("id", "src", "label", "reads", "writes", "stream", "after", "ns", "mb", "stage", "phase")
MESSAGES = ("send", "recv", "isend", "irecv", "probe")
UNEVEN = {
    "all_to_all": ("in_splits", "out_splits"),
    "all_to_all_single": ("in_splits", "out_splits"),
    "all_gather": ("out_splits",),
    "all_gather_into_tensor": ("out_splits",),
    "gather": ("out_splits",),
    "reduce_scatter": ("in_splits",),
    "reduce_scatter_tensor": ("in_splits",),
    "scatter": ("in_splits",),
}
ROOTED = ("broadcast", "reduce", "gather", "scatter")
PREFIX = ("scan", "exscan")
REDUCING = ("all_reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce", *PREFIX)
COLLECTIVES = (*dict.fromkeys((*REDUCING, *ROOTED, *UNEVEN)), "barrier")
COPIES = ("h2d", "d2h", "d2d")
TENSORS = {"tensors": {"t": {"shape": [1], "dtype": "f32"}, "u": {"shape": [2], "dtype": "f32"}}}
GROUPS = {"groups": {"g": {"ranks": [0, 1]}, "h": {"ranks": [0, 1]}}}
SUM = {"op": "all_reduce", "bytes": 4}
REFUSED = "refused"


@dataclass(frozen=True)
class Pair:
    """Two plans that differ in one field, and the model under which their answers do."""

    one: dict
    other: dict
    model: str = "gloo"
    played: bool = True  # the enumerator knows all that is in them


def plan(*programs, **more):
    """A plan of explicit programs."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    return {**DOCUMENT, "world_size": len(programs), "ranks": ranks, **more}


def call(op, **fields):
    """A call of an operation with everything that it needs, between ranks 0 and 1."""
    if op in MESSAGES:
        needs = {"peer": 0 if op in {"recv", "irecv", "probe"} else 1}
    else:
        needs = {"root": 0} if op in ROOTED else {}
    if op == "coalesced":
        needs = {"kind": "all_reduce", "ops": [{"bytes": 4}]}
    if op == "batch":
        needs = {"ops": [{"op": "send", "peer": 1, "bytes": 4}]}
    return {"op": op, **needs, **fields}


def partner(op, **fields):
    """What the other rank does."""
    swap = {"send": "recv", "isend": "recv", "recv": "send", "irecv": "send", "batch": "recv"}
    if op == "probe":
        return [call("send", **fields)]
    if op in swap:
        peer = 0 if swap[op] == "recv" else 1
        return [{**call(swap[op], **fields), "peer": peer}]
    return [call(op, **fields)]


def scene(op, changed, fixed, *, theirs=None, after=(), model="gloo", **more):
    """A pair in which rank 0 (1 for a receive) does ``op`` with changed fields."""
    model = "mpi-sync" if op in {*PREFIX, "probe"} else model
    plans = []
    for fields in changed:
        mine = [call(op, **fixed, **fields), *after]
        if op in {"isend", "irecv"} and "work" not in fields and "work" not in fixed:
            mine = [call(op, **fixed, **fields, work="h"), *after, {"op": "wait", "work": "h"}]
        if op == "probe":
            mine.append({**call("recv", **(fixed if theirs is None else theirs)), "peer": 0})
        other = partner(op, **(fixed if theirs is None else theirs))
        both = [other, mine] if op in {"recv", "irecv", "probe"} else [mine, other]
        plans.append(plan(*both, **more))
    return Pair(*plans, model, played=op not in {*PREFIX, "probe"})


def row(op, field):
    """The pair of an operation and a field; None if there is none."""
    if (op, field) in OTHER or op not in ACTIONS:
        return OTHER.get((op, field))
    if field == "op":
        one = alone(op, {})
        other = json.loads(json.dumps(one).replace(f'"op": "{op}"', '"op": "x"'))
        return Pair(one, other, played=False)
    if field in COMMON:
        return _common(op, field)
    if op in MESSAGES or op in COLLECTIVES or op == "coalesced":
        return _size(op, field) or _communication(op, field)
    return OTHER.get((op, field))


def _size(op, field):
    if op == "coalesced":
        return None
    pairs = {
        "bytes": ([{"bytes": 4}, {"bytes": 8}], {}, {"bytes": 4}),
        "count": ([{"count": 1}, {"count": 2}], {"dtype": "f32"}, {"count": 1, "dtype": "f32"}),
        "dtype": ([{"dtype": "f32"}, {"dtype": "i32"}], {"bytes": 4}, {"bytes": 4, "dtype": "f32"}),
        "tensor": ([{"tensor": "t"}, {"tensor": "u"}], {}, {"tensor": "t"}),
        "shape": ([{"shape": [1]}, {"shape": [2]}], {"dtype": "f32"}, {"count": 1, "dtype": "f32"}),
    }
    if field not in pairs or op in {"barrier", "probe"}:
        return None
    changed, fixed, theirs = pairs[field]
    return scene(op, changed, fixed, theirs=theirs, **TENSORS)


def _communication(op, field):
    four = {} if op == "coalesced" else {"bytes": 4}
    made = {
        "peer": _peer, "async": _async, "work": _work, "mode": _mode, "root": _root,
        "in_splits": partial(_splits, field=field), "out_splits": partial(_splits, field=field),
    }  # fmt: skip
    if field in made:
        return made[field](op)
    reduces = op in {*REDUCING, "coalesced"}
    changed = {
        "tag": [{"tag": 0}, {"tag": 1}],
        "group": [{"group": "g"}, {"group": "h"}],
        "reduce_op": [{"reduce_op": "sum"} if reduces else {}, {"reduce_op": "max"}],
        "kind": [{"kind": "all_reduce"}, {"kind": "reduce_scatter_tensor"}],
        "ops": [{"ops": [{"bytes": 4}]}, {"ops": [{"bytes": 4}] * 2}],
    }.get(field)
    theirs = {**four, "group": "g"} if field == "group" else four
    return changed and scene(op, changed, four, theirs=theirs, **GROUPS)


def _root(op):
    if op not in ROOTED:
        return scene(op, [{}, {"root": 0}], {"bytes": 4})
    mine = ({"op": op, "root": root, "bytes": 4} for root in (0, 1))
    return Pair(*(plan([one], [{**one, "root": 0}]) for one in mine))


def _work(op):
    """A handle that a wait names, or another; blocking calls have none."""
    four = {} if op == "coalesced" else {"bytes": 4}
    if op in {"send", "recv"}:
        return scene(op, [{}, {"work": "h"}], four)
    fixed = four if op in {"isend", "irecv"} else {**four, "async": True}
    wait = [{"op": "wait", "work": "h"}]
    return scene(op, [{"work": "h"}, {"work": "k"}], fixed, theirs=four, after=wait)


def _mode(op):
    return Pair(
        *(_modes(op, mode) for mode in ("buffered", "synchronous")), "mpi-sync", played=False
    )


def _modes(op, mode):
    """Both ranks send first; rank 1 waits for its receiver, rank 0 as it says."""
    programs = []
    for rank, said in enumerate((mode, "synchronous")):
        send = {"op": op if not rank else "send", "peer": 1 - rank, "bytes": 4, "mode": said}
        wait = []
        if send["op"] == "isend":
            send, wait = {**send, "work": "h"}, [{"op": "wait", "work": "h"}]
        programs.append([send, *wait, {"op": "recv", "peer": 1 - rank, "bytes": 4}])
    return plan(*programs)


def _peer(op):
    if op in {"recv", "irecv", "probe"}:
        wait = [{"op": "wait", "work": "h"}] if op == "irecv" else []
        work = {"work": "h"} if op == "irecv" else {}
        last = [{"op": "recv", "peer": 0, "bytes": 4}] if op == "probe" else []
        model = "mpi-sync" if op == "probe" else "gloo"
        return Pair(
            *(
                plan(
                    [{"op": "send", "peer": 1, "bytes": 4}],
                    [{"op": op, "peer": peer, "bytes": 4, **work}, *wait, *last],
                    [],
                )
                for peer in (0, 2)
            ),
            model,
            played=op != "probe",
        )
    wait = [{"op": "wait", "work": "h"}] if op == "isend" else []
    work = {"work": "h"} if op == "isend" else {}
    return Pair(
        *(
            plan(
                [{"op": op, "peer": peer, "bytes": 4, **work}, *wait],
                [{"op": "recv", "peer": 0, "bytes": 4}],
                [],
            )
            for peer in (1, 2)
        )
    )


def _splits(op, field):
    one = {"count": 2, "dtype": "f32"}
    wrong = {field: [1, 2] if op.startswith("all_to_all") else [2, 3]}
    right = {field: [1, 1] if op.startswith("all_to_all") else [2, 2]}
    if field not in UNEVEN.get(op, ()):
        return scene(op, [{}, {field: [1, 1]}], one)
    return scene(op, [right, wrong], one)


def _async(op):
    """Blocking, two calls in opposite order stop two ranks; one of them on its own does not."""
    fixed = {} if op == "coalesced" else {"bytes": 4}
    model = "mpi-sync" if op in PREFIX else "gloo"
    if op in {"broadcast", "gather", "scatter"}:
        first = {"op": op, "root": 0, **fixed}
        rest = (
            [{"op": "recv", "peer": 1, "bytes": 4}],
            [{"op": "send", "peer": 0, "bytes": 4}, first],
        )
        return Pair(
            *(plan([{**first, "async": value}, *rest[0]], rest[1]) for value in (False, True)),
            model,
        )
    mine = call(op, **fixed)
    rest = (
        [{"op": "recv", "peer": 1, "bytes": 4}],
        [{"op": "send", "peer": 0, "bytes": 4}, {**mine, "async": True} if op in PREFIX else mine],
    )
    return Pair(
        *(plan([{**mine, "async": value}, *rest[0]], rest[1]) for value in (False, True)),
        model,
        op not in PREFIX,
    )


def _common(op, field):
    if field == "label":
        if op in MESSAGES and op != "probe":
            return scene(
                op,
                [{"label": "x"}, {"label": "y"}],
                {"bytes": 4},
                theirs={"bytes": 4, "label": "x"},
            )
        if op in COLLECTIVES or op == "coalesced":
            fixed = {} if op == "coalesced" else {"bytes": 4}
            return scene(
                op, [{"label": "x"}, {"label": "y"}], fixed, theirs={**fixed, "label": "x"}
            )
        return None
    if field == "id":
        return _refused(op, {"id": "x"}, {"id": "y"}, [{"op": "compute", "deps": ["x"]}])
    if field == "after":
        return _after(op)
    if field in {"reads", "writes"}:
        return _buffers(op, field)
    if field == "stream":
        return _stream(op)
    return None


def lone(op, **fields):
    """An action that is valid alone in a program of rank 0."""
    extra = {
        "wait": {"work": "w"},
        "test": {"work": "w"},
        "drop": {"work": "w"},
        "event_record": {"event": "e"},
        "event_wait": {"event": "e"},
        "new_group": {"group": "g"},
        "destroy": {"group": "g"},
        "unordered": {"body": []},
        "threads": {"threads": [[]]},
        "choice": {"branches": [[]]},
        "repeat": {"times": 1, "body": [{"op": "compute"}]},
    }
    action = call(op, **extra.get(op, {}), **fields)
    if op in MESSAGES:
        action["peer"] = 1
    if op in MESSAGES or op in COLLECTIVES:
        action.setdefault("bytes", 4)
    return action


def alone(op, fields, before=(), after=()):
    """A plan in which rank 0 does an action of the operation among others."""
    start = (
        [{"op": "irecv", "peer": 1, "bytes": 4, "work": "w"}]
        if op in {"wait", "test", "drop"}
        else []
    )
    return plan([*start, *before, lone(op, **fields), *after], [], **GROUPS)


def _refused(op, right, wrong, after):
    return Pair(
        alone(op, right, after=after), alone(op, wrong, after=after), "mpi-sync", played=False
    )


def _after(op):
    """In a block, an action that comes after another one, or in any order."""
    first = {"op": "compute", "id": "a"}

    def made(after):
        body = [first, {**lone(op), "after": after}]
        start = (
            [{"op": "irecv", "peer": 1, "bytes": 4, "work": "w"}]
            if op in {"wait", "test", "drop"}
            else []
        )
        return plan([*start, {"op": "unordered", "body": body}], [], **GROUPS)

    return Pair(made(["a"]), made(["b"]), "mpi-sync", played=False)


def _buffers(op, field):
    """A tensor that a call still works on."""
    if op in {"unordered", "threads", "choice", "repeat", "exit"}:
        return None
    other = "reads" if field == "writes" else "writes"
    before = [{**SUM, "async": True, "work": "v", other: ["t"]}]
    after = [{"op": "wait", "work": "v"}]
    return Pair(
        *(alone(op, {field: [name]}, before, after) for name in ("t", "u")),
        "mpi-sync",
        played=False,
    )


def _stream(op):
    """Two groups in opposite order, which is certain to stop two ranks if a stream ties them.

    On rank 0 the action of the operation is one of the two, or stands between them.
    """
    first = {**SUM, "group": "g"}
    last = {**SUM, "group": "h"}
    tied = "main", "side"
    if op in MESSAGES and op != "probe":
        mine = {"op": op, "peer": 1, "bytes": 4, "group": "h"}
        mate = {"op": "send" if "recv" in op else "recv", "peer": 0, "bytes": 4, "group": "h"}
        return _tied([[first, {**mine, "stream": name}] for name in tied], [mate, first])
    if (op in COLLECTIVES and op not in {"barrier", *PREFIX}) or op == "coalesced":
        mine = {"op": op, "group": "h", **({"root": 0} if op in ROOTED else {})}
        mine |= {"kind": "all_reduce", "ops": [{"bytes": 4}]} if op == "coalesced" else {"bytes": 4}
        return _tied([[first, {**mine, "stream": name}] for name in tied], [mine, first])
    if op == "batch":
        mine = {"op": op, "ops": [{"op": "send", "peer": 1, "bytes": 4, "group": "h"}]}
        mate = {"op": "recv", "peer": 0, "bytes": 4, "group": "h"}
        return _tied([[first, {**mine, "stream": name}] for name in tied], [mate, first])
    if op in {"wait", "compute"}:
        late = {**first, "async": True, "work": "w", "id": "r"}
        between = {"wait": {"work": "w"}, "compute": {"deps": ["r"]}}[op]
        return _tied(
            [[late, {"op": op, **between, "stream": n}, last] for n in tied], [last, first]
        )
    if op == "host_sync":
        far = {**last, "stream": "other"}
        return _tied([[first, {"op": op, "stream": n}, far] for n in tied], [last, first])
    if op in {"event_record", "event_wait"}:
        far = {**last, "stream": "other"}
        own = dict.fromkeys(("event_record", "event_wait"))
        plans = []
        for name in ("main", "side") if op == "event_record" else ("other", "side"):
            own["event_record"] = name if op == "event_record" else "main"
            own["event_wait"] = name if op == "event_wait" else "other"
            marks = [{"op": kind, "event": "e", "stream": stream} for kind, stream in own.items()]
            plans.append([first, *marks, far])
        return _tied(plans, [last, first])
    return None


_ON_G = {**SUM, "group": "g"}
_ON_H = {**SUM, "group": "h"}


def _marked(recorded, awaited):
    """A stream that comes after an event of another one, if that is the one that it waits for."""
    yield {"op": "event_record", "event": "f", "stream": "other"}
    yield from (_ON_G, {"op": "event_record", "event": recorded})
    yield from (
        {"op": "event_wait", "event": awaited, "stream": "other"},
        {**_ON_H, "stream": "other"},
    )


def _tied(mine, theirs):
    return Pair(*(plan(program, theirs, **GROUPS) for program in mine), "nccl")


IRECV = {"op": "irecv", "peer": 1, "bytes": 4}
WAIT = {"op": "wait", "work": "h"}
SEND0 = {"op": "send", "peer": 0, "bytes": 4}


SEND1 = {"op": "send", "peer": 1, "bytes": 4}
RECV1 = {"op": "recv", "peer": 0, "bytes": 4}
HEADS = [[SEND1, {**RECV1, "peer": 1}], [{**SEND1, "peer": 0}, RECV1]]


def approximated(**fields):
    """A plan with a mismatch on its second actions, which its producer may have made up."""
    entry = {
        "kind": "other",
        "message": "m",
        "direction": "over",
        "scope": "actions",
        "actions": [[0, 0]],
    }
    lost = [SUM, {**SUM, "bytes": 8}]
    return plan([SUM, SUM], lost, approximations=[{**entry, **fields}])


ACTIONS = {
    *MESSAGES,
    *COLLECTIVES,
    *COPIES,
    "coalesced",
    "wait",
    "test",
    "drop",
    "batch",
    "compute",
}
ACTIONS |= {"host_sync", "event_record", "event_wait", "init", "new_group", "destroy", "exit"}
ACTIONS |= {"unordered", "threads", "choice", "repeat"}


def two(one, other, model="gloo", **more):
    """A pair from the programs of both ranks."""
    played = more.pop("played", True)
    return Pair(plan(*one, **more), plan(*other, **more), model, played)


def handles(op, right, wrong):
    """Two receives of which only one has a sender; the action names one of them."""
    named = [{**IRECV, "work": "h"}, {**IRECV, "peer": 2, "work": "k"}]
    return Pair(
        *(plan([*named, {"op": op, **fields}], [SEND0], []) for fields in (right, wrong)), "gloo"
    )


def poisoned(work):
    """Of two receives, one handle is dropped."""
    named = [{**IRECV, "work": "h"}, {**IRECV, "peer": 2, "work": "k"}]
    return plan([*named, {"op": "drop", "work": work}, SUM], [SUM, SEND0], [SUM])


def fused(**fields):
    """Three members of a fused buffer that become ready in any order on both ranks."""
    body = [{**SUM, "async": True, "work": n, "id": n, "label": n} for n in "abc"]
    actions = [{"op": "unordered", "body": body}, {"op": "wait", "work": ["a", "b", "c"]}]
    buffer = {
        "id": "f",
        "cap_bytes": 4,
        "buffers": 1,
        "coordination": "none",
        "membership": "fixed",
    }
    buffer |= {"launch": "when-ready", "drain": "ordered", "members": ["a", "b", "c"], **fields}
    return plan(actions, actions, fusion=[buffer], **GROUPS)


def meshed(**fields):
    """Four ranks on a mesh that add along one of its dimensions."""
    groups = {"groups": {"g": {"mesh_dims": ["a"], **fields.pop("group", {})}}}
    mesh = {"mesh": {"dims": [["a", 2], ["b", 2]], **fields}}
    programs = [[{**SUM, "group": "g", "bytes": 4 + 4 * (rank % 2)}] for rank in range(4)]
    return plan(*programs, **groups, **mesh)


def chosen(name="c", *, uniform=True, branches=([SUM], [])):
    """A branch that both ranks take, of one name on the second."""
    other = {"op": "choice", "name": "c", "uniform": True, "branches": [[SUM], []]}
    mine = {"op": "choice", "name": name, "uniform": uniform, "branches": list(branches)}
    return plan([SUM, mine], [SUM, other])


OTHER = {
    ("wait", "work"): handles("wait", {"work": "h"}, {"work": "k"}),
    ("wait", "mode"): handles(
        "wait", {"work": ["h", "k"], "mode": "any"}, {"work": ["h", "k"], "mode": "all"}
    ),
    ("test", "work"): handles("test", {"work": "h"}, {"work": "nobody"}),
    ("drop", "work"): Pair(poisoned("h"), poisoned("k"), played=False),
    ("batch", "ops"): scene(
        "batch",
        [{"ops": [{"op": "send", "peer": 1, "bytes": n}]} for n in (4, 8)],
        {},
        theirs={"bytes": 4},
    ),
    ("batch", "work"): scene(
        "batch", [{"work": "h"}, {"work": "k"}], {}, theirs={"bytes": 4}, after=[WAIT]
    ),
    ("compute", "deps"): two(
        [
            [{**IRECV, "id": "r", "work": "h"}, {"op": "compute", "deps": ["r"]}, SEND1],
            [RECV1, SEND0],
        ],
        [[{**IRECV, "id": "r", "work": "h"}, {"op": "compute", "deps": []}, SEND1], [RECV1, SEND0]],
    ),
    ("event_record", "event"): _tied([[*_marked(name, "e")] for name in "ef"], [_ON_H, _ON_G]),
    ("event_wait", "event"): _tied([[*_marked("e", name)] for name in "ef"], [_ON_H, _ON_G]),
    ("init", "group"): two(
        [[{"op": "init", "group": "g"}, SUM]] * 2,
        [[{"op": "init", "group": "h"}, SUM], [{"op": "init", "group": "g"}, SUM]],
        **GROUPS,
    ),
    ("new_group", "group"): two(
        [[{"op": "new_group", "group": "g"}]] * 2,
        [[{"op": "new_group", "group": "h"}], [{"op": "new_group", "group": "g"}]],
        "gloo",
        groups={"g": {"ranks": [0, 1]}, "h": {"ranks": [1, 0]}},
        played=False,
    ),
    ("destroy", "group"): two(
        [[{"op": "destroy", "group": "g"}, {**SUM, "group": "h"}], [{**SUM, "group": "h"}]],
        [[{"op": "destroy", "group": "h"}, {**SUM, "group": "h"}], [{**SUM, "group": "h"}]],
        **GROUPS,
    ),
    ("unordered", "body"): two(
        [[{"op": "unordered", "body": [{**SUM, "label": "x"}]}], [{**SUM, "label": "x"}]],
        [[{"op": "unordered", "body": []}], [{**SUM, "label": "x"}]],
    ),
    ("threads", "threads"): two(
        [[{"op": "threads", "threads": [[SUM]]}], [SUM]],
        [[{"op": "threads", "threads": [[]]}], [SUM]],
    ),
    ("choice", "name"): Pair(chosen("c"), chosen("d")),
    ("choice", "uniform"): Pair(chosen(), chosen(uniform=False)),
    ("choice", "branches"): Pair(chosen(), chosen(branches=([], [SUM]))),
    ("repeat", "times"): two(
        [[{"op": "repeat", "times": 2, "body": [SUM]}], [SUM, SUM]],
        [[{"op": "repeat", "times": 1, "body": [SUM]}], [SUM, SUM]],
    ),
    ("repeat", "body"): two(
        [[{"op": "repeat", "times": 2, "body": [SUM]}], [SUM, SUM]],
        [[{"op": "repeat", "times": 2, "body": []}], [SUM, SUM]],
    ),
    ("d2d", "peer"): Pair(alone("d2d", {"peer": 1}), alone("d2d", {"peer": 2}), played=False),
    ("Document", "schema"): Pair(
        plan([SUM], [SUM]), {**plan([SUM], [SUM]), "schema": "x"}, played=False
    ),
    ("Document", "world_size"): Pair(
        plan([SUM], [SUM]), {**plan([SUM], [SUM]), "world_size": 3}, played=False
    ),
    ("Document", "model"): Pair(
        plan(*HEADS, model="gloo"), plan(*HEADS, model="mpi-eager"), "", played=False
    ),
    ("Document", "mesh"): Pair(meshed(), {**meshed(), "mesh": {"dims": [["b", 2], ["a", 2]]}}),
    ("MeshSpec", "dims"): Pair(meshed(), meshed(dims=[["b", 2], ["a", 2]])),
    ("Document", "groups"): Pair(meshed(), meshed(group={"mesh_dims": ["b"]})),
    ("GroupSpec", "mesh_dims"): Pair(meshed(), meshed(group={"mesh_dims": ["b"]})),
    ("GroupSpec", "ranks"): Pair(
        *(
            plan(
                [{**SUM, "group": "g"}], [{**SUM, "group": "g"}], [], groups={"g": {"ranks": ranks}}
            )
            for ranks in ([0, 1], [0, 2])
        ),
        played=False,
    ),
    ("GroupSpec", "created"): Pair(
        *(
            plan(
                *[[{"op": "new_group", "group": "g"}, {"op": "new_group", "group": "h"}]] * 2,
                groups={
                    "g": {"ranks": [0, 1], "created": at},
                    "h": {"ranks": [0, 1], "created": 1},
                },
            )
            for at in (0, 2)
        ),
        played=False,
    ),
    ("Document", "tensors"): Pair(
        *(
            plan(
                [{"op": "all_reduce", "tensor": "t"}],
                [SUM],
                tensors={"t": {"shape": [n], "dtype": "f32"}},
            )
            for n in (1, 2)
        )
    ),
    ("TensorSpec", "shape"): Pair(
        *(
            plan(
                [{"op": "all_reduce", "tensor": "t"}],
                [SUM],
                tensors={"t": {"shape": [n], "dtype": "f32"}},
            )
            for n in (1, 2)
        )
    ),
    ("TensorSpec", "dtype"): Pair(
        *(
            plan(
                [{"op": "all_reduce", "tensor": "t"}],
                [SUM],
                tensors={"t": {"shape": [1], "dtype": name}},
            )
            for name in ("f32", "f64")
        )
    ),
    ("Document", "templates"): Pair(
        *(
            {
                **DOCUMENT,
                "world_size": 2,
                "templates": {"t": body},
                "ranks": {"0": {"template": "t"}, "1": {"actions": [SUM]}},
            }
            for body in ([SUM], [])
        )
    ),
    ("Use", "template"): Pair(
        *(
            {
                **DOCUMENT,
                "world_size": 2,
                "templates": {"t": [SUM], "u": []},
                "ranks": {"0": {"template": name}, "1": {"actions": [SUM]}},
            }
            for name in "tu"
        )
    ),
    ("Document", "ranks"): Pair(plan([SUM], [SUM]), plan([SUM], [])),
    ("Use", "actions"): Pair(plan([SUM], [SUM]), plan([SUM], [])),
    ("Document", "approximations"): two([[SUM], [SUM]], [[SUM], [SUM]]),
    ("Document", "fusion"): Pair(fused(cap_bytes=8), fused(cap_bytes=4), played=False),
}
for _name, _values in {
    "kind": ("data-dependent-branch", "other"),
    "direction": ("under", "over"),
    "scope": ("plan", "actions"),
    "actions": ([[0, 0]], [[0, 1]]),
}.items():
    _more = {} if _name in {"scope", "actions"} else {"scope": "plan"}
    OTHER["ApproximationSpec", _name] = Pair(
        *(approximated(**_more, **{_name: value}) for value in _values), played=False
    )
OTHER["Document", "approximations"] = Pair(
    approximated(scope="plan"), {**approximated(), "approximations": []}, played=False
)
for _name, _values, _more in (
    ("cap_bytes", (4, 8), {}),
    ("buffers", (1, 2), {}),
    ("coordination", ("none", "negotiated"), {}),
    ("membership", ("fixed", "fill"), {"launch": "ordered"}),
    ("launch", ("ordered", "when-ready"), {}),
    ("drain", ("ordered", "free"), {"buffers": 2}),
    ("members", (["a", "b", "c"], ["a", "b", "d"]), {}),
    ("group", ("world", "g"), {}),
):
    OTHER["FusionSpec", _name] = Pair(
        *(fused(**{**_more, _name: value}) for value in _values), played=False
    )
for _name, _values, _more in (
    ("op", ("all_reduce", "all_gather_into_tensor"), {"bytes": 4}),
    ("label", ("x", "y"), {"bytes": 4}),
    ("bytes", (4, 8), {}),
    ("count", (1, 2), {"dtype": "f32"}),
    ("dtype", ("f32", "i32"), {"bytes": 4}),
    ("tensor", ("t", "u"), {}),
    ("shape", ([1], [2]), {"dtype": "f32"}),
):
    _first = {**_more, _name: _values[0]}
    OTHER["Part", _name] = Pair(
        *(
            plan(
                [call("coalesced", ops=[{**_more, _name: value}])],
                [call("coalesced", ops=[_first])],
                **TENSORS,
            )
            for value in _values
        )
    )
for _name in ("reads", "writes"):
    _busy = {**SUM, "async": True, "work": "v", "writes" if _name == "reads" else "reads": ["t"]}
    OTHER["Part", _name] = Pair(
        *(
            plan(
                [
                    _busy,
                    call("coalesced", ops=[{"bytes": 4, _name: [tensor]}]),
                    {"op": "wait", "work": "v"},
                ],
                [SUM, call("coalesced")],
            )
            for tensor in ("t", "u")
        ),
        played=False,
    )


@cache
def fields():
    """Every operation, or other record of the schema, with each of its fields."""
    found = []
    for name, record in plan_schema()["$defs"].items():
        properties = record.get("properties", {})
        said = properties.get("op", {}).get("enum", [])
        owner = said[0] if {*COMMON} <= {*properties} else name
        found += [(owner, field) for field in properties]
    return tuple(found)


@cache
def informative():
    """The fields of the page's list, each with its record."""
    section = PAGE.read_text("utf-8").split("## Informative fields")[1].split("\n## ")[0]
    found = set()
    for line in section.splitlines():
        if line.startswith("| `"):
            names, records, _ = line.strip("|").split(" | ")
            of = sorted(ACTIONS) if "every action" in records else re.findall(r"`(\w+)`", records)
            found |= {(record, name) for record in of for name in re.findall(r"`(\w+)`", names)}
    return found


def answer(document, model):
    """Outcome and codes of a fresh check, or that the reader refuses the plan."""
    try:
        verdict = planguard.check(document, model=model or None)
    except PlanError:
        return REFUSED
    return verdict.outcome.value, tuple(sorted({finding.code for finding in verdict.findings}))


def guarded(guard, document):
    """What a guard says of a plan."""
    try:
        verdict = guard.check(document)
    except PlanError:
        return REFUSED
    return verdict.outcome.value, tuple(sorted({finding.code for finding in verdict.findings}))


def differences(one, other):
    """The records that differ between two documents, with the field in which they do."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            left, right = one.get(key), other.get(key)
            if left != right:
                inner = list(differences(left, right))
                yield from inner or [(one, other, key)]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from differences(left, right)


def test_every_field_has_a_row():
    """A field of the schema has a pair of plans, or a line in the list of what is informative."""
    missing = [key for key in fields() if row(*key) is None and key not in informative()]
    assert not missing
    assert informative() <= set(fields()), "the list names fields that are not there"
    both = [key for key in fields() if row(*key) is not None and key in informative()]
    assert not both


DECIDING = [key for key in fields() if row(*key) is not None]


@pytest.mark.parametrize(("owner", "field"), DECIDING, ids=[".".join(key) for key in DECIDING])
class TestOneField:
    """Two plans that differ in one field."""

    def test_the_answers_differ(self, owner, field):
        """The plans differ in that field alone, and a fresh check tells them apart."""
        pair = row(owner, field)
        places = list(differences(pair.one, pair.other))
        nested = owner in {"Document", "Use"} or field in {"ops", "body", "branches", "threads"}
        nested |= isinstance(row_value(pair, field), list | dict)
        assert nested or len(places) == 1
        assert nested or places[0][2] == field
        if owner in ACTIONS and not nested and field != "op":
            assert places[0][0]["op"] == owner
        assert answer(pair.one, pair.model) != answer(pair.other, pair.model)

    def test_guard_and_screening_tell_them_apart(self, owner, field):
        """Whatever was asked first, both say of each plan what a fresh check says."""
        pair = row(owner, field)
        plans = [pair.one, pair.other]
        for asked in (plans, plans[::-1]):
            guard = Guard(model=pair.model or None)
            for document in asked:
                assert guarded(guard, document) == answer(document, pair.model)
        named = [(str(number), copy.deepcopy(document)) for number, document in enumerate(plans)]
        for order in (named, named[::-1]):
            found = planguard.screen(order, model=pair.model or None, executor="inline").rows()
            for (_, document), said in zip(order, found, strict=True):
                fresh = answer(document, pair.model)
                expected = ("UNKNOWN", "refused") if fresh == REFUSED else (fresh[0], "")
                assert (said.outcome, said.end) == expected

    def test_a_certificate_of_one_is_none_of_the_other(self, owner, field):
        """A certificate is refused for the other plan, by its hash and by what it proves."""
        pair = row(owner, field)
        for mine, other in ((pair.one, pair.other), (pair.other, pair.one)):
            if answer(mine, pair.model) == REFUSED or answer(other, pair.model) == REFUSED:
                continue
            options = CheckOptions(model=pair.model or None, certificate=True)
            verdict = planguard.check(mine, options=options)
            if verdict.certificate is None or answer(other, pair.model)[0] == "SAFE":
                continue
            text = b"".join(flat_lines(planguard.load(other)))
            with pytest.raises(RejectedError):
                verify(text, encode(verdict.certificate))
            forged = {**verdict.certificate, "plan_sha256": digest(text)}
            with pytest.raises((RejectedError, KeyError)):
                verify(text, encode(forged))

    def test_the_enumerator_agrees(self, owner, field):
        """The independent enumerator gives both plans the outcome of the check."""
        pair = row(owner, field)
        for document in (pair.one, pair.other) if pair.played else ():
            said = answer(document, pair.model)
            if said == REFUSED:
                continue
            try:
                found = enumerate_plan(document, pair.model, Effort(20_000, 0, 0)).outcome
            except (OracleUnsupported, OracleBudget):
                continue
            assert found == said[0]


VALUES = {
    "src": ["f.py", 1, "f"], "ns": "n", "phase": "forward", "mb": 1, "stage": 1, "label": "x",
    "stream": "side", "reads": ["t"], "writes": ["t"], "bytes": 8, "count": 2, "dtype": "f32",
    "tensor": "u", "shape": [2], "path": "nic", "memory": "unified", "op_name": "mm",
    "duration_us": 1.0, "flops": 1.0,
}  # fmt: skip
PLACE = {"rank": 0, "node": 0, "device": 0, "nic": 0}
LINK = {"src": 0, "dst": 1, "type": "nvlink", "bandwidth": 1.0, "latency_us": 1.0, "duplex": True}
WHOLE = plan(
    [{"op": "all_reduce", "tensor": "t", "group": "g"}],
    [{"op": "all_reduce", "tensor": "t", "group": "g"}],
    name="n",
    producer={"tool": "t", "version": "1"},
    topology={"ranks": [PLACE], "links": [LINK]},
    tensors={"t": {"shape": [1], "dtype": "f32", "strategy": [2]}},
    groups={"g": {"ranks": [0, 1], "backend": "mpi"}},
)


def informed(owner, field):
    """A plan with and without a field, or with two values of one that is required."""
    if owner in ACTIONS:
        plain = {key: value for key, value in lone(owner).items() if key != "bytes"}
        fields = {field: VALUES[field]}
        if field in {"count", "shape"}:
            fields["dtype"] = "f32"
        start = [{**IRECV, "work": "w"}] if owner in {"wait", "test", "drop"} else []
        more = {**TENSORS, **GROUPS}
        return tuple(plan([*start, one], [], **more) for one in (plain, {**plain, **fields}))
    if owner == "ApproximationSpec":
        return approximated(), approximated(**{field: "other"})
    if owner == "FusionSpec":
        return fused(), fused(id="other")
    within = copy.deepcopy(WHOLE)
    home = {
        "Document": within,
        "ProducerSpec": within["producer"],
        "TopologySpec": within["topology"],
        "RankPlace": within["topology"]["ranks"][0],
        "Link": within["topology"]["links"][0],
        "TensorSpec": within["tensors"]["t"],
        "GroupSpec": within["groups"]["g"],
    }[owner]
    if field in {"rank", "src", "dst", "tool"}:
        home[field] = {"rank": 1, "src": 1, "dst": 0, "tool": "u"}[field]
    else:
        del home[field]
    return WHOLE, within


def row_value(pair, field):
    """The value of the field that differs in the first plan."""
    found = [one.get(field) for one, _, key in differences(pair.one, pair.other) if key == field]
    return found[0] if found else []


@pytest.mark.parametrize(
    ("owner", "field"),
    sorted(informative()),
    ids=[".".join(key) for key in sorted(informative())],
)
def test_an_informative_field_changes_no_answer(owner, field):
    """With and without it the answers of all models are the same."""
    without, within = informed(owner, field)
    for model in ("gloo", "nccl", "mpi-eager"):
        assert answer(without, model) == answer(within, model) != REFUSED
