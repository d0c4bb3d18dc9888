"""How the nnscaler adapter reads single constructs of generated code."""

from __future__ import annotations

import json
import textwrap

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError

registry.find("nnscaler")  # mounts planguard.planners where it is not installed

from planguard.planners.nnscaler import adapter  # noqa: E402

HEAD = """
########## Generated Model Code ###########
import torch
import torch.utils.checkpoint as ckpt
import nnscaler

runtime_version = '0.8'

{classes}

class GenModel(nnscaler.runtime.module.ParallelModule):
    use_scheduler = False
    nmicros_per_scheduler_step = 1
    rank = {rank}

    def __init__(self, init_params=True, *, async_op={asynchronous}, max_bucket_size_bytes={cap},
                 zero_use_reduce_scatter=False):
        super().__init__()
{init}
        self._post_init(init_params)
{methods}

def _train_step(model, dataloader_1):
    _ = None
    model.zero_grad()
{step}
"""
STEP = """
x_1 = next(*(dataloader_1, ))
loss_2 = nnscaler.runtime.executor.fexecute('segment5', model.segment5, *(x_1, ))
_ = nnscaler.runtime.executor.backward('segment5', (), (loss_2, ), (None, ))
_ = nnscaler.runtime.executor.aexecute(model.reducer9, *(), requires_grad=False)
return loss_2
"""
REDUCER = """
def reducer9(self):
    self.wreducer9.sync_grads()
    return
"""


F32 = "dtype=torch.float32"


def weights(*shapes):
    """Return the part of ``__init__`` that registers parameters and one reducer over them."""
    lines = []
    for place, shape in enumerate(shapes):
        lines += [
            f"self.register_parameter('w{place}', torch.nn.Parameter(torch.empty({shape}, {F32})))",
            f"self.add_full_map('w{place}', 7, True, 'layers.{place}', {shape}, (), 1)",
        ]
    lines.append(
        "self.wreducer9 = nnscaler.runtime.adapter.Reducer(ranks=[0, 1], reduce_op='sum', "
        "async_op=async_op, zero=False, max_bucket_size_bytes=max_bucket_size_bytes, "
        "zero_use_reduce_scatter=zero_use_reduce_scatter, zero_ngroups=1)"
    )
    lines += [f"self.wreducer9.add_param(self.w{place})" for place in range(len(shapes))]
    return "\n".join([*lines, "self.add_reducer(self.wreducer9)"])


def plan(
    tmp_path, methods, init="pass", step=STEP, classes="", asynchronous=False, cap=None, **options
):  # fmt: skip
    """Return the plan of two ranks with the same methods."""
    folder = tmp_path / f"plan{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    for rank in range(2):
        text = HEAD.format(
            rank=rank, classes=classes, asynchronous=asynchronous, cap=cap,
            init=textwrap.indent(init.strip(), " " * 8),
            methods=textwrap.indent(methods.strip(), " " * 4),
            step=textwrap.indent(step.strip(), " " * 4),
        )  # fmt: skip
        (folder / f"gencode{rank}.py").write_text(text)
    return adapter.adapt(folder, planguard.PlanBuilder, inputs=[4, 16], **options)


def calls(made, rank=0, fields=("op", "count")):
    """Return the communications of a rank."""
    actions = json.loads(made.source)["ranks"][str(rank)]["actions"]
    return [
        tuple(action.get(name) for name in fields)
        for action in actions
        if action["op"] not in ("compute", "wait")
    ]


def test_duals_come_in_reverse_and_only_where_a_gradient_flows(tmp_path):
    """Each differentiable primitive has its dual, last first; one on a detached value has none."""
    methods = """
def segment5(self, x_1):
    a_1 = torch.nn.functional.linear(x_1, self.w0, bias=None)
    b_1 = nnscaler.runtime.adapter.nn.allgather_reducescatter(a_1, dim=1, ranks=[0, 1])
    c_1 = nnscaler.runtime.adapter.nn.identity_allreduce(b_1, ranks=[0, 1])
    d_1 = torch.Tensor.detach(c_1)
    e_1 = nnscaler.runtime.adapter.nn.allreduce_allreduce(d_1, ranks=[0, 1])
    f_1 = nnscaler.runtime.adapter.nn.split_allgather(c_1, dim=1, ranks=[0, 1])
    loss_2 = torch.sum(f_1)
    return loss_2
"""
    made = plan(tmp_path, methods + REDUCER, init=weights((8, 16)))
    assert calls(made, fields=("op", "count", "label")) == [
        ("all_gather", 32, "b"),
        ("all_reduce", 64, "e"),
        ("all_gather", 32, "f.grad"),
        ("all_reduce", 64, "c.grad"),
        ("reduce_scatter", 32, "b.grad"),
        ("all_reduce", 128, "layers.0.grad"),
    ]


