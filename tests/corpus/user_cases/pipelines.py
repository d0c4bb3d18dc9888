"""Pipelines: orders of sends and receives that cannot finish, or that mix two messages."""

from __future__ import annotations

from typing import Any

from user_cases.words import (
    DEADLOCK,
    GLOO,
    MISMATCH,
    NCCL,
    SAFE,
    Case,
    Pair,
    Program,
    batch,
    blamed,
    compute,
    message,
    outcomes,
    pipeline,
    plan,
    sized,
    wait,
)

# -- 1: two ranks, four stages, four microbatches; sequence 4,096, hidden 4,096 --

ACTIVATION = sized(4096 * 4096)
DEFERRED = (
    (
        "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 0F2 0SEND_F2 "
        "2RECV_B0 2B0 2SEND_B0 0F3 0SEND_F3 2RECV_B1 2B1 2SEND_B1 2RECV_F2 2F2 2SEND_F2 "
        "0RECV_B0 0B0 2RECV_F3 2F3 2SEND_F3 0RECV_B1 0B1 2RECV_B2 2B2 2SEND_B2 2RECV_B3 2B3 "
        "2SEND_B3 0RECV_B2 0B2 0RECV_B3 0B3"
    ),
    (
        "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3B0 3SEND_B0 3RECV_F1 3F1 "
        "3B1 3SEND_B1 1RECV_F2 1F2 1SEND_F2 1RECV_B0 1B0 1SEND_B0 1RECV_F3 1F3 1SEND_F3 "
        "1RECV_B1 1B1 1SEND_B1 3RECV_F2 3F2 3B2 3SEND_B2 3RECV_F3 3F3 3B3 3SEND_B3 1RECV_B2 "
        "1B2 1SEND_B2 1RECV_B3 1B3 1SEND_B3"
    ),
)
FRONT_LOADED = (
    (
        "0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 2F1 2SEND_F1 2RECV_B0 0F2 "
        "0SEND_F2 2B0 2SEND_B0 2RECV_B1 0F3 0SEND_F3 2RECV_F2 2B1 2SEND_B1 0RECV_B0 2F2 "
        "2SEND_F2 2RECV_F3 0B0 0RECV_B1 2F3 2SEND_F3 0B1 2RECV_B2 2B2 2SEND_B2 2RECV_B3 2B3 "
        "2SEND_B3 0RECV_B2 0B2 0RECV_B3 0B3"
    ),
    (
        "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3B0 3SEND_B0 "
        "1RECV_F2 3F1 1RECV_B0 3B1 3SEND_B1 1RECV_F3 1F2 1SEND_F2 1RECV_B1 1B0 1SEND_B0 "
        "3RECV_F2 1F3 1SEND_F3 1B1 1SEND_B1 3RECV_F3 3F2 3B2 3SEND_B2 1RECV_B2 3F3 3B3 "
        "3SEND_B3 1RECV_B3 1B2 1SEND_B2 1B3 1SEND_B3"
    ),
)


def _interleaved(cells: tuple[str, str], blame: tuple[str, ...] = ()) -> dict[str, Any]:
    return plan(
        2,
        {str(r): pipeline(cells[r], r, lambda s: s % 2, ACTIVATION, blame) for r in range(2)},
        groups={"pp": {"ranks": [0, 1]}},
    )


# -- 2: Megatron's exchange of shapes, four stages, eight microbatches --

SHAPE = sized(3, "i64")
Transfer = tuple[str, str, int, str]  # op, side, microbatch, what


def _one_f_one_b(stage: int, stages: int, count: int) -> list[list[Transfer]]:
    """List the combined transfers of a 1F1B step of one stage, as Megatron calls them."""
    first, last = stage == 0, stage == stages - 1
    forward = [] if last else ["next"]
    calls: list[list[Transfer]] = []
    warm = min(stages - 1 - stage, count)

    def recv_forward(mb: int) -> list[Transfer]:
        return [] if first else [("recv", "prev", mb, "F")]

    def send_forward(mb: int) -> list[Transfer]:
        return [("send", side, mb, "F") for side in forward]

    def recv_backward(mb: int) -> list[Transfer]:
        return [("recv", side, mb, "B") for side in forward]

    def send_backward(mb: int) -> list[Transfer]:
        return [] if first else [("send", "prev", mb, "B")]

    for mb in range(warm):
        calls += [recv_forward(mb), send_forward(mb)]
    if warm < count:
        calls.append(recv_forward(warm))
    for mb in range(warm, count):
        calls.append([*send_forward(mb), *recv_backward(mb - warm)])
        more = recv_forward(mb + 1) if mb + 1 < count else []
        calls.append([*send_backward(mb - warm), *more])
    for mb in range(count - warm, count):
        calls += [recv_backward(mb), send_backward(mb)]
    return [call for call in calls if call]


