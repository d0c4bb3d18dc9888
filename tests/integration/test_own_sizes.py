"""Sizes that follow from a rank's own data decide nothing unseen, though all are equal here.

Each pair is a program that hangs or fails on real ranks with other data, and one that agrees first.
With the data of these ranks all of them end.
"""

# ruff: noqa: D103 - programs as people write them
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

pytestmark = pytest.mark.wheel


def decide(job):
    """Play a job on two ranks and give its verdict."""
    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def own():
    """Return data of each rank's own; as many are no less than a whole number on each."""
    return torch.arange(100.0) + 0.25 * dist.get_rank()


def drawn():
    """Return drawn data of 16 tokens, and the one of two experts that each goes to."""
    draw = torch.Generator().manual_seed(dist.get_rank())
    tokens = torch.randn(16, 8, generator=draw)
    return tokens, torch.tensor([0, 1] * 8).roll(dist.get_rank())


def step():
    dist.all_reduce(torch.ones(3))


def largest(count):
    """Agree on the largest of some counts."""
    most = torch.tensor(count)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return int(most)


# --- sizes on which a rank decides ---------------------------------------------------------------


def by_length():
    x = own()
    if len(x[x >= 50]) > 3:
        step()


def by_length_fixed():
    x = own()
    if largest(len(x[x >= 50])) > 3:
        step()


def by_shape():
    places = (own() >= 50).nonzero()
    if places.shape[0] == 0:
        return
    step()


def by_shape_fixed():
    places = (own() >= 50).nonzero()
    if largest(places.shape[0]) == 0:
        return
    step()


def by_elements():
    x = own()
    if x.masked_select(x >= 20).numel():
        step()


def by_elements_fixed():
    x = own()
    dist.all_reduce(x)  # the same on all ranks
    if x.masked_select(x >= 20).numel():
        step()


def by_rows():
    x = own()
    for _ in x[x >= 97]:
        step()


def by_rows_fixed():
    x = own()
    for _ in range(largest(len(x[x >= 97]))):
        step()


def by_list():
    for _ in torch.where(own() >= 97)[0].tolist():
        step()


def by_list_fixed():
    for _ in range(largest(torch.where(own() >= 97)[0].numel())):
        step()


