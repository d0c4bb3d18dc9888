"""What a fused buffer holds, followed through torch's dispatcher."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from planguard.capture.groups.operators import Operators  # noqa: E402
from planguard.capture.run.fused import Holding  # noqa: E402
from planguard.capture.run.held import Followed, following_mode  # noqa: E402
from planguard.capture.run.values import agreed_names, name_of  # noqa: E402


class Pass:
    """A backward pass of two layers, whose hooks are given; what they send is asked."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(2)))
        self.followed = Followed(Operators())
        for parameter in self.net.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: self.followed.ready(p, p.grad))

    def run(self, hook=lambda *_: None) -> None:
        """Run it; every hook gets the name of the parameter."""
        operators = self.followed.operators
        for name, parameter in self.net.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, name=name: hook(name, p))
        loss = self.net(torch.ones(1, 4)).sum()
        operators.begin(loss)
        self.followed.begin()
        with following_mode(self.followed):
            loss.backward()
        self.followed.end()
        operators.end()

    def names(self, tensor) -> list[str] | None:
        """Return the names of what a tensor holds."""
        found = self.followed.holds([tensor])
        return None if found is None else [row[0] for row in json.loads(found)[2]]


SENT = ["1.weight", "0.weight"]  # in the order of readiness


def joined(grads):
    """Join gradients."""
    return torch.cat([grad.reshape(-1) for grad in grads])


def copied(grads):
    """Copy gradients into parts of a buffer."""
    flat = torch.zeros(32)
    for at, grad in enumerate(grads):
        flat[at * 16 : at * 16 + 16].copy_(grad.view(-1))
    return flat


def added(grads):
    """Add gradients to parts of a buffer of zeros."""
    flat = torch.zeros(2, 16)
    for row, grad in zip(flat, grads, strict=True):
        row.add_(grad.view(-1))
    return flat


def halved(grads):
    """Convert, scale and join gradients."""
    return joined([grad.to(torch.bfloat16) / 2 for grad in grads]).to(torch.float32)


def stacked(grads):
    """Stack copies of gradients."""
    return torch.stack([grad.clone() for grad in grads])


def listed(grads):
    """Copy gradients with one call for all."""
    flat = torch.zeros(2, 16)
    torch._foreach_copy_(list(flat), [grad.view(-1) for grad in grads])
    return flat


@pytest.mark.parametrize("fill", [joined, copied, added, halved, stacked, listed])
def test_gradients_are_followed_into_a_buffer(fill):
    """Joined, copied, added, converted, scaled or stacked: the buffer holds the gradients, in the
    order of memory.
    """
    one, grads, got = Pass(), [], []

    def hook(_, parameter):
        grads.append(parameter.grad)
        if len(grads) == 2:
            got.append(one.names(fill(grads)))

    one.run(hook)
    assert got == [SENT]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda flat: flat[3:5].normal_(),
        lambda flat: flat.set_(torch.ones(8)),
        lambda flat: flat[::2].copy_(torch.ones(16)),
        lambda flat: flat[:16].add_(flat[16:]),
        lambda flat: torch.add(flat, 1, out=flat),
        lambda flat: flat[2:18].copy_(flat[:16].clone()),
    ],
)
def test_what_else_is_written_makes_a_buffer_unknown(spoil):
    """A buffer in which anything but its gradients was written holds what nobody can name."""
    one, grads, got = Pass(), [], []

    def hook(_, parameter):
        grads.append(parameter.grad)
        if len(grads) == 2:
            flat = copied(grads)
            spoil(flat)
            got.append(one.names(flat))

    one.run(hook)
    assert got == [None]


def test_an_untracked_part_makes_a_buffer_unknown():
    """A gradient joined with other data is no buffer of gradients."""
    one, got = Pass(), []
    one.run(lambda _, p: got.append(one.names(torch.cat([p.grad.view(-1), torch.ones(3)]))))
    assert got == [None, None]


def test_gradients_of_the_pass_before_are_forgotten():
    """What a buffer held in another backward pass is no content of this one."""
    one, flats = Pass(), []
    one.run(lambda _, p: flats.append(p.grad.view(-1).clone()))
    assert one.names(flats[0]) == ["1.weight"]
    one.followed.begin()
    assert one.names(flats[0]) is None


