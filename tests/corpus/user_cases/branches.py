"""Control flow that differs between ranks: buckets, experts, ends of sequences, loops, traces."""

from __future__ import annotations

from typing import Any

from user_cases.words import (
    ALL,
    DEADLOCK,
    GLOO,
    MISMATCH,
    NCCL,
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

# -- 26: buckets of DDP against an all-to-all of the embeddings, first iteration --


def _buckets(overlapped: bool) -> dict[str, Any]:
    exchange = collective("all_to_all_single", "world", sized(4096, "i64"), label="lengths")
    buckets = [
        collective("all_reduce", "world", sized(262_144, "f32"), label=f"bucket{i}")
        for i in range(2)
    ]
    if overlapped:
        chain = [blamed(buckets[0]), *buckets[1:]]
        body: Program = [{"op": "unordered", "body": [blamed(exchange), chain]}]
    else:
        body = [exchange, *buckets]
    return plan(4, {"0-3": [compute("backward"), *body, compute("step")]})


# -- 27, 28, 29: branches that are not uniform --


def _experts(gathered: bool) -> dict[str, Any]:
    scatter = [
        collective("reduce_scatter_tensor", "world", sized(1 << 20), label=f"expert{i}.grad")
        for i in range(2)
    ]
    program: Program = [collective("all_to_all_single", "world", sized(8192), label="tokens")]
    for i in (1, 0):
        if gathered:
            program.append(scatter[i])
        else:
            branches = [[blamed(scatter[i])], []]
            program.append(
                {"op": "choice", "name": f"expert{i}", "uniform": False, "branches": branches}
            )
    program.append(collective("all_reduce", "world", sized(1, "f32"), label="norm"))
    return plan(2, {"0-1": program})


def _generation(synced: bool) -> dict[str, Any]:
    decode = [
        collective("all_gather_into_tensor", "world", sized(896 * 896 // 8), label="student.layer")
    ]
    if not synced:
        decode = [blamed(decode[0])]
    stop = {"op": "choice", "name": "eos", "uniform": synced, "branches": [decode, []]}
    agree = [collective("all_reduce", "world", sized(1, "i32"), label="finished", reduce_op="max")]
    teacher = collective(
        "all_gather_into_tensor", "world", sized(3584 * 3584 // 8), label="teacher.layer"
    )
    last = teacher if synced else blamed(teacher)
    return plan(4, {"0-3": [*(agree if synced else []), stop, last]})


def _overflow(agreed: bool) -> dict[str, Any]:
    reduce = collective("all_reduce", "world", sized(5_000_000, "f16"), label="bucket")
    found = collective("all_reduce", "world", sized(1, "f32"), label="overflow", reduce_op="max")
    gather = collective("gather", "world", sized(1, "i64"), root=0, label="lr")
    steps: Program = [{"op": "repeat", "times": 32, "body": [{**reduce, "label": "bucket{i}"}]}]
    if agreed:
        return plan(4, {"0-3": [*steps, reduce, found, gather]})
    return plan(4, {"0,2-3": [*steps, reduce, found], "1": [*steps, blamed(gather)]})


# -- 30, 31: recorded runs --


def _loops(equal: bool) -> dict[str, Any]:
    def step(times: int) -> Program:
        body = [compute("generate"), collective("all_reduce", "world", sized(1, "i32"))]
        return [{"op": "repeat", "times": times, "body": body}]

    save = collective("barrier", "world")
    if equal:
        return plan(2, {"0-1": [*step(20), save]})
    return plan(2, {"0": [*step(20), blamed(save)], "1": [*step(20), {"op": "exit"}]})


def _summary(on_all: bool) -> dict[str, Any]:
    body = [compute("sample"), collective("all_reduce", "world", sized(3, "f64"), label="stats{i}")]
    loop = {"op": "repeat", "times": 10, "body": body}
    summary = collective("all_reduce", "world", sized(3, "f64"), label="summary")
    final = collective("all_reduce", "world", sized(3, "f64"), label="evaluate")
    if on_all:
        return plan(2, {"0-1": [loop, summary, final]})
    return plan(2, {"0": [loop, blamed(summary), final], "1": [loop, final]})


def _op_counts(equal: bool) -> dict[str, Any]:
    start: Program = [
        {
            "op": "repeat",
            "times": 640,
            "body": [collective("broadcast", "world", sized(65536, "f32"), root=0)],
        },
        *(collective("all_reduce", "world", sized(n, "f32")) for n in (512, 128, 128)),
        collective("all_gather", "world", sized(1, "i64")),
    ]
    gather = collective("all_gather", "world", sized(480, "u8"))
    reduce = collective("all_reduce", "world", sized(2048, "f32"))
    if equal:
        return plan(4, {"0-3": [*start, gather, reduce]})
    return plan(4, {"0-2": [*start, gather, reduce], "3": [*start, blamed(reduce), gather]})


# -- 32: a size that a stage infers otherwise than its neighbor --


def _truncated(agreed: bool) -> dict[str, Any]:
    ranks: dict[str, Any] = {}
    for rank in range(16):
        peer = (rank + 8) % 16
        tokens = sized(1, "i32") if rank < 8 or agreed else sized(2, "i32")
        if rank < 8:
            one = message("send", peer, tokens, "F0.0 shape", group="pp")
            data = message("send", peer, sized(2048 * 256), "F0.0", group="pp")
        else:
            one = message("recv", peer, tokens, "F0.0 shape", group="pp")
            data = message("recv", peer, sized(2048 * 256), "F0.0", group="pp")
        ranks[str(rank)] = [one if agreed or rank < 8 else blamed(one), data]
    mesh = {
        "mesh": {"dims": [["pp", 2], ["dp", 2], ["tp", 4]]},
        "groups": {"pp": {"mesh_dims": ["pp"]}},
    }
    return plan(16, ranks, **mesh)


# -- 34: a reducer that starts in every backward; generated traces that miss a partner --


def _reducer(accumulated: bool) -> dict[str, Any]:
    program: Program = []
    reduce = collective("all_reduce", "dp", sized(1 << 20, "f32"), reduce_op="sum", reads=["grads"])
    reduce["writes"] = ["grads"]
    for mb in range(4):
        write = compute("backward", mb=mb, reads=["grads"], writes=["grads"])
        program.append(blamed(write) if mb and not accumulated else write)
        if not accumulated or mb == 3:
            program.append({**reduce, "async": True, "work": f"sync{mb}", "label": f"grads.{mb}"})
    program.append(wait(*(one["work"] for one in program if "work" in one)))
    mesh = {
        "mesh": {"dims": [["pp", 2], ["dp", 2]]},
        "groups": {"dp": {"mesh_dims": ["dp"]}},
        "tensors": {"grads": {"shape": [1 << 20], "dtype": "f32"}},
    }
    return plan(4, {"0-3": program}, **mesh)


def _unreleased(complete: bool) -> dict[str, Any]:
    size = sized(4096 * 1024, "f16")
    programs: dict[str, Any] = {}
    for rank in range(4):
        program: Program = []
        for mb in range(4):
            if rank:
                program.append(message("recv", rank - 1, size, f"F{rank - 1}.{mb}"))
            program.append(compute("F", mb=mb))
            if rank < 3 and (complete or (rank, mb) != (1, 3)):
                program.append(message("send", rank + 1, size, f"F{rank}.{mb}"))
        programs[str(rank)] = program
    if not complete:
        last = programs["2"]
        place = max(i for i, one in enumerate(last) if one["op"] == "recv")
        last[place] = blamed(last[place])
    return plan(4, programs)


def _uneven(complete: bool) -> dict[str, Any]:
    def step(count: int) -> Program:
        calls = [
            collective("all_reduce", "dp", sized(1 << 22, "f16"), label=f"block{i}.grad")
            for i in range(count)
        ]
        return [compute("backward"), *calls]

    groups = {"dp": {"ranks": list(range(8))}}
    if complete:
        return plan(8, {"0-7": step(16)}, groups=groups)
    others = step(16)
    others[-1] = blamed(others[-1])
    return plan(8, {"0-6": others, "7": step(15)}, groups=groups)


CASES = (
    Case(
        26,
        ("pytorch/pytorch#72843",),
        "In the first iteration a bucket of DDP starts on one rank while another is in an "
        "all-to-all of the same group.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#72843",
                lambda: _buckets(overlapped=True),
                lambda: _buckets(overlapped=False),
                outcomes((NCCL, MISMATCH), (("gloo",), MISMATCH)),
                ("PG102", "PG103", "PG201"),
            ),
        ),
    ),
    Case(
        27,
        ("deepspeedai/DeepSpeed#5008", "huggingface/transformers#30277", "pytorch/pytorch#126616"),
        "Ranks use different experts, so their hooks start different reduce-scatters.",
        "partly",
        (
            Pair(
                "deepspeedai/DeepSpeed#5008",
                lambda: _experts(gathered=False),
                lambda: _experts(gathered=True),
                outcomes((("nccl", "gloo"), MISMATCH)),
                ("PG110", "PG102", "PG212", "PG201"),
                safe_iff="uniform-branch",
            ),
        ),
        "The plan has to say that the branch depends on data; a plan of one rank does not.",
    ),
    Case(
        28,
        ("deepspeedai/DeepSpeed#8262",),
        "Ranks end their sequences at different lengths; some enter the next all-gather of the "
        "student, others the teacher's.",
        "partly",
        (
            Pair(
                "deepspeedai/DeepSpeed#8262",
                lambda: _generation(synced=False),
                lambda: _generation(synced=True),
                outcomes((("nccl", "gloo"), MISMATCH)),
                ("PG110", "PG202", "PG212"),
                safe_iff="uniform-branch",
            ),
        ),
        "As above.",
    ),
    Case(
        29,
        ("deepspeedai/DeepSpeed#7568",),
        "One rank stands in a gather at the start of its sequence, the others in an all-reduce.",
        "partly",
        (
            Pair(
                "deepspeedai/DeepSpeed#7568",
                lambda: _overflow(agreed=False),
                lambda: _overflow(agreed=True),
                outcomes((NCCL, MISMATCH), (("gloo",), [*MISMATCH, *DEADLOCK])),
                ("PG201",),
            ),
        ),
        "Where the ranks stand is caught, as a recorded run; why they came there is not settled "
        "in the thread.",
    ),
    Case(
        30,
        ("huggingface/transformers#17478", "netket/netket#2275"),
        "One rank leaves the loop, or runs a collective that only rank 0 runs; from then on all "
        "are off by one.",
        "yes",
        (
            Pair(
                "huggingface/transformers#17478",
                lambda: _loops(equal=False),
                lambda: _loops(equal=True),
                outcomes((ALL, DEADLOCK)),
                ("PG006",),
            ),
            Pair(
                "netket/netket#2275",
                lambda: _summary(on_all=False),
                lambda: _summary(on_all=True),
                outcomes((("nccl", "gloo"), [*DEADLOCK, *MISMATCH])),
                ("PG212", "PG007"),
            ),
        ),
        "In a recorded run, or a plan that has every rank's own program.",
    ),
    Case(
        31,
        ("NVIDIA/nccl#296",),
        "One rank calls its collectives in another order; it was found by comparing logs by hand.",
        "yes",
        (
            Pair(
                "NVIDIA/nccl#296",
                lambda: _op_counts(equal=False),
                lambda: _op_counts(equal=True),
                outcomes((NCCL, MISMATCH), (GLOO[:1], [*MISMATCH, *DEADLOCK])),
                ("PG201",),
            ),
        ),
    ),
    Case(
        32,
        ("pytorch/torchtitan#1681",),
        "Two stages of a pipeline disagree in the size of a message: 8 bytes arrive instead of 4.",
        "partly",
        (
            Pair(
                "pytorch/torchtitan#1681",
                lambda: _truncated(agreed=False),
                lambda: _truncated(agreed=True),
                outcomes(((*NCCL, *GLOO), MISMATCH)),
                ("PG202",),
                safe=(*NCCL, *GLOO, "mpi-sync"),
            ),
        ),
        "If the plan has both sizes; the thread does not say where the difference comes from.",
    ),
    Case(
        33,
        ("jax-ml/jax#38503", "NVIDIA/nccl#1730", "horovod/horovod#457"),
        "One rank of many is alive but stuck, by a fault of the environment or the run time.",
        "no",
        why="Nothing is wrong with the plan. `planguard audit` says from the dumps of all ranks "
        "who is missing and that the plan does not explain it.",
    ),
    Case(
        34,
        ("microsoft/nnscaler#22", "astra-sim/astra-sim#339", "astra-sim/stage#18"),
        "An asynchronous reducer starts in every backward of a pipeline; generated traces hold "
        "operations without a partner.",
        "yes",
        (
            Pair(
                "microsoft/nnscaler#22",
                lambda: _reducer(accumulated=False),
                lambda: _reducer(accumulated=True),
                outcomes((ALL, ["SAFE"])),
                ("PG305",),
            ),
            Pair(
                "astra-sim/astra-sim#339",
                lambda: _unreleased(complete=False),
                lambda: _unreleased(complete=True),
                outcomes((ALL, DEADLOCK)),
                ("PG209",),
            ),
            Pair(
                "astra-sim/stage#18",
                lambda: _uneven(complete=False),
                lambda: _uneven(complete=True),
                outcomes((ALL, DEADLOCK)),
                ("PG007",),
            ),
        ),
        "The reducer is an error of buffers, PG305: the outcome SAFE speaks of progress only.",
    ),
)