FIXED = [("send", "prev"), ("recv", "prev"), ("send", "next"), ("recv", "next")]
EVEN = [("send", "next"), ("recv", "prev"), ("send", "prev"), ("recv", "next")]
ODD = [("recv", "prev"), ("send", "next"), ("recv", "next"), ("send", "prev")]


def _shapes(alternating: bool) -> dict[str, Any]:
    ranks = {}
    for stage in range(4):
        order = FIXED if not alternating else (ODD if stage % 2 else EVEN)
        program: Program = []
        for call in _one_f_one_b(stage, 4, 8):
            call.sort(key=lambda one: order.index((one[0], one[1])))
            for size, kind in ((SHAPE, "shape"), (sized(4096 * 7168), "data")):
                program += _posted(stage, call, size, kind)
        ranks[str(stage)] = program
    return plan(4, ranks, groups={"pp": {"ranks": [0, 1, 2, 3]}})


def _posted(stage: int, call: list[Transfer], size: dict[str, Any], kind: str) -> Program:
    """Post the transfers of one call one by one, then wait for all of them."""
    ops: Program = []
    for op, side, mb, what in call:
        peer = stage + (1 if side == "next" else -1)
        source = stage if op == "send" else peer
        label = f"{what}{source}.{mb} {kind}"
        one = message("i" + op, peer, size, label, group="pp", work=label)
        # In the steady state both neighbors send first: nobody is in a receive.
        ops.append(blamed(one) if op == "send" and len(call) > 1 else one)
    return [*ops, wait(*(one["work"] for one in ops))]


# -- 3: a ring of first uses: four stages, two chunks each, forwards of the warm-up --


def _ring(batched: bool) -> dict[str, Any]:
    hidden = sized(512 * 4 * 1024)
    ranks = {}
    for rank in range(4):
        after, before = (rank + 1) % 4, (rank - 1) % 4
        program: Program = []
        for mb in range(4):
            send = message("isend", after, hidden, f"F{rank}.{mb}", group="pp")
            recv = message("irecv", before, hidden, f"F{before}.{mb}", group="pp")
            if batched:
                program += [compute("F", mb=mb), batch([send, recv])]
                continue
            send, recv = {**send, "work": f"s{mb}"}, {**recv, "work": f"r{mb}"}
            program += [
                compute("F", mb=mb),
                blamed(send) if mb == 0 else send,
                recv,
                wait(f"s{mb}", f"r{mb}"),
            ]
        ranks[str(rank)] = program
    return plan(4, ranks, groups={"pp": {"ranks": [0, 1, 2, 3]}})


# -- 4: two stages, so previous and next are one peer --


def _one_peer(alternating: bool) -> dict[str, Any]:
    hidden = sized(2048 * 4096)
    ranks = {}
    for rank in range(2):
        peer = 1 - rank
        program: Program = []
        for mb in range(6):
            # To the next stage goes an activation, to the previous one a gradient.
            ops = {
                ("send", "next"): message("isend", peer, hidden, f"F of {rank}, mb {mb}"),
                ("send", "prev"): message("isend", peer, hidden, f"B of {rank}, mb {mb}"),
                ("recv", "prev"): message("irecv", peer, hidden, f"F of {peer}, mb {mb}"),
                ("recv", "next"): message("irecv", peer, hidden, f"B of {peer}, mb {mb}"),
            }
            order = FIXED if not (alternating and rank) else [*FIXED[2:], *FIXED[:2]]
            listed = [ops[place] for place in order]
            launched = batch(listed)
            program.append(launched if alternating or mb else blamed(launched))
        ranks[str(rank)] = program
    return plan(2, ranks)


# -- 5: a skip connection from stage 0 to stage 2 --


