"""Sends, receives and collectives of one group: orders, orphans, sizes and roots."""

from __future__ import annotations

from typing import Any

from user_cases.words import (
    ALL,
    DEADLOCK,
    GLOO,
    MISMATCH,
    MPI,
    NCCL,
    POTENTIAL,
    SAFE,
    Case,
    Pair,
    Program,
    batch,
    blamed,
    collective,
    compute,
    message,
    outcomes,
    plan,
    sized,
    wait,
)

# -- 6: head to head --


def _exchange(grouped: bool) -> dict[str, Any]:
    size = sized(32 * 512 * 1024, "f16")
    ranks = {}
    for rank in range(2):
        program: Program = []
        for step in range(3):
            send = message("send", 1 - rank, size, f"x{rank}.{step}")
            recv = message("recv", 1 - rank, size, f"x{1 - rank}.{step}")
            program.append(compute("layer"))
            if grouped:
                program.append(batch([{**send, "op": "isend"}, {**recv, "op": "irecv"}]))
            else:
                program += [blamed(send) if step == 0 else send, recv]
        ranks[str(rank)] = program
    return plan(2, ranks)


# -- 7: isend and irecv interleaved on one rank, in blocks on the other --


def _interleaved(same: bool) -> dict[str, Any]:
    size = sized(1024, "f32")

    def post(op: str, peer: int, name: str) -> dict[str, Any]:
        return message(op, peer, size, name, work=name)

    forth = [post("isend", 1, "f0"), post("irecv", 1, "b0"), post("isend", 1, "f1")]
    forth += [post("irecv", 1, "b1"), wait("f0", "f1"), wait("b0", "b1")]
    if same:
        back = [post("irecv", 0, "f0"), post("isend", 0, "b0"), post("irecv", 0, "f1")]
        back += [post("isend", 0, "b1")]
    else:
        forth[1] = blamed(forth[1])
        back = [post("irecv", 0, "f0"), blamed(post("irecv", 0, "f1")), post("isend", 0, "b0")]
        back += [post("isend", 0, "b1")]
    return plan(2, {"0": forth, "1": [*back, wait("f0", "f1"), wait("b0", "b1")]})


# -- 8: messages that alternate between the default group and a subgroup --


def _alternating(agreed: bool) -> dict[str, Any]:
    size = sized(4 * 1024 * 1024, "f32")
    ranks: dict[str, Any] = {}
    for rank in range(6):
        peer = (rank + 3) % 6
        op = "isend" if rank < 3 else "irecv"
        groups = ["world", f"pair{rank % 3}"]
        if rank >= 3 and not agreed:
            groups.reverse()
        program: Program = []
        for step in range(2):
            posted = []
            for group in groups:
                one = message(op, peer, size, f"{group}.{step}", group=group)
                posted.append({**one, "work": f"{group}.{step}"})
            if not agreed and step == 0:
                posted[0] = blamed(posted[0])
            program += [*posted, wait(*(one["work"] for one in posted))]
        ranks[str(rank)] = program
    return plan(6, ranks, groups={f"pair{i}": {"ranks": [i, i + 3]} for i in range(3)})


# -- 10: an isend without a receive --


def _lonely(received: bool) -> dict[str, Any]:
    size = sized(1, "f32")
    send = message("isend", 1, size, "token", work="token")
    other = [message("irecv", 0, size, "token", work="token"), compute("step"), wait("token")]
    return plan(
        2,
        {
            "0": [send if received else blamed(send), compute("step"), wait("token")],
            "1": other if received else [compute("step"), compute("step")],
        },
    )


# -- 11: two messages without a partner, and a third rank --


def _unpaired(paired: bool) -> dict[str, Any]:
    size = sized(1000 * 1000, "f32")
    recv = message("recv", 1, size, "late")
    send = message("send", 1, size, "early")
    return plan(
        3,
        {
            "0": [collective("all_reduce", "world", size), recv if paired else blamed(recv)],
            "1": [
                collective("all_reduce", "world", size),
                *(
                    [message("recv", 2, size, "early"), message("send", 0, size, "late")]
                    if paired
                    else []
                ),
            ],
            "2": [collective("all_reduce", "world", size), send if paired else blamed(send)],
        },
    )


# -- 12: one group of messages, split at another place on each rank --


