"""Write the plan files of litmus/ from the measured programs in litmus/gloo_litmus.json.

Run it without arguments after a change; a test compares its output with the files. README.md
beside this file describes the translation and lists the exceptions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
LITMUS = HERE / "litmus"
SOURCE = LITMUS / "gloo_litmus.json"
LONG_SLEEP = 10  # seconds; longer than the observation: the rank takes no part any more

SAFE, DEADLOCK, MISMATCH = "SAFE", "DEADLOCK", "MISMATCH"
POTENTIAL, UNKNOWN = "POTENTIAL_DEADLOCK", "UNKNOWN"

# Refused before any verdict, with the code of the refusal.
REFUSED = {
    "p2p_self_send": "PG010",
    "zero_len_batch": "PG901",
    "groups_nonmember_call": "PG401",
}
# Which rank of a malformed reduce passes is internal to the ring of the backend.
REDUCE_RING = frozenset(
    {"root_reduce_0_vs_1", "root_reduce_1_vs_0", "size_reduce_mismatch_root_large"}
)
# Hangs in which members of a round, or of a group, disagree: a mismatch with the hang as its
# consequence, or a deadlock. Both readings are accepted of a checker.
DISAGREEING = ("kind_", "root_", "size_", "order_swap_", "newgroup_", "bcast_roots_swapped")
# Nothing but one asynchronous call on one rank: nothing blocks, and nothing was checked either.
NOTHING_MATCHES = frozenset({"p2p_isend_never_waited_no_recv", "destroy_with_pending"})
# Outcomes of `error` programs: the partner is gone, or the call gave up waiting.
ERRORS = {
    "isend_then_exit_immediately": [DEADLOCK, POTENTIAL],
    "monitored_barrier_vs_allreduce": [DEADLOCK, MISMATCH],
}
# Departures from the general mapping of the expectation for NCCL, each with its reason.
NCCL = {
    # Both ranks issue point-to-point first and the all_reduce second.
    "hybrid_isend_vs_allreduce": {"nccl": [SAFE], "nccl-lazy": [SAFE, DEADLOCK, POTENTIAL]},
    # One communicator holds point-to-point and collectives, so the orders are opposite in one
    # FIFO; with pair communicators the two hosts meet in different creations.
    "p2p_and_coll_same_group_independent": {"nccl": [DEADLOCK], "nccl-lazy": [DEADLOCK]},
    # Lazily made groups pass; the communicators that are used do not depend on the swap.
    "newgroup_diff_members_order": {
        "nccl": [SAFE, UNKNOWN, MISMATCH, DEADLOCK],
        "nccl-lazy": [SAFE, UNKNOWN, MISMATCH, DEADLOCK],
        "nccl-eager": [DEADLOCK, MISMATCH, SAFE, UNKNOWN],
    },
    # The send that nobody receives stays in the FIFO of the group.
    "p2p_wait_second_only_one_recv": {"nccl": [DEADLOCK], "nccl-lazy": [DEADLOCK]},
    "destroy_with_pending": {"nccl": [DEADLOCK, UNKNOWN], "nccl-lazy": [DEADLOCK, UNKNOWN]},
    # A short message leaves the receiver waiting for the rest: a mismatch explains that hang.
    "p2p_recv_larger_same_tag": {"nccl": [MISMATCH], "nccl-lazy": [MISMATCH]},
    # The two hosts meet in the creation of different communicators, before any kernel starts.
    "groups_cross_order_async": {"nccl": [POTENTIAL], "nccl-lazy": [DEADLOCK]},
    "p2p_groups_are_channels": {"nccl": [POTENTIAL], "nccl-lazy": [DEADLOCK]},
    "two_pgs_prefetch_swap": {"nccl": [POTENTIAL], "nccl-lazy": [DEADLOCK]},
    # Leaving takes nothing off the device in these models.
    "isend_then_exit_immediately": {
        "nccl": [SAFE, DEADLOCK, POTENTIAL],
        "nccl-lazy": [SAFE, DEADLOCK, POTENTIAL],
    },
    # A batch is on the communicator of the group, single calls are on that of the pair.
    "batch_vs_plain": {"nccl": [SAFE], "nccl-lazy": [DEADLOCK]},
    # The tensors line up one by one where a coalesced call is a group of calls.
    "coal_coalesced_vs_two_plain": {"nccl": [MISMATCH, DEADLOCK]},
}


def _size(action: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    count = action.get("n", 1) if count is None else count
    return {"count": count, "dtype": action.get("dtype", "f32")}


def _group(action: dict[str, Any]) -> dict[str, Any]:
    name = action.get("group", "W")
    return {} if name == "W" else {"group": name}


def _point_to_point(action: dict[str, Any], *, batched: bool = False) -> dict[str, Any]:
    asynchronous = batched or action.get("async", False)
    peer = action["peer"]
    result = {
        "op": ("i" if asynchronous else "") + action["op"],
        "peer": "any" if peer is None else peer,
        **({"tag": action["tag"]} if "tag" in action else {}),
        **_group(action),
        **_size(action),
    }
    if "h" in action:
        result["work"] = action["h"]
    if "tag" in action:
        # The tag is what these programs tell two messages apart by, also where no backend does.
        result["label"] = f"tag{action['tag']}"
    return result


def _collective(action: dict[str, Any], world_size: int) -> dict[str, Any]:
    kind = {"monitored_barrier": "barrier", "fc_all_reduce": "all_reduce"}.get(
        action["op"], action["op"]
    )
    result: dict[str, Any] = {"op": kind, **_group(action)}
    if "in" in action:
        result |= _size(action, sum(action["in"]))
        result |= {"in_splits": action["in"], "out_splits": action["out"]}
    elif kind == "all_to_all":
        result |= _size(action, action.get("n", 1) * world_size)
    elif kind != "barrier":
        result |= _size(action)
    if "root" in action:
        result["root"] = action["root"]
    if "rop" in action:
        result["reduce_op"] = action["rop"]
    if action.get("async"):
        result |= {"async": True, "work": action["h"], "label": action["h"]}
    return result


def _coalesced(action: dict[str, Any]) -> dict[str, Any]:
    return {"op": "coalesced", "kind": "all_reduce", "ops": [_size(one) for one in action["ops"]]}


def _translate(
    action: dict[str, Any], world_size: int, groups: dict[str, Any]
) -> list[dict[str, Any]] | None:
    """Translate one action; None if the rank's program ends here."""
    op = action["op"]
    if op == "raise" or (op == "sleep" and action["s"] >= LONG_SLEEP):
        return None
    if op == "sleep":
        return []
    if op == "new_group":
        groups[action["name"]] = {"ranks": action["members"]}
    if op == "fc_all_reduce" and not action.get("async"):
        call = _collective(action, world_size)
        return [call | {"async": True, "work": "functional"}, _FUNCTIONAL_WAIT]
    writers: dict[str, Callable[[], dict[str, Any]]] = {
        "send": lambda: _point_to_point(action),
        "recv": lambda: _point_to_point(action),
        "batch": lambda: {
            "op": "batch",
            "ops": [_point_to_point(inner, batched=True) for inner in action["ops"]],
        },
        "wait": lambda: {"op": op, "work": action["h"]},
        "test": lambda: {"op": op, "work": action["h"]},
        "coalesced_all_reduce": lambda: _coalesced(action),
        "cm_all_reduce": lambda: _coalesced(action),
        "new_group": lambda: {"op": op, "group": action["name"]},
        "destroy": lambda: {"op": op, "group": action.get("group", "world")},
        "exit": lambda: {"op": op},
    }
    return [writers.get(op, lambda: _collective(action, world_size))()]


