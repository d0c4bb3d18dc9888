"""Ways by which a number of a rank decides without a branch on it: text, an index, scalers, turns.

Each pair is a program that hangs or fails on real ranks with other data, and one that agrees first.
"""

# ruff: noqa: D103, S102 - programs as people write them
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

pytestmark = pytest.mark.wheel


def own():
    """Return data of each rank's own."""
    return torch.randn(8, generator=torch.Generator().manual_seed(dist.get_rank()))


def itself(value):
    return value


def of_rank_0(value):
    given = [value]
    dist.broadcast_object_list(given, 0)
    return given[0]


def step(size=3):
    dist.all_reduce(torch.ones(size))


def by_text(agree):
    if agree(f"{own().pow(2).mean():.1f}") == "nan":
        step()


def by_its_print(agree):
    if "nan" in agree(str(own().mean())):
        step()


def by_code(agree):
    exec("if agree(bool((x > 7).any())):\n    step()\n", {"x": own(), "agree": agree, "step": step})


def by_index(agree):
    step([2, 3, 4][agree(int((own() > 9).sum()))])


def by_root(agree):
    dist.broadcast(torch.ones(2), src=agree(int(own().argmax() * 0)) % 2)


def by_rise(agree):
    losses = []
    for one in own()[:3]:
        losses.append(one.abs().item())
        if agree(len(losses) > 1 and losses[-1] > 90 * losses[-2] + 9):
            break
        step()


def by_scale(agree):
    weight = torch.nn.Parameter(torch.ones(8))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((weight * own()).sum()).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if not agree(scaler.get_scale() < before):
        step()


def by_classes(agree):
    step(agree(len(torch.bincount((own().abs() * 0.1).long()))))


def by_columns(agree):
    hot = torch.nn.functional.one_hot((own().abs() * 0.1).long())
    step(agree(hot.shape[1]))


def by_what_is_not_zero(agree):
    step(1 + agree((own() > 5).float().to_sparse().values().numel()))


WAYS = [
    by_text, by_its_print, by_code, by_index, by_root, by_rise, by_scale, by_classes, by_columns,
    by_what_is_not_zero,
]  # fmt: skip


@pytest.mark.parametrize("job", WAYS, ids=lambda job: job.__name__)
def test_a_number_decides_by_other_ways_than_a_branch(job):
    """UNKNOWN with the line for the rank's own; SAFE where rank 0 tells the others."""

    def decide(agree):
        return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(lambda: job(agree))

    verdict = decide(itself)
    assert verdict.outcome.name == "UNKNOWN"
    assert any("test_own_routes.py:" in one.message for one in verdict.approximations)
    assert decide(of_rank_0).safe