def _split(aligned: bool) -> dict[str, Any]:
    count, budget = 160, 256
    size = sized(7168 * 2048, "bf16")
    ranks = {}
    for rank in range(2):
        sends = [message("isend", 1 - rank, size, f"expert{i} of {rank}") for i in range(count)]
        recvs = [message("irecv", 1 - rank, size, f"expert{i} of {1 - rank}") for i in range(count)]
        if aligned:
            ops = [one for pair in zip(sends, recvs, strict=True) for one in pair]
        else:
            ops = [*sends, *recvs]
        pieces = [batch(ops[i : i + budget]) for i in range(0, len(ops), budget)]
        if not aligned:
            pieces[0] = blamed(pieces[0])
        ranks[str(rank)] = pieces
    return plan(2, ranks)


# -- 13: a reduce and a chain of messages in one communicator --


def _chain(agreed: bool) -> dict[str, Any]:
    world = 4
    chunk, scalar = sized(100 * world, "f32"), sized(1, "f32")
    ranks = {}
    for rank in range(world):
        reduce = collective("reduce", "world", scalar, root=world - 1, reduce_op="sum", work="sum")
        recv = message("irecv", rank - 1, chunk, f"chunk{rank - 1}", work="in")
        send = message("isend", rank + 1, chunk, f"chunk{rank}", work="out")
        if rank == 0:
            program = [send, reduce] if agreed else [blamed(reduce), send]
            end = ["sum", "out"]
        elif rank == world - 1:
            program, end = [recv, reduce], ["in", "sum"]
        else:
            program = [recv, send, reduce] if agreed else [recv, reduce, send]
            end = ["in", "sum", "out"]
        ranks[str(rank)] = [*program, wait(*end)]
    return plan(world, ranks)


# -- 14, 15, 16: roots and sizes --


def _roots(agreed: bool) -> dict[str, Any]:
    def program(root: int, *, wrong: bool = False) -> Program:
        reduce = collective("reduce", "world", sized(3, "f32"), root=root, reduce_op="sum")
        return [
            blamed(reduce) if wrong else reduce,
            collective("all_reduce", "world", sized(4096, "f32"), reduce_op="sum"),
        ]

    return plan(2, {"0": program(0), "1": program(0 if agreed else 1, wrong=not agreed)})


def _counts(agreed: bool, ranks: int = 8, odd: int = 5) -> dict[str, Any]:
    def program(count: int, *, wrong: bool = False) -> Program:
        reduce = collective("all_reduce", "world", sized(count, "f32"), label="loss")
        grads = collective("all_reduce", "world", sized(25_557_032, "f32"), label="grads")
        return [compute("forward"), grads, blamed(reduce) if wrong else reduce]

    if agreed:
        return plan(ranks, {f"0-{ranks - 1}": program(1)})
    return plan(
        ranks,
        {
            f"0-{odd - 1},{odd + 1}-{ranks - 1}": program(1),
            str(odd): program(2, wrong=True),
        },
    )


def _longer(agreed: bool) -> dict[str, Any]:
    recv = message("recv", 0, sized(10 if agreed else 20, "f32"))
    return plan(
        2,
        {
            "0": [compute("fill"), message("send", 1, sized(10, "f32"))],
            "1": [recv if agreed else blamed(recv), compute("use")],
        },
    )


def _splits(agreed: bool) -> dict[str, Any]:
    # What rank i sends to rank j; rank 3 believes that rank 1 sends it one row less.
    rows = [[2, 1, 3, 2], [1, 4, 1, 2], [3, 2, 1, 2], [2, 2, 2, 2]]
    ranks = {}
    for rank in range(4):
        received = [rows[peer][rank] for peer in range(4)]
        wrong = not agreed and rank == 3
        if wrong:
            received[1] -= 1
        exchange = collective(
            "all_to_all_single",
            "world",
            sized(sum(rows[rank]), "f32"),
            in_splits=rows[rank],
            out_splits=received,
        )
        lengths = collective("all_to_all_single", "world", sized(4, "i64"))
        ranks[str(rank)] = [lengths, blamed(exchange) if wrong else exchange]
    return plan(4, ranks)