def by_classes():
    if torch.unique(own().int() // 50).size(0) > 1:
        step()


def by_classes_fixed():
    if largest(torch.unique(own().int() // 50).size(0)) > 1:
        step()


def by_first_place():
    x = own()
    for place in range(len((x >= 97).nonzero())):
        x[place] += 1
        step()


def by_first_place_fixed():
    x = own()
    for place in range(len((x >= 97).nonzero())):
        x[place] += 1
    step()


def by_name():
    x = own()
    if torch.nonzero(input=x >= 97).size(0) > 2:
        step()


def by_name_fixed():
    x = own()
    if largest(torch.nonzero(input=x >= 97).size(0)) > 2:
        step()


# --- sizes of what is sent -----------------------------------------------------------------------


def sent_as_it_is():
    x = own()
    kept = x.masked_select(x.ge(90))
    dist.all_reduce(kept)


def sent_as_it_is_fixed():
    x = own()
    kept = x.masked_select(x.ge(90))
    padded = torch.nn.functional.pad(kept, (0, largest(len(kept)) - len(kept)))
    dist.all_reduce(padded)


def a_buffer_of_that_size():
    x = own()
    kept = x[x >= 90]
    dist.all_reduce(torch.zeros(len(kept)))


def a_buffer_of_that_size_fixed():
    x = own()
    kept = x[x >= 90]
    padded = kept.new_zeros(largest(len(kept)))
    padded[: len(kept)] = kept
    dist.all_reduce(padded)


def experts(*, fill):
    """Reduce the gradients of two experts, of which one may get no token."""
    tokens, chosen = drawn()
    layers = [torch.nn.Linear(8, 8) for _ in range(2)]
    out = torch.zeros(16, 8)
    for at, layer in enumerate(layers):
        places = (chosen == at).nonzero().flatten()
        if len(places):
            out = out.index_add(0, places, layer(tokens[places]))
    out.sum().backward()
    for layer in layers:
        for one in layer.parameters():
            if one.grad is None and fill:
                one.grad = torch.zeros_like(one)
            if one.grad is not None:
                dist.all_reduce(one.grad)


def an_expert_without_tokens():
    experts(fill=False)


def an_expert_without_tokens_fixed():
    experts(fill=True)


PAIRS = (
    (by_length, by_length_fixed),
    (by_shape, by_shape_fixed),
    (by_elements, by_elements_fixed),
    (by_rows, by_rows_fixed),
    (by_list, by_list_fixed),
    (by_classes, by_classes_fixed),
    (by_first_place, by_first_place_fixed),
    (by_name, by_name_fixed),
    (sent_as_it_is, sent_as_it_is_fixed),
    (a_buffer_of_that_size, a_buffer_of_that_size_fixed),
    (an_expert_without_tokens, an_expert_without_tokens_fixed),
)


@pytest.mark.parametrize("job", [bug for bug, _ in PAIRS])
def test_a_size_that_follows_from_own_data_is_no_safe(job):
    """UNKNOWN, with the line that makes the tensor whose size decides."""
    verdict = decide(job)
    assert verdict.outcome.name == "UNKNOWN"
    said = [one.message for one in verdict.approximations if "each rank has its own" in one.message]
    assert said
    assert all("test_own_sizes.py:" in one for one in said)


@pytest.mark.parametrize("job", [fixed for _, fixed in PAIRS])
def test_a_size_that_is_agreed_on_is_safe(job):
    """Agreement ends the doubt: of the count, of the data, or of what is sent."""
    assert decide(job).outcome.name == "SAFE"


def a_mask_that_all_have():
    x = own()
    if len(x[torch.arange(100) < 50]) > 3:
        step()


def in_a_local_sum():
    x = own()
    kept = x[x >= 50]
    if len(kept) > 3:
        kept = kept * 2
    print("kept", len(kept))
    step()


def announced():
    x = own()
    kept = x[x >= 50]
    if dist.get_rank() == 0:
        dist.send(torch.tensor([len(kept)]), 1)
        if len(kept):
            dist.send(kept, 1)
    else:
        many = torch.zeros(1, dtype=torch.long)
        dist.recv(many, 0)
        if int(many):
            dist.recv(torch.zeros(int(many)), 0)


def exchanged():
    tokens, chosen = drawn()
    tokens.requires_grad_()
    parts = [tokens[chosen == at] for at in range(2)]
    mine = torch.tensor([len(one) for one in parts])
    theirs = torch.zeros_like(mine)
    dist.all_to_all_single(theirs, mine)
    got = torch.empty(int(theirs.sum()), 8)
    dist.all_to_all_single(got, torch.cat(parts).detach(), theirs.tolist(), mine.tolist())
    back = torch.empty(int(mine.sum()), 8)
    dist.all_to_all_single(back, got * 2, mine.tolist(), theirs.tolist())
    out = torch.zeros(16, 8)
    out[torch.cat([(chosen == at).nonzero().flatten() for at in range(2)])] = back
    step()


def a_masked_loss():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    tokens, chosen = drawn()
    for _ in range(2):
        out = model(tokens)
        torch.nn.functional.cross_entropy(out[chosen == 1], chosen[chosen == 1]).backward()


@pytest.mark.parametrize(
    "job", [a_mask_that_all_have, in_a_local_sum, announced, exchanged, a_masked_loss]
)
def test_sizes_that_contradict_nobody_are_safe(job):
    """What depends on them is one rank's own affair, or its peers are told."""
    assert decide(job).outcome.name == "SAFE"


INDICES = {
    "slice": slice(1, 3),
    "number": 0,
    "none": None,
    "list": [1, 2],
    "tuple": (Ellipsis, 1),
    "places": torch.tensor([0, 2]),
    "mask": torch.tensor([True, False, True]),
    "mask of elements": torch.arange(12).reshape(3, 4) > 5,
    "mask in a tuple": (slice(None), torch.tensor([True, False, True, True])),
}


@pytest.mark.parametrize("name", INDICES)
def test_what_is_indexed_is_as_torch_has_it(name):
    """Watched, an index gives what it gives without."""
    right = torch.arange(12.0).reshape(3, 4)[INDICES[name]]

    def job():
        assert torch.equal(torch.arange(12.0).reshape(3, 4)[INDICES[name]], right)
        step()

    assert decide(job).outcome.name == "SAFE"


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_scripted_functions_stay_scripted():
    """TorchScript knows functions by their identity: those made before, and in a play."""

    @torch.jit.script
    def before(x: torch.Tensor) -> torch.Tensor:
        return torch.unique(x[x > 1])

    def job():
        @torch.jit.script
        def inside(x: torch.Tensor) -> torch.Tensor:
            counts = torch.bincount(x)
            places = torch.nonzero(counts)
            classes = torch.unique_consecutive(torch.unique(x[x > 1]))
            kept = torch.masked_select(classes, classes > 2)
            return torch.cat([kept, torch.where(counts > 1)[0], places.flatten()])

        assert inside(torch.tensor([1, 2, 2, 3])).tolist() == [3, 2, 1, 2, 3]
        assert before(torch.arange(4)).tolist() == [2, 3]
        step()

    assert decide(job).outcome.name == "SAFE"


def test_every_form_is_torchs_own():
    """Places, names, results that are given, and what no value gives a size."""

    def job():
        x, mask = torch.arange(6.0), torch.arange(6.0) > 2
        assert torch.masked_select(input=x, mask=mask).tolist() == [3, 4, 5]
        assert torch.masked_select(x, mask, out=torch.empty(0)).tolist() == [3, 4, 5]
        assert torch.where(condition=mask)[0].tolist() == [3, 4, 5]
        assert torch.where(mask, x, -x).tolist() == [0, -1, -2, 3, 4, 5]
        assert torch.repeat_interleave(torch.tensor([1, 2])).tolist() == [0, 1, 1]
        assert torch.repeat_interleave(x[:2], 2).tolist() == [0, 0, 1, 1]
        assert x[:2].repeat_interleave(torch.tensor([1, 2])).tolist() == [0, 1, 1]
        assert [one.tolist() for one in x.nonzero(as_tuple=True)] == [[1, 2, 3, 4, 5]]
        assert [len(one) for one in x.unique(return_inverse=True, return_counts=True)] == [6] * 3
        assert torch.empty(0).unique().numel() == 0
        assert torch.tensor(5.0).nonzero().shape == (1, 0)
        grad = torch.func.grad(lambda one: one[mask].sum())(x)
        assert grad.tolist() == [0, 0, 0, 1, 1, 1]
        step()

    assert decide(job).outcome.name == "SAFE"