def _skip(split: bool) -> dict[str, Any]:
    size = sized(256 * 512, "f32")

    def first_use(one: int, other: int) -> dict[str, Any]:
        return {"op": "init", "group": f"pair{min(one, other)}{max(one, other)}"}

    def receive(source: int) -> dict[str, Any]:
        return message("irecv", source, size, f"out{source}", group="pp")

    def send(target: int, label: str) -> dict[str, Any]:
        return message("isend", target, size, label, group="pp")

    joined = [first_use(2, 1), first_use(2, 0), batch([receive(0), receive(1)])]
    apart = [first_use(2, 0), batch([receive(0)]), first_use(2, 1), batch([receive(1)])]
    if not split:
        joined[0] = blamed(joined[0])
    sync = {"op": "host_sync"}
    return plan(
        4,
        {
            "0": [
                compute("stage0"),
                first_use(0, 1),
                first_use(0, 2),
                batch([send(1, "out0"), send(2, "out0")]),
            ],
            "1": [
                first_use(1, 0),
                batch([receive(0)]),
                sync,
                compute("stage1"),
                first_use(1, 2),
                batch([send(2, "out1")]),
            ],
            "2": [
                *(apart if split else joined),
                compute("stage2"),
                first_use(2, 3),
                batch([send(3, "out2")]),
            ],
            "3": [first_use(3, 2), batch([receive(2)]), compute("stage3")],
        },
        groups={
            "pp": {"ranks": [0, 1, 2, 3]},
            **{f"pair{a}{b}": {"ranks": [a, b]} for a, b in ((0, 1), (0, 2), (1, 2), (2, 3))},
        },
    )


CASES = (
    Case(
        1,
        ("pytorch/pytorch#172668", "pytorch/pytorch#178815"),
        "A deferred receive makes both ranks send first, and a send waits for its receive.",
        "yes",
        (
            Pair(
                "pytorch/pytorch#172668",
                lambda: _interleaved(DEFERRED, ("0SEND_F1", "1SEND_F0")),
                lambda: _interleaved(FRONT_LOADED),
                outcomes((NCCL, DEADLOCK), (GLOO[:1], SAFE), (("mpi-sync",), SAFE)),
                ("PG012", "PG001"),
            ),
        ),
        "gloo and MPI complete an isend beside later calls, so the order is safe there.",
    ),
    Case(
        2,
        ("NVIDIA/Megatron-LM#5100",),
        "The exchange of shapes posts one fixed order on all ranks, so neighbors send first.",
        "yes",
        (
            Pair(
                "NVIDIA/Megatron-LM#5100",
                lambda: _shapes(alternating=False),
                lambda: _shapes(alternating=True),
                outcomes((("nccl", "nccl-eager", "nccl-serialized"), DEADLOCK), (GLOO[:1], SAFE)),
                ("PG001", "PG012"),
            ),
        ),
        "The plan posts the calls one by one, as the report describes; launched as one batch the "
        "same order is safe, and NVIDIA/Megatron-LM#5271 doubts that four stages hang for it.",
    ),
    Case(
        3,
        ("NVIDIA/Megatron-LM#5240",),
        "Unbatched messages create a communicator for each pair at first use, in an order that "
        "closes a ring.",
        "yes",
        (
            Pair(
                "NVIDIA/Megatron-LM#5240",
                lambda: _ring(batched=False),
                lambda: _ring(batched=True),
                outcomes((("nccl-lazy",), DEADLOCK), (("gloo", "mpi-sync"), SAFE)),
                ("PG109",),
                safe=("gloo", *NCCL, "mpi-sync"),
            ),
        ),
    ),
    Case(
        4,
        ("NVIDIA/Megatron-LM#1450", "NVIDIA/Megatron-LM#1495"),
        "With two stages, previous and next are one peer, and a gradient meets an activation.",
        "yes",
        (
            Pair(
                "NVIDIA/Megatron-LM#1450",
                lambda: _one_peer(alternating=False),
                lambda: _one_peer(alternating=True),
                outcomes(((*GLOO, *NCCL, "mpi-sync", "mpi-eager"), MISMATCH)),
                ("PG213",),
                safe=("gloo", *NCCL, "mpi-sync"),
            ),
        ),
    ),
    Case(
        5,
        ("pytorch/PiPPy#969",),
        "A batch waits for all its peers, and one of them sends only after it has computed from "
        "what the same batch delivers.",
        "yes",
        (
            Pair(
                "pytorch/PiPPy#969",
                lambda: _skip(split=False),
                lambda: _skip(split=True),
                outcomes((("nccl", "nccl-eager", "nccl-serialized"), DEADLOCK)),
                ("PG003", "PG005", "PG109", "PG013", "PG001"),
                safe=("nccl", "nccl-eager", "nccl-serialized", "gloo"),
            ),
        ),
        "The connections that a batch makes at first use are written as `init`, and the first "
        "forward of stage 1 as a host synchronization (it allocates).",
    ),
)