def test_a_recomputed_region_communicates_again_before_its_duals(tmp_path):
    """A checkpoint runs its collectives in the forward and once more in the backward."""
    methods = """
def segment5(self, x_1):
    a_1 = torch.nn.functional.linear(x_1, self.w0, bias=None)
    def recompute(a_1):
        b_1 = nnscaler.runtime.adapter.nn.allreduce_identity(a_1, ranks=[0, 1])
        c_1 = nnscaler.runtime.adapter.nn.identity_allreduce(b_1, ranks=[0, 1])
        d_1 = torch.nn.functional.gelu(c_1)
        return d_1
    d_1 = ckpt.checkpoint(recompute, a_1, use_reentrant=False)
    loss_2 = torch.sum(d_1)
    return loss_2
"""
    made = plan(tmp_path, methods + REDUCER, init=weights((8, 16)))
    assert calls(made, fields=("op", "label")) == [
        ("all_reduce", "b"),
        ("all_reduce", "b"),
        ("all_reduce", "c.grad"),
        ("all_reduce", "layers.0.grad"),
    ]


def test_a_generated_autograd_function_has_its_own_backward(tmp_path):
    """An adapter without a fused form is a class; its backward is the dual."""
    classes = """
class Adapter7(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a_1):
        b_1 = nnscaler.runtime.adapter.chunk(a_1, dim=0, ranks=[0, 1])
        return b_1
    @staticmethod
    def backward(ctx, gb_1):
        ga_1 = nnscaler.runtime.adapter.all_gather(gb_1, dim=0, ranks=[0, 1])
        return ga_1
"""
    methods = """
def segment5(self, x_1):
    a_1 = torch.nn.functional.linear(x_1, self.w0, bias=None)
    b_1 = Adapter7.apply(a_1)
    loss_2 = torch.sum(b_1)
    return loss_2
"""
    made = plan(tmp_path, methods + REDUCER, init=weights((8, 16)), classes=classes)
    assert calls(made, fields=("op", "count", "label"))[0] == ("all_gather", 16, "a.grad")


LINEAR = """
def segment5(self, x_1):
    a_1 = torch.nn.functional.linear(x_1, self.w0, bias=None)
    b_1 = torch.nn.functional.linear(a_1, self.w1, bias=None)
    c_1 = torch.nn.functional.linear(b_1, self.w2, bias=None)
    loss_2 = torch.sum(c_1)
    return loss_2
"""
SQUARES = ((16, 16), (16, 16), (16, 16))


def test_buckets_fill_in_order_and_are_reduced_from_the_last(tmp_path):
    """Parameters join while they fit; the list of buckets is reversed; a synchronous reducer
    launches them at its end.
    """
    made = plan(tmp_path, LINEAR + REDUCER, init=weights(*SQUARES), cap=2048)
    assert calls(made, fields=("op", "count", "label")) == [
        ("all_reduce", 256, "layers.2.grad"),
        ("all_reduce", 512, "layers.0+layers.1.grad"),
    ]


def test_an_asynchronous_reducer_launches_inside_the_backward(tmp_path):
    """Each bucket starts when its last gradient is there and is waited for at sync_grads."""
    made = plan(tmp_path, LINEAR + REDUCER, init=weights(*SQUARES), cap=1024, asynchronous=True)
    actions = json.loads(made.source)["ranks"]["0"]["actions"]
    assert [action["op"] for action in actions] == [
        *("compute", "compute"), *["all_reduce"] * 3, *["wait"] * 3,
    ]  # fmt: skip
    assert [a["label"] for a in actions[2:5]] == [f"layers.{n}.grad" for n in (2, 1, 0)]
    assert planguard.check(made, model="all").safe


def test_any_order_of_buckets_is_a_window_that_ranks_do_not_agree_on(tmp_path):
    """With reducer_order='any' each rank may start the buckets of a backward in its own order:
    buckets of one size are then added up in the wrong rounds, silently.
    """
    made = plan(
        tmp_path, LINEAR + REDUCER, init=weights(*SQUARES), cap=1024, asynchronous=True,
        reducer_order="any",
    )  # fmt: skip
    window = json.loads(made.source)["ranks"]["0"]["actions"][2]
    assert (window["op"], len(window["body"])) == ("unordered", 3)
    assert planguard.check(made, model="nccl").outcome is planguard.Outcome.MISMATCH


