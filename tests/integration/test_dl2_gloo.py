"""The campaigns after dl2, a few jobs of each: recorded, changed, judged, and really run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from dl2 import campaign, hierarchical, hung, inception, rq2, swaps  # noqa: E402
from dl2.job import Config  # noqa: E402
from dl2.mutate import mutant  # noqa: E402
from dl2.record import record  # noqa: E402

from planguard.replay.pool import Pool  # noqa: E402

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(300)]
SEEDS = (1, 2, 3, 4)
SAME = {"branch": 384, "message": 209}
"""Schedules under which the two ranks draw one order of branches."""


def jobs(subject, size, config):
    """Return the recorded job as it is, and four mutants of it."""
    original = record(config)
    yield campaign.Case(subject, size, 0, config.name, original, original, None)
    for seed in SEEDS:
        document, mutation = mutant(original, seed)
        yield campaign.Case(subject, size, seed, config.name, document, original, mutation)


def test_verdicts_on_the_training_of_a_network_come_true(tmp_path):
    """MLP on 2 x 2 ranks, as written and changed in four ways: every verdict is what happens."""
    config = Config("mlp", 2, 2, clip=True, report="send")
    rows = campaign.run(jobs("mlp", 4, config), tmp_path / "mlp.jsonl")
    assert len(rows) == 1 + len(SEEDS)
    assert not campaign.wrong(rows), rows
    counts = campaign.confusion(rows)
    assert counts["tp"] >= 2
    assert counts["rank"] == counts["asked"]
    assert campaign.run(jobs("mlp", 4, config), tmp_path / "mlp.jsonl") == rows, "resumed"


def test_verdicts_on_synthesized_collectives_come_true(tmp_path):
    """An all_reduce of rings of messages between nodes, and a broadcast down chains."""
    cases = [
        case
        for name in ("all_reduce", "broadcast")
        for case in jobs(name, 4, hierarchical.Config(name, 2, 2, "plain", "messages"))
    ]
    rows = campaign.run(cases, tmp_path / "collectives.jsonl")
    assert len(rows) == 2 * (1 + len(SEEDS))
    assert not campaign.wrong(rows), rows


def _verified(rank, port, size):
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )
    for name in hierarchical.COLLECTIVES:
        for config in hierarchical.configs(name, size):
            assert hierarchical.verify(config), config
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 6])
def test_synthesized_collectives_compute_what_plain_ones_do(size):
    """All twenty syntheses give on real processes what one collective of the world gives."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(_verified, (port, size), nprocs=size)


def test_the_network_is_inception():
    """94 convolutions in 11 blocks, 23.8 million parameters, 1,000 classes."""
    with torch.device("meta"):
        model = inception.network()
        out = model.eval()(torch.empty(2, 3, 299, 299))
    assert tuple(out.shape) == (2, 1000)
    assert sum(isinstance(m, torch.nn.Conv2d) for m in model.modules()) == 94
    assert sum(isinstance(m, inception.Block) for m in model) == 11
    assert sum(p.numel() for p in model.parameters()) == 23_834_568


def test_schedules_are_shared_as_they_say():
    """A quarter of the schedules is one for all, a quarter one per replica, the rest per rank."""
    orders = [[inception.orders(seed, rank, 2) for rank in range(4)] for seed in range(4)]
    assert orders[0][0] == orders[0][1] == orders[0][2] == orders[0][3]
    assert orders[1][0] == orders[1][1] != orders[1][2] == orders[1][3]
    assert orders[2][0] != orders[2][1]
    assert orders[3][0] != orders[3][1]


@pytest.mark.parametrize("exchange", rq2.EXCHANGES)
def test_schedules_of_blocking_calls_hang_as_judged(tmp_path, exchange):
    """Ranks of a replica that take the branches of a block in other orders wait for each other, on
    a group per branch as with tagged messages; with one order they end well.
    """
    cases = []
    for schedule in (200 + rq2.EXCHANGES.index(exchange), SAME[exchange]):
        config = Config("inception", 1, 2, report="reduce", schedule=schedule, exchange=exchange)
        document = record(config)
        cases.append(
            campaign.Case("inception-blocking", 2, schedule, config.name, document, document, None)
        )
    rows = campaign.run(cases, tmp_path / "schedules.jsonl")
    assert not campaign.wrong(rows), rows
    assert [row["outcome"] for row in rows] == ["DEADLOCK", "SAFE"]
    assert [row["truth"]["end"] for row in rows] == ["hung", "finished"]


def test_orders_of_one_block_are_drawn_by_every_rank():
    """One block, the same for all ranks, has an order of each rank; the others are as written."""
    drawn = [inception.one_block(7, rank) for rank in range(8)]
    written = [0, 1, 2, 3]
    changed = {at for orders in drawn for at, order in enumerate(orders) if order != written}
    assert len(changed) == 1
    assert len({tuple(orders[min(changed)]) for orders in drawn}) > 2


@pytest.mark.parametrize(("buffers", "size"), [(1, 8), (8, 8), (4, 64)])
def test_cells_of_the_third_table_end_as_they_were_judged(buffers, size):
    """Ranks in the orders of the witness hang when buckets are told apart and get wrong data or an
    error when they are not; a cell that is No ends well in every order drawn.
    """
    with Pool(2) as pool:
        (row,) = hung.rows(pool, [(buffers, size)])
    assert hung.expected(row), row
    assert row["checked"] == (["finished"] if size == 64 else ["hung"])


@pytest.mark.parametrize(
    ("where", "batches", "outcome"),
    [
        ("none", "same", "SAFE"),
        ("parameters", "own", "MISMATCH"),
        ("gradients", "same", "MISMATCH"),
        ("gradients", "own", "SAFE"),
    ],
)
def test_swaps_of_one_size_are_found_by_recorded_values(monkeypatch, where, batches, outcome):
    """Parameters of replicas, and gradients of one batch, are known by a few values; gradients of
    different samples are not.
    """
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    row = swaps.judged("mlp", where, batches)
    assert swaps.expected(row), row
    assert row["said"] == outcome