_FUNCTIONAL_WAIT = {"op": "wait", "work": "functional"}


def _programs(
    source: dict[str, Any], groups: dict[str, Any]
) -> tuple[list[list[dict[str, Any]]], list[dict[int, int]]]:
    """Translate every rank; give the programs and the new index of every old action."""
    programs, places = [], []
    for actions in source["actions_per_rank"]:
        program: list[dict[str, Any]] = []
        place: dict[int, int] = {}
        for index, action in enumerate(actions):
            translated = _translate(action, source["ranks"], groups)
            if translated is None:
                break
            place[index] = len(program)
            program += translated
        programs.append(program)
        places.append(place)
    return programs, places


def _stuck(source: dict[str, Any], places: list[dict[int, int]]) -> dict[str, int]:
    """Give where each rank stood on gloo; an error of a waiting call counts as standing there."""
    stuck = {}
    for seen in source["observed_gloo"]["ranks"]:
        at = seen.get("stuck_at") or seen.get("error")
        if at is not None and at[0] in places[seen["rank"]]:
            stuck[str(seen["rank"])] = places[seen["rank"]][at[0]]
    return stuck


def _has_any_source(source: dict[str, Any]) -> bool:
    return any(a.get("peer", 0) is None for rank in source["actions_per_rank"] for a in rank)


