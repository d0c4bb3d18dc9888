"""Several communicators and streams in flight, creation of groups, passes that move calls."""

from __future__ import annotations

from typing import Any

from user_cases.words import (
    ALL,
    DEADLOCK,
    GLOO,
    MISMATCH,
    NCCL,
    POTENTIAL,
    SAFE,
    Case,
    Pair,
    Program,
    blamed,
    collective,
    compute,
    message,
    outcomes,
    plan,
    sized,
    wait,
)

HOST_ORDER = (*GLOO, *NCCL, "mpi-eager", "mpi-sync")
"""Under `mpi-pg` the workers of two groups may start in any order, and SAFE is left open."""
GRADS = sized(25 * 1024 * 1024 // 4, "f32")

# -- 9: new_group called with other ranks on other ranks --


def _created(by_all: bool) -> dict[str, Any]:
    groups = {"row0": {"ranks": [0, 1], "created": 0}, "row1": {"ranks": [2, 3], "created": 1}}
    ranks = {}
    for rank in range(4):
        own = f"row{rank // 2}"
        made = ["row0", "row1"] if by_all else [own]
        program = [{"op": "new_group", "group": group} for group in made]
        if not by_all and rank >= 2:
            program[0] = blamed(program[0])
        program.append(collective("all_reduce", own, GRADS))
        ranks[str(rank)] = program
    return plan(4, ranks, groups=groups)


# -- 17: a pass hoists receives above sends that it cannot see --


def _hoisted(hoisted: bool) -> dict[str, Any]:
    size = sized(1024 * 1024, "f32")
    ranks = {}
    for rank in range(4):
        send = message("send", (rank + 1) % 4, size, f"shard{rank}")
        recv = message("recv", (rank - 1) % 4, size, f"shard{(rank - 1) % 4}")
        barrier = collective("barrier", "world")
        if hoisted:
            program = [blamed(recv), barrier, send]
        else:
            program = [barrier, send, recv] if rank % 2 == 0 else [barrier, recv, send]
        ranks[str(rank)] = [*program, compute("use")]
    return plan(4, ranks)


# -- 18: moving a wait moves its collective, on one rank --


def _local(moved: bool) -> dict[str, Any]:
    gather = collective("all_gather_into_tensor", "dp", sized(1 << 20), label="w1", work="w1")
    scatter = collective(
        "reduce_scatter_tensor", "dp", sized(1 << 19), label="g0", reduce_op="sum", work="g0"
    )
    usual: Program = [gather, compute("mm"), scatter, wait("w1"), compute("mm"), wait("g0")]
    other: Program = [
        compute("mm"),
        blamed(scatter),
        wait("g0"),
        gather,
        wait("w1"),
        compute("mm"),
    ]
    groups = {"dp": {"ranks": [0, 1, 2, 3]}}
    if not moved:
        return plan(4, {"0-3": usual}, groups=groups)
    return plan(4, {"0-2": usual, "3": other}, groups=groups)


# -- 19: two groups in another order on two ranks, and the host waits for the device --


def _diverging(diverging: bool) -> dict[str, Any]:
    exchange = collective("all_to_all_single", "shard", sized(64 * 4096), work="lookups")
    reduce = collective("all_reduce", "replicate", sized(1 << 20, "f32"), work="dense")
    sync = {"op": "host_sync"}
    usual = [exchange, sync, reduce, wait("lookups", "dense")]
    late = [reduce, sync, exchange, wait("lookups", "dense")]
    groups = {"shard": {"ranks": list(range(64))}, "replicate": {"ranks": list(range(64))}}
    if not diverging:
        return plan(64, {"0-63": usual}, groups=groups)
    marked = [blamed(reduce), late[1], blamed(exchange), late[3]]
    return plan(64, {"0-5,8-63": usual, "6-7": marked}, groups=groups)


# -- 20: one event gates two all-to-alls --


def _gated(shared: bool) -> dict[str, Any]:
    dispatch = collective(
        "all_to_all_single", "ep", sized(4096 * 7168), label="dispatch", work="dispatch"
    )
    combine = collective(
        "all_to_all_single", "ep", sized(4096 * 7168), label="combine", work="combine"
    )
    dispatch, combine = ({**one, "stream": "comm"} for one in (dispatch, combine))
    done = [wait("dispatch", "combine")]
    groups = {"ep": {"ranks": list(range(4))}}
    if not shared:
        return plan(4, {"0-3": [compute("mlp"), dispatch, combine, *done]}, groups=groups)
    body = [blamed(dispatch), blamed(combine)]
    program = [compute("mlp"), {"op": "unordered", "body": body}, *done]
    return plan(4, {"0-3": program}, groups=groups)


# -- 21, 22, 23, 25: several communicators in flight on one device --


def _mesh(first: int, second: int) -> dict[str, Any]:
    return {
        "mesh": {"dims": [["fsdp", first], ["tp", second]]},
        "groups": {"fsdp": {"mesh_dims": ["fsdp"]}, "tp": {"mesh_dims": ["tp"]}},
    }


def _three(serial: bool) -> dict[str, Any]:
    calls = [
        collective("all_gather_into_tensor", "fsdp", sized(1 << 18), work="gather"),
        collective("reduce_scatter_tensor", "all", sized(1 << 18), reduce_op="sum", work="scatter"),
        collective("all_reduce", "tp", sized(1 << 16), work="reduce"),
    ]
    # Of the four devices of the thread, two that share all three communicators.
    groups = {name: {"ranks": [0, 1]} for name in ("fsdp", "all", "tp")}
    names = ("gather", "scatter", "reduce")
    if serial:
        program = [one for call in zip(calls, map(wait, names), strict=True) for one in call]
    else:
        program = [*(blamed(call) for call in calls), compute("mlp"), wait(*names)]
    return plan(2, {"0-1": program}, groups=groups)


def _one_process(ordered: bool) -> dict[str, Any]:
    gather = collective("all_gather_into_tensor", "fsdp", sized(1 << 22), label="w", work="w")
    reduce = collective("all_reduce", "world", sized(1 << 20), label="norm", work="norm")
    calls = [gather, reduce]
    if not ordered:
        calls = [{"op": "unordered", "body": [blamed(gather), blamed(reduce)]}]
    mesh = _mesh(2, 8)
    return plan(16, {"0-15": [*calls, compute("step"), wait("w", "norm")]}, **mesh)


def _streams(serial: bool) -> dict[str, Any]:
    reduce = collective("all_reduce", "world", sized(1 << 20), label="ar", work="ar")
    gather = collective("all_gather_into_tensor", "half", sized(1 << 20), label="ag", work="ag")
    groups = {
        "mesh": {"dims": [["half", 2], ["dev", 4]]},
        "groups": {"half": {"mesh_dims": ["dev"]}},
    }
    if serial:
        program = [reduce, wait("ar"), gather, compute("fusion"), wait("ag")]
    else:
        both = {"op": "unordered", "body": [blamed(reduce), blamed(gather)]}
        program = [both, compute("fusion"), wait("ar", "ag")]
    return plan(8, {"0-7": program}, **groups)


def _grid(agreed: bool) -> dict[str, Any]:
    rows = collective("all_reduce", "tp", sized(1 << 20, "f32"), work="row")
    columns = collective("all_reduce", "fsdp", sized(1 << 20, "f32"), work="column")
    done = wait("row", "column")
    if agreed:
        return plan(16, {"0-15": [rows, columns, done]}, **_mesh(4, 4))
    even = ",".join(str(r) for r in range(16) if (r // 4 + r % 4) % 2 == 0)
    odd = ",".join(str(r) for r in range(16) if (r // 4 + r % 4) % 2)
    return plan(
        16, {even: [rows, columns, done], odd: [blamed(columns), rows, done]}, **_mesh(4, 4)
    )


def _two_of_the_same(agreed: bool) -> dict[str, Any]:
    one = collective("all_reduce", "one", sized(1 << 22, "f16"), work="one")
    two = collective("all_reduce", "two", sized(1 << 22, "f16"), work="two")
    groups = {"one": {"ranks": [0, 1, 2, 3]}, "two": {"ranks": [0, 1, 2, 3]}}
    done = wait("one", "two")
    if agreed:
        return plan(4, {"0-3": [one, two, done]}, groups=groups)
    return plan(4, {"0-2": [one, two, done], "3": [blamed(two), one, done]}, groups=groups)


# -- 24: a clique that some devices never ask for --


def _cliques(by_all: bool) -> dict[str, Any]:
    size = sized(8, "f32")
    pairs = [(0, 1), (2, 3), (1, 2)]
    ranks = {}
    for rank in range(4):
        program: Program = []
        for place, (source, target) in enumerate(pairs):
            # A device that takes no part has a clique of its own, found in the cache: it skips
            # the split of the parent, which is collective over all devices.
            takes_part = rank in (source, target)
            if takes_part or by_all:
                program.append({"op": "init", "group": f"split{place}"})
                if place == 0 and not by_all:
                    program[-1] = blamed(program[-1])
            if rank == source:
                program.append(message("send", target, size, f"cp{place}"))
            elif rank == target:
                program.append(message("recv", source, size, f"cp{place}"))
        ranks[str(rank)] = program
    return plan(4, ranks, groups={f"split{i}": {"ranks": [0, 1, 2, 3]} for i in range(3)})


CASES = (
    Case(
        9,
        ("pytorch/pytorch#130102",),
        "`new_group` is called with other ranks on other ranks, but creation is collective over "
        "the world.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#130102",
                lambda: _created(by_all=False),
                lambda: _created(by_all=True),
                outcomes(((*GLOO, *NCCL), MISMATCH)),
                ("PG406",),
            ),
        ),
    ),
    Case(
        17,
        ("pytorch/pytorch#189454", "meta-pytorch/torchcomms#3095", "pytorch/pytorch#189729"),
        "A compiler pass hoists receives above sends and barriers that it cannot see.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#189454",
                lambda: _hoisted(hoisted=True),
                lambda: _hoisted(hoisted=False),
                outcomes((ALL, DEADLOCK)),
                ("PG001", "PG109"),
                safe=(*GLOO, *NCCL, "mpi-sync"),
            ),
        ),
    ),
    Case(
        18,
        ("pytorch/pytorch#150074",),
        "A pass that moves a wait moves its collective with it, on one rank only.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#150074",
                lambda: _local(moved=True),
                lambda: _local(moved=False),
                outcomes((NCCL, MISMATCH), (("gloo",), [*MISMATCH, *DEADLOCK])),
                ("PG201", "PG212"),
            ),
        ),
    ),
    Case(
        19,
        ("meta-pytorch/torchrec#4149",),
        "Two ranks use two groups in another order, and an implicit synchronization makes every "
        "host wait for the device.",
        "yes",
        (
            Pair(
                "meta-pytorch/torchrec#4149",
                lambda: _diverging(diverging=True),
                lambda: _diverging(diverging=False),
                outcomes((NCCL, DEADLOCK)),
                ("PG004", "PG109"),
                safe=HOST_ORDER,
            ),
        ),
    ),
    Case(
        20,
        ("NVIDIA/Megatron-LM#1810",),
        "One shared event gates two all-to-alls, so that ranks may launch them in either order.",
        "yes",
        (
            Pair(
                "NVIDIA/Megatron-LM#1810",
                lambda: _gated(shared=True),
                lambda: _gated(shared=False),
                outcomes((NCCL, MISMATCH), (("gloo",), MISMATCH)),
                ("PG102",),
            ),
        ),
    ),
    Case(
        21,
        ("ROCm/rccl#2191",),
        "Three communicators run at once in one order on all ranks, and starve the hardware "
        "queues.",
        "partly",
        (
            Pair(
                "ROCm/rccl#2191",
                lambda: _three(serial=False),
                lambda: _three(serial=True),
                outcomes((("nccl",), POTENTIAL)),
                ("PG107", "PG002", "PG004"),
                check={"strict_start_order": False},
            ),
        ),
        "With the opt-in that lets a device start kernels in any order; by default it is a note.",
    ),
    Case(
        22,
        ("marin-community/marin#7344",),
        "One process drives several GPUs, and their launches reach the devices in varying orders.",
        "partly",
        (
            Pair(
                "marin-community/marin#7344",
                lambda: _one_process(ordered=False),
                lambda: _one_process(ordered=True),
                outcomes((("nccl",), POTENTIAL)),
                ("PG107", "PG002", "PG004"),
                safe=HOST_ORDER,
            ),
        ),
        "The cause is not proven in the thread; the plan says which order has to be enforced.",
    ),
    Case(
        23,
        ("openxla/xla#40656",),
        "Collectives that share more than one device are overlapped on several streams.",
        "yes",
        (
            Pair(
                "openxla/xla#40656",
                lambda: _streams(serial=False),
                lambda: _streams(serial=True),
                outcomes((("nccl",), POTENTIAL)),
                ("PG107", "PG002", "PG004"),
            ),
        ),
    ),
    Case(
        24,
        ("openxla/xla#44530",),
        "Devices outside a permutation do not join the creation of its clique, which is "
        "collective over all of them.",
        "yes",
        (
            Pair(
                "openxla/xla#44530",
                lambda: _cliques(by_all=False),
                lambda: _cliques(by_all=True),
                outcomes((NCCL, DEADLOCK), (("gloo",), DEADLOCK)),
                ("PG007", "PG109"),
            ),
        ),
    ),
    Case(
        25,
        ("NVIDIA/nccl#195", "NVIDIA/nccl#1174"),
        "Users ask which order several communicators need; the answer was not to overlap them.",
        "yes",
        (
            Pair(
                "NVIDIA/nccl#195",
                lambda: _grid(agreed=False),
                lambda: _grid(agreed=True),
                outcomes(
                    (("nccl", "nccl-eager"), POTENTIAL),
                    (("nccl-serialized", "nccl-lazy"), DEADLOCK),
                    (("gloo",), SAFE),
                ),
                ("PG002", "PG109"),
                safe=HOST_ORDER,
                safe_iff="launch-order",
            ),
            Pair(
                "NVIDIA/nccl#1174",
                lambda: _two_of_the_same(agreed=False),
                lambda: _two_of_the_same(agreed=True),
                outcomes(
                    (("nccl",), POTENTIAL), (("nccl-serialized",), DEADLOCK), (("gloo",), SAFE)
                ),
                ("PG004",),
                safe=HOST_ORDER,
                safe_iff="launch-order",
            ),
        ),
    ),
)