def test_accumulation_reduces_only_after_the_last_sample(tmp_path):
    """With several samples the step runs for each, and gradients are reduced in the last only."""
    made = plan(tmp_path, LINEAR + REDUCER, init=weights(*SQUARES), samples=3)
    ops = [action["op"] for action in json.loads(made.source)["ranks"]["0"]["actions"]]
    assert ops == ["compute"] * 6 + ["all_reduce"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("a_1 = nnscaler.runtime.adapter.move((), (4, 4), torch.float32, src=0, dst=0)",
         "AttributeError: 'tuple' object"),
        ("a_1 = nnscaler.runtime.adapter.move(x_1, (4, 4), torch.float32, src=0, dst=0)",
         "ValueError: rank 0 sends to"),
        ("a_1 = nnscaler.runtime.adapter.move(x_1, (4, 4), torch.float32, 1, 1)",
         "AssertionError: move"),
        ("a_1 = nnscaler.runtime.adapter.rvscatter(x_1, (4, 4), torch.float32, src=0, dst=(1,))",
         "TypeError: rvscatter() got an unexpected keyword argument 'dst'"),
        ("a_1 = torch.relu(y_1)", "NameError: name 'y_1' is not defined"),
        ("a_1 = torch.relu(self.w7)", "AttributeError: 'GenModel' object has no attribute 'w7'"),
        ("a_1, b_1 = torch.chunk(x_1, chunks=3, dim=1)", "ValueError: expected 2 values"),
    ],
)  # fmt: skip
def test_code_that_python_would_end_ends_the_rank(tmp_path, line, error):
    """What raises stops the rank there, with Python's words and the line, in plan and ledger."""
    methods = f"\ndef segment5(self, x_1):\n    {line}\n    return a_1\n"
    made = plan(tmp_path, methods + REDUCER, init=weights((16, 16)))
    last = json.loads(made.source)["ranks"]["0"]["actions"][-1]
    assert (last["op"], last["src"][2]) == ("exit", "segment5")
    assert last["label"].startswith(error)
    assert any(error in entry.message for entry in made.approximations)


def test_scattered_and_gathered_messages(tmp_path):
    """rdscatter sends a part to every destination, rdgather receives one from every source."""
    methods = """
def segment5(self, x_1):
    a_1 = nnscaler.runtime.adapter.rdscatter(x_1, (4, 16), torch.float32, dim=0, src=0, dsts=(1,))
    b_1 = nnscaler.runtime.adapter.rdgather(x_1, (2, 16), torch.float32, dim=0, srcs=(1,), dst=0)
    loss_2 = torch.sum(b_1)
    return loss_2
"""
    made = plan(tmp_path, methods + REDUCER, init=weights((16, 16)))
    assert calls(made)[:2] == [("send", 64), ("recv", 32)]
    assert calls(made, rank=1)[:2] == [("recv", 64), ("send", 32)]
    assert planguard.check(made, model="mpi-sync").safe


def test_backwards_in_another_order_than_forwards_are_a_python_error(tmp_path):
    """nnScaler takes the oldest run of a segment; gradients of another one are missing."""
    step = """
x_1 = next(*(dataloader_1, ))
y_1 = nnscaler.runtime.executor.aexecute(model.adapter3, *(x_1, ), requires_grad=True)
a_1 = nnscaler.runtime.executor.fexecute('segment5', model.segment5, *(y_1, ), requires_grad=True)
b_1 = nnscaler.runtime.executor.fexecute('segment5', model.segment5, *(y_1, ), requires_grad=True)
gy_1 = nnscaler.runtime.executor.backward('segment5', (y_1, ), (b_1, ), (None, ))
return a_1
"""
    methods = """
def adapter3(self, x_1):
    y_1 = nnscaler.runtime.adapter.all_reduce(x_1, ranks=[0, 1])
    return y_1
def segment5(self, y_1):
    loss_2 = torch.sum(y_1)
    return loss_2
"""
    made = plan(tmp_path, methods, step=step)
    assert "another order than forwards" in made.approximations[0].message


def test_code_deeper_than_python_reads_is_refused(tmp_path):
    """A file nested a thousand levels deep is a PlanError, not a crash."""
    methods = f"\ndef segment5(self, x_1):\n    a_1 = {'-' * 30000}1\n    return a_1\n"
    with pytest.raises(PlanError):
        plan(tmp_path, methods + REDUCER, init=weights((16, 16)))