def _gloo(source: dict[str, Any], places: list[dict[int, int]]) -> dict[str, Any]:
    name, verdict = source["name"], source["observed_gloo"]["verdict"]
    if _has_any_source(source):
        return {"outcomes": [SAFE, POTENTIAL, DEADLOCK, UNKNOWN]}
    if verdict in {"crash", "corrupt"}:
        return {"outcomes": [MISMATCH]}
    if verdict == "ok":
        return {"outcomes": [SAFE, UNKNOWN] if name in NOTHING_MATCHES else [SAFE], "stuck": {}}
    outcomes = ERRORS.get(name, [DEADLOCK])
    if verdict == "hang" and name.startswith(DISAGREEING):
        outcomes = [DEADLOCK, MISMATCH]
    if name in REDUCE_RING:
        return {"outcomes": outcomes}
    return {"outcomes": outcomes, "stuck": _stuck(source, places)}


def _nccl(source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    expected = source["expected_nccl"]
    verdict, why = expected["verdict"], expected["why"]
    two_communicators = any(word in why for word in ("two groups", "launch orders"))
    table = {
        "ok": [SAFE],
        "hang": [DEADLOCK],
        "potential_deadlock": [POTENTIAL] if two_communicators else [DEADLOCK, POTENTIAL],
        "hang_then_watchdog": [DEADLOCK],
        "incomplete": [DEADLOCK],
        "undefined": [MISMATCH],
        "corrupt": [MISMATCH],
        "ok_or_undefined": [SAFE, MISMATCH],
    }
    outcomes = {}
    if verdict in table:
        eager = [DEADLOCK, POTENTIAL] if verdict == "hang" and "lazy init" in why else None
        outcomes = {"nccl": eager or table[verdict], "nccl-lazy": table[verdict]}
    outcomes |= NCCL.get(source["name"], {})
    return {model: {"outcomes": allowed} for model, allowed in outcomes.items()}


def _detail(source: dict[str, Any]) -> dict[str, Any]:
    """Read the runs with TORCH_DISTRIBUTED_DEBUG=DETAIL; their hangs are group timeouts."""
    seen = source.get("observed_gloo_debug_detail")
    if seen is None:
        return {}
    table = {
        "ok": [SAFE],
        "corrupt": [MISMATCH],
        "hang": [DEADLOCK],
        "error": [DEADLOCK, MISMATCH],
    }
    return {"gloo-detail": {"outcomes": table[seen["verdict"]]}}


def translate(source: dict[str, Any]) -> dict[str, Any]:
    """Translate one litmus program into a plan with its expectations."""
    groups: dict[str, Any] = {
        name: {"ranks": members} for name, members in source["groups"].items()
    }
    programs, places = _programs(source, groups)
    if source["name"] in REFUSED:
        expect: dict[str, Any] = {"error": REFUSED[source["name"]]}
    else:
        expect = {"gloo": _gloo(source, places), **_detail(source), **_nccl(source)}
    return {
        "schema": "planguard.plan/1",
        "name": source["name"],
        "world_size": source["ranks"],
        "groups": groups,
        "ranks": {str(rank): {"actions": program} for rank, program in enumerate(programs)},
        "x-expect": expect,
        "x-observed": {"gloo": source["observed_gloo"], "torch": "2.13.0+cpu"},
    }


def render(plan: dict[str, Any]) -> str:
    """Write a plan as text with one action per line."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = []
    for key, value in plan.items():
        if key == "ranks":
            programs = []
            for rank, body in value.items():
                actions = ",\n".join("   " + line(action) for action in body["actions"])
                programs.append(
                    f'  "{rank}": {{"actions": [' + (f"\n{actions}]}}" if actions else "]}")
                )
            parts.append(' "ranks": {\n' + ",\n".join(programs) + "}")
        else:
            parts.append(f" {line(key)}: {line(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def translated() -> dict[str, str]:
    """Give the text of every plan file of litmus/, by file name."""
    programs = json.loads(SOURCE.read_text("utf-8"))["litmus"]
    return {
        f"{source['name']}.plan.json": render(translate(source))
        for source in programs
        if source["tier"] == "core"
    }


def main() -> int:
    """Write the files, and remove those whose program is gone."""
    files = translated()
    for path in LITMUS.glob("*.plan.json"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (LITMUS / name).write_text(text, "utf-8")
    print(f"{len(files)} plans in {LITMUS.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