def test_gradients_that_lie_in_a_flat_buffer_were_dealt_before():
    """A gradient that is a view of a larger buffer has its place before it is ready."""
    one, flat = Pass(), torch.zeros(32)
    for at, parameter in enumerate(one.net.parameters()):
        parameter.grad = flat[at * 16 : at * 16 + 16].view(4, 4)
    one.run()
    held = Holding.read(json.loads(one.followed.holds([flat])))
    assert [m.name for m in held.members] == ["0.weight", "1.weight"]
    assert held.was_dealt


def test_an_order_of_memory_that_is_the_order_of_readiness_shows_no_dealing():
    """Filled as they came, or in reverse from a stack: nothing says that places were given."""
    for turn in (1, -1):
        one, grads, got = Pass(), [], []

        def hook(_, parameter, grads=grads, got=got, turn=turn, one=one):
            grads.append(parameter.grad)
            if len(grads) == 2:
                got.append(one.followed.holds([joined(grads[::turn])]))

        one.run(hook)
        assert not Holding.read(json.loads(got[0])).was_dealt


def test_a_few_values_name_what_is_not_trivial():
    """Names tell shape, type and values; flags and counters have none."""
    x = torch.arange(12.0)
    assert name_of([x]) == name_of([x.clone()])
    assert len({name_of([y]) for y in (x, x + 1, x.view(3, 4), x.double())}) == 4
    assert name_of([torch.tensor([0.0, 1.0, 0.0])]) is None
    assert name_of([torch.zeros(0)]) is None


def test_values_name_calls_only_where_all_members_hold_the_same():
    """Gradients of different data name nothing; replicated data do, in any order."""
    assert agreed_names({0: [(1, "a"), (2, "b")], 1: [(3, "b"), (4, "a")]}) == {
        1: "values a", 2: "values b", 3: "values b", 4: "values a",
    }  # fmt: skip
    assert agreed_names({0: [(1, "a")], 1: [(3, "b")]}) == {}
    assert agreed_names({0: [(1, "a")], 1: []}) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda flat: flat.add_(1),
        lambda flat: flat.sub_(2),
        lambda flat: torch.ops.aten.add_(flat, 1),
    ],
    ids=["a number", "less a number", "the operator itself"],
)
def test_arithmetic_with_a_number_neither_raises_nor_keeps_a_name(change):
    """``add_`` of a plain number ended the job (deepspeed's ZeRO 1 and 2 count so)."""
    one = Pass()
    found = []

    def hook(_, parameter):
        flat = parameter.grad.clone()
        change(flat)
        change(torch.zeros(3, dtype=torch.int64))
        found.append(one.names(flat))

    one.run(hook)
    assert one.followed.lost == ""
    assert found == [None, None]


def test_what_cannot_be_followed_ends_the_following_and_not_the_job():
    """A sparse tensor has no storage: from there on nothing is known, and why is kept."""
    one = Pass()
    found = []

    def hook(_, parameter):
        found.append(one.names(parameter.grad))
        sparse = torch.zeros(2, 2).to_sparse()
        sparse.zero_()
        sparse.copy_(torch.ones(2, 2).to_sparse())
        found.append(one.names(parameter.grad))

    one.run(hook)
    assert found[0] == ["1.weight"]
    assert found[-1] is None
    assert "copy_" in one.followed.lost or "zero_" in one.followed.lost


def test_replicated_data_are_named_beside_data_of_each_rank():
    """Own values of every rank between them take nothing away: the swap of a and b is seen."""
    assert agreed_names(
        {0: [(1, "a"), (2, "own"), (3, "b"), (4, None)],
         1: [(5, "b"), (6, "other"), (7, "a"), (8, None)]}
    ) == {1: "values a", 3: "values b", 5: "values b", 7: "values a"}  # fmt: skip


def test_values_that_a_rank_sends_later_name_nothing():
    """An old tensor that is reduced a round later on one rank is not a swap: the calls of the
    shared values are not the same ones of the group.
    """
    assert agreed_names({0: [(1, "a"), (2, "x")], 1: [(3, "y"), (4, "a")]}) == {}
    assert agreed_names({0: [(1, "a"), (2, "x")], 1: [(3, None), (4, "a")]}) == {}


def test_a_gradient_behind_a_relu_has_a_name():
    """The outer product of two vectors that are zero in half their places, also at their ends, is
    told from another one, and from itself with its rows turned round.
    """
    torch.manual_seed(0)
    some = torch.relu(torch.randn(1024)), torch.relu(torch.randn(1024))
    for vector in some:
        vector[0] = vector[-1] = 0
    grad = torch.outer(*some)
    names = {name_of([one]) for one in (grad, grad.flip(0), torch.outer(some[1], some[0]))}
    assert len(names) == 3
    assert None not in names