CASES = (
    Case(
        6,
        ("NVIDIA/nccl#479",),
        "Both ranks send before they receive, outside a group.",
        "yes",
        (
            Pair(
                "NVIDIA/nccl#479",
                lambda: _exchange(grouped=False),
                lambda: _exchange(grouped=True),
                outcomes((ALL, DEADLOCK)),
                ("PG001", "PG011"),
                safe=(*GLOO, *NCCL, "mpi-eager", "mpi-sync"),
                safe_iff="send-buffering",
            ),
        ),
    ),
    Case(
        7,
        ("pytorch/pytorch#109401",),
        "One rank interleaves its isends and irecvs, the other posts all receives first.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#109401",
                lambda: _interleaved(same=False),
                lambda: _interleaved(same=True),
                outcomes((NCCL, DEADLOCK), (("gloo", "mpi-sync", "mpi-eager"), SAFE)),
                ("PG001", "PG108"),
            ),
        ),
    ),
    Case(
        8,
        ("pytorch/pytorch#116590",),
        "Messages alternate between the default group and a subgroup, on several communicators of "
        "one device.",
        "partly",
        (
            Pair(
                "pytorch/pytorch#116590",
                lambda: _alternating(agreed=False),
                lambda: _alternating(agreed=True),
                outcomes(
                    (("nccl",), POTENTIAL), (("nccl-serialized",), DEADLOCK), (("gloo",), SAFE)
                ),
                ("PG001", "PG107", "PG004"),
                safe=("gloo", "nccl", "nccl-eager", "nccl-serialized", "mpi-sync"),
                safe_iff="launch-order",
            ),
        ),
        "Caught where the ranks use the groups in different orders; with equal orders only the "
        "number of resident kernels decides, which a plan does not know.",
    ),
    Case(
        10,
        ("pytorch/pytorch#108378",),
        "An isend that nobody receives blocks the host: the first use of a communicator is a "
        "rendezvous.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#108378",
                lambda: _lonely(received=False),
                lambda: _lonely(received=True),
                outcomes((NCCL, DEADLOCK), (GLOO, DEADLOCK)),
                ("PG208", "PG210", "PG109"),
            ),
        ),
        "Not found by a run on gloo that never waits; a plan has the orphan under every model.",
    ),
    Case(
        11,
        ("pytorch/pytorch#113281",),
        "A send and a receive have no partner on the third rank, and hang where the watchdog does "
        "not look.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#113281",
                lambda: _unpaired(paired=False),
                lambda: _unpaired(paired=True),
                outcomes((ALL, DEADLOCK)),
                ("PG208", "PG209"),
            ),
        ),
    ),
    Case(
        12,
        ("pytorch/pytorch#174288", "pytorch/pytorch#174942"),
        "NCCL splits a large group of messages by budget, at places that differ between ranks.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#174288",
                lambda: _split(aligned=False),
                lambda: _split(aligned=True),
                outcomes((NCCL, DEADLOCK)),
                ("PG011", "PG001"),
                safe=("gloo", *NCCL, "mpi-sync"),
            ),
        ),
        "The places of the split are part of the plan; NCCL's own arithmetic is not modeled.",
    ),
    Case(
        13,
        ("NVIDIA/nccl#1192",),
        "The first rank issues a reduce before its send, all others receive before the reduce.",
        "yes",
        (
            Pair(
                "NVIDIA/nccl#1192",
                lambda: _chain(agreed=False),
                lambda: _chain(agreed=True),
                outcomes(
                    (("nccl", "nccl-eager", "nccl-serialized"), DEADLOCK),
                    (("gloo", "mpi-sync"), SAFE),
                ),
                ("PG003",),
                safe=("gloo", *NCCL, "mpi-sync"),
            ),
        ),
    ),
    Case(
        14,
        ("pytorch/pytorch#39706",),
        "The ranks of a reduce disagree in its destination; later kernels hang.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#39706",
                lambda: _roots(agreed=False),
                lambda: _roots(agreed=True),
                outcomes(((*GLOO, *NCCL, *MPI), MISMATCH)),
                ("PG205",),
            ),
        ),
    ),
    Case(
        15,
        ("pytorch/pytorch#97191",),
        "One rank calls an all-reduce with another number of elements.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#97191",
                lambda: _counts(agreed=False),
                lambda: _counts(agreed=True),
                outcomes((ALL, MISMATCH)),
                ("PG202",),
            ),
        ),
    ),
    Case(
        16,
        ("pytorch/pytorch#113376", "pytorch/pytorch#117486", "NVIDIA/nccl#1417"),
        "Sizes that nobody compares: a receive longer than its send, splits of an all-to-all, "
        "shapes of an all-reduce.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#113376",
                lambda: _longer(agreed=False),
                lambda: _longer(agreed=True),
                outcomes(((*GLOO, *NCCL), MISMATCH)),
                ("PG202",),
            ),
            Pair(
                "pytorch/pytorch#117486",
                lambda: _splits(agreed=False),
                lambda: _splits(agreed=True),
                outcomes((ALL, MISMATCH)),
                ("PG206",),
            ),
            Pair(
                "NVIDIA/nccl#1417",
                lambda: _counts(agreed=False, ranks=4, odd=2),
                lambda: _counts(agreed=True, ranks=4),
                outcomes((ALL, MISMATCH)),
                ("PG202",),
            ),
        ),
    ),
)
