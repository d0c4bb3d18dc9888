"""The campaigns after dl2, a few jobs of each: recorded, changed, judged, and really run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from dl2 import campaign, hierarchical, inception  # noqa: E402
from dl2.job import Config  # noqa: E402
from dl2.mutate import mutant  # noqa: E402
from dl2.record import record  # noqa: E402

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
SEEDS = (1, 2, 3, 4)


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
