# ruff: noqa: ARG001, B007, PERF102, PLC0206 - the loops are what is looked at
"""What a communication moves, named in the words of the program."""

from __future__ import annotations

import sys

import pytest

from planguard.capture.names.data_names import agreed, data_name


class Watch:
    """Stands in for torch.distributed: names the data of every call it is asked for."""

    def __init__(self):
        self.names = []

    def all_reduce(self, tensor, op=None):
        self.names.append(data_name(sys._getframe(1)))

    def all_gather_into_tensor(self, output, input_tensor):
        self.names.append(data_name(sys._getframe(1)))


@pytest.fixture
def dist():
    """One rank's calls."""
    return Watch()


def test_a_key_tells_what_is_moved(dist):
    """The value of a key stands in the name, whatever the variable is called."""
    grads = {"user": 1, "item": 2}
    for name in ("user", "item"):
        dist.all_reduce(grads[name])
    dist.all_reduce(grads["user"])
    assert dist.names == ["grads['user']", "grads['item']", "grads['user']"]


def test_two_calls_of_one_line_are_told_apart(dist):
    """The position of the call decides, not its line."""
    a = [1, 2]
    dist.all_reduce(a[0]), dist.all_reduce(a[1])
    assert dist.names == ["a[0]", "a[1]"]


def test_a_name_beside_the_tensor_in_a_loop(dist):
    """The string that a loop gives with a tensor names it; a number beside it is a position."""
    for name, value in {"w": 1, "b": 2}.items():
        dist.all_reduce(value)
    for _, value in enumerate([1, 2]):
        dist.all_reduce(value)
    assert dist.names == ["value of 'w'", "value of 'b'", "value", "value"]


def test_comprehensions_are_loops(dist):
    """A list comprehension names its data as a loop does."""
    grads = {"w": 1, "b": 2}
    [dist.all_reduce(grads[n]) for n in grads]
    [dist.all_reduce(g) for n, g in grads.items()]
    assert dist.names == ["grads['w']", "grads['b']", "g of 'w'", "g of 'b'"]


def test_the_input_is_named_and_not_the_output(dist):
    """all_gather_into_tensor(output, input): the data that the rank gives."""
    out, mine = {"a": 1}, {"b": 2}
    dist.all_gather_into_tensor(out["a"], mine["b"])
    dist.all_gather_into_tensor(out["a"], input_tensor=mine["b"])
    assert dist.names == ["mine['b']", "mine['b']"]


def test_wrappers_of_the_program_are_looked_through(dist):
    """What the caller of a function gave names its argument."""

    class Sync:
        def mean(self, tensor):
            both(tensor)

    def both(value, scale=1):
        dist.all_reduce(value)

    grads = {"w": 1, "b": 2}
    for key in grads:
        both(grads[key])
        both(scale=2, value=grads[key])
        Sync().mean(grads[key])
    assert dist.names == ["grads['w']"] * 3 + ["grads['b']"] * 3


def test_parameters_have_the_names_of_their_module(dist):
    """A parameter, or its gradient, has its name in the outermost module."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False))
    for p in reversed(list(model.parameters())):
        dist.all_reduce(p.grad)
        dist.all_reduce(p.data)
    names = ["1.weight", "0.bias", "0.weight"]
    assert dist.names == [f"{n}.{what}" for n in names for what in ("grad", "data")]


def test_no_code_of_the_program_is_run(dist):
    """Keys that would have to be computed are left; a property is not called."""

    class Odd:
        @property
        def key(self):
            raise AssertionError

    odd, grads = Odd(), [1, 2]
    dist.all_reduce(grads[max(0, 1)])
    try:
        dist.all_reduce(grads[odd.key])
    except AssertionError:
        dist.all_reduce(odd)
    assert dist.names == ["grads[max(0, 1)]", "odd"]


def test_code_without_source_has_no_names(dist):
    """What was compiled from a string is not guessed at."""
    exec("dist.all_reduce(x[0])", {"dist": dist, "x": [1]})  # noqa: S102 - code without a file
    assert dist.names == [None]


@pytest.mark.parametrize(
    ("named", "members", "labels"),
    [
        ({0: ["a", "b"], 1: ["b", "a"]}, [0, 1], {"a", "b"}),
        ({0: ["a", "a"], 1: ["a"]}, [0, 1], set()),
        ({0: ["a", "b"], 1: ["a", "zeros"]}, [0, 1], set()),
        ({0: ["a", None], 1: [None, "a"]}, [0, 1], set()),
        ({0: ["a"]}, [0, 1], set()),
        ({0: ["a"], 1: ["a"], 2: ["x"]}, [0, 1], {"a"}),
    ],
)
def test_names_count_where_all_members_have_the_same(named, members, labels):
    """Another name on one rank, one call more, or a call without a name: position decides."""
    assert agreed(named, members) == labels
