from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn

import planguard
from planguard import Outcome, UnsafePlanError
from planguard.capture import precheck
from planguard.capture.play.ranks import play_ranks
from planguard.errors import UsageError

# torch warns about its own internals while modules are built; that is not what is tested here.
pytestmark = [pytest.mark.wheel, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def recorded(check, rank=0):
    """Return the actions of one rank of a precheck's plan."""
    document = json.loads(check.plan.source)
    return document["ranks"][str(rank)]["actions"]


def names(check, rank=0):
    """Return the operations of one rank, without waits."""
    return [a["op"] for a in recorded(check, rank) if a["op"] != "wait"]


def run(body, world_size, **options):
    """Play a body on every rank that is needed and return the precheck, decided."""
    check = precheck(world_size, on_unsafe="return", **options)
    check.run(body)
    return check


def in_form(form, body, world_size):
    """Check a body as a block or as a call."""
    if form == "call":
        precheck(world_size).run(body)
        return
    with precheck(world_size):
        body()


def train_step():
    """Do what a training script does, init_process_group included."""
    dist.init_process_group("nccl")
    x = torch.ones(4)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    gathered = torch.empty(4 * dist.get_world_size())
    work = dist.all_gather_into_tensor(gathered, x, async_op=True)
    y = x * 2
    work.wait()
    dist.broadcast(y, 1)
    dist.barrier()
    dist.destroy_process_group()


def test_the_block_form_checks_ordinary_code():
    """The body runs in the block; leaving it decides, with every call and its line recorded."""
    with precheck(world_size=4) as check:
        train_step()
    assert check.verdict.safe
    assert names(check) == ["all_reduce", "all_gather_into_tensor", "broadcast", "barrier"]
    first = recorded(check)[0]
    assert (first["reduce_op"], first["count"], first["src"][0]) == ("max", 4, __file__)
    assert first["src"][2] == "train_step"


def test_the_call_form_gives_the_same_plan():
    """run(fn) records what the block records."""
    with precheck(world_size=4) as block:
        train_step()
    call = run(train_step, 4)
    assert json.loads(call.plan.source)["ranks"] == json.loads(block.plan.source)["ranks"]


def skipping(x=None):
    """Skip a call on one rank, as in pytorch#137006."""
    x = torch.ones(4)
    if dist.get_rank() != 2:
        dist.all_reduce(x)
    dist.all_gather([torch.empty(4) for _ in range(4)], x)


@pytest.mark.parametrize("form", ["block", "call"])
def test_a_rank_that_skips_a_call_is_found_in_both_forms(form):
    """The block runs its body for all ranks, too: the finding names the rank and the line."""
    with pytest.raises(UnsafePlanError) as caught:
        in_form(form, skipping, 4)
    finding = caught.value.verdict.errors[0]
    assert (finding.code, finding.primary.rank) == ("PG201", 2)
    assert finding.primary.source.function == "skipping"


def ring():
    """Send to the next rank before receiving from the one before."""
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.send(torch.ones(4), (rank + 1) % world)
    dist.recv(torch.ones(4), (rank - 1) % world)


def batched_ring():
    """Post both directions in one batch."""
    rank, world = dist.get_rank(), dist.get_world_size()
    ops = [
        dist.P2POp(dist.isend, torch.ones(4), (rank + 1) % world),
        dist.P2POp(dist.irecv, torch.ones(4), (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def test_point_to_point_is_recorded_with_its_batches():
    """A ring of blocking sends deadlocks; the same ring in a batch is one launch, and safe."""
    blocking, batched = run(ring, 4), run(batched_ring, 4)
    assert blocking.verdict.outcome is Outcome.DEADLOCK
    assert names(blocking) == ["send", "recv"]
    assert batched.verdict.safe
    (launch,) = recorded(batched)
    assert [op["op"] for op in launch["ops"]] == ["isend", "irecv"]


def test_a_dropped_handle_is_recorded():
    """On gloo a send whose handle dies before its match hangs the pair (measured)."""

    def drops():
        if dist.get_rank() == 0:
            dist.isend(torch.ones(4), 1)
        else:
            dist.recv(torch.ones(4), 0)

    check = run(drops, 2, model="gloo")
    assert names(check, 0) == ["isend", "drop"]
    assert not check.verdict.safe


def creates_groups(order):
    """Create two groups in an order that depends on the rank, and use them."""

    def body():
        rank = dist.get_rank()
        pairs = [[0, 1], [2, 3]]
        groups = {}
        for place in order(rank):
            groups[place] = dist.new_group(pairs[place])
        dist.all_reduce(torch.ones(2), group=groups[rank // 2])

    return body


def test_the_order_of_group_creation_is_checked():
    """Creation is counted on every rank, members or not: another order is another communicator."""
    assert run(creates_groups(lambda _: (0, 1)), 4).verdict.safe
    wrong = run(creates_groups(lambda rank: (1, 0) if rank else (0, 1)), 4)
    assert wrong.verdict.outcome is Outcome.DEADLOCK
    assert wrong.verdict.errors[0].code == "PG406"


def test_groups_that_only_their_members_make_share_a_name():
    """torch names a group by a number of its own on every rank: two pairs under one number meet.
    Named by their members, they are two.
    """

    def body(*given, **how):
        rank = dist.get_rank()
        own = dist.new_group([0, 1] if rank < 2 else [2, 3], *given, **how)
        dist.all_reduce(torch.ones(2), group=own)

    crossed = run(body, 4)
    assert crossed.verdict.outcome is Outcome.MISMATCH
    assert [finding.code for finding in crossed.verdict.errors] == ["PG406"]
    assert run(lambda: body(use_local_synchronization=True), 4).verdict.safe
    assert run(lambda: body(None, "gloo", None, True), 4).verdict.safe


def test_two_groups_in_opposite_orders_deadlock():
    """Neither rank can finish the collective that the other one waits for."""

    def body():
        first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
        if dist.get_rank():
            first, second = second, first
        dist.all_reduce(torch.ones(2), group=first)
        dist.all_reduce(torch.ones(2), group=second)

    assert run(body, 2).verdict.errors[0].code == "PG004"


def ddp():
    """Two steps of DistributedDataParallel; its reducer is C++."""
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), bucket_cap_mb=0.01
    )
    for _ in range(2):
        model(torch.ones(2, 64)).sum().backward()


def fsdp():
    """One step of fully_shard."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model(torch.ones(2, 16)).sum().backward()


def tensor_parallel():
    """One step of a DTensor module, compiled."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
    plan = {"0": tp.ColwiseParallel(), "1": tp.RowwiseParallel()}
    tp.parallelize_module(model, mesh["tp"], plan)
    torch.compile(model)(torch.ones(2, 8, requires_grad=True)).sum().backward()


def zero_optimizer():
    """One step of the ZeRO-1 optimizer."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.Linear(8, 8)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()


LIBRARIES = {
    ddp: {"all_reduce": 3},
    fsdp: {"all_gather_into_tensor": 4, "reduce_scatter_tensor": 2},
    tensor_parallel: {"all_reduce": 2},
    zero_optimizer: {"broadcast": 2},
}


@pytest.mark.parametrize("body", LIBRARIES, ids=lambda f: f.__name__)
def test_what_libraries_issue_below_python_is_seen(body):
    """DDP's C++ reducer, FSDP2, DTensor and ZeRO go through the recording group."""
    check = run(body, 4, mesh={"dp": 2, "tp": 2} if body is tensor_parallel else None)
    assert check.verdict.safe
    found = names(check)
    for op, count in LIBRARIES[body].items():
        assert found.count(op) == count


def test_waits_of_the_reducer_lie_at_the_end_of_backward():
    """Buckets of one backward overlap: they are all issued before the first is waited for."""
    check = run(ddp, 2)
    steps = [a["op"] for a in recorded(check) if a["op"] in ("all_reduce", "wait")]
    assert steps == ["all_reduce", "wait", "all_reduce", "all_reduce", "wait"]


def test_alike_ranks_are_played_once():
    """A world of 12 is decided from 4 ranks, and the ledger says so; ranks="all" plays all."""

    def body():
        dist.all_reduce(torch.ones(4))

    few, everyone = run(body, 12), run(body, 12, ranks="all")
    assert few.verdict.safe
    assert few.plan.approximations[-1].message.startswith("4 of 12 ranks were played")
    assert "spmd-substitution" not in [a.kind for a in everyone.plan.approximations]


def test_reading_the_rank_plays_every_rank():
    """Code that asks for its rank may do anything with it, so no rank stands for another."""

    def body():
        if os.environ["RANK"] == "7":
            dist.barrier()
        dist.all_reduce(torch.ones(4))

    assert run(body, 12).verdict.outcome is Outcome.MISMATCH


def test_a_decision_on_a_received_value_leaves_the_plan_undecided():
    """What is too large to travel is made up, so code that branches on it proves nothing."""

    def branches():
        x = torch.ones(1 << 17)
        dist.all_reduce(x)
        if x.sum().item() > 100:
            dist.barrier()

    def logs():
        x = torch.ones(1 << 17)
        dist.all_reduce(x)
        print(f"loss {x.sum().item():.3f}")

    assert run(branches, 2).verdict.unknown
    assert run(logs, 2).verdict.safe
    with pytest.raises(UnsafePlanError):
        precheck(2).run(branches)
    assert precheck(2, allow_unknown=True).run(branches).unknown


def test_objects_of_other_ranks_travel():
    """Gathered, broadcast and sent objects are those of the other ranks, whatever their length."""

    def exchanges():
        rank, world = dist.get_rank(), dist.get_world_size()
        found = [None] * world
        dist.all_gather_object(found, "x" * 10 * rank)
        assert found == ["x" * 10 * n for n in range(world)]
        told = [{"stop": True}] if rank == 0 else [None]
        dist.broadcast_object_list(told, src=0)
        assert told == [{"stop": True}]
        if rank == 0:
            dist.send_object_list(["hello", 3], dst=1)
        elif rank == 1:
            got = [None, None]
            dist.recv_object_list(got, src=0)
            assert got == ["hello", 3]

    assert run(exchanges, 3).verdict.safe


def broadcasts(lengths):
    """Broadcast a list of objects into one that may have another length."""
    given = ["x" * 10] * lengths[dist.get_rank()]
    dist.broadcast_object_list(given, src=0)
    dist.all_reduce(torch.ones(2))


def sends(lengths):
    """Send a list of objects into one that may have another length."""
    if dist.get_rank() == 0:
        dist.send_object_list(["x" * 10] * lengths[0], dst=1)
    else:
        dist.recv_object_list([None] * lengths[1], src=0)
    dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize("lengths", [(2, 3), (3, 1)])
@pytest.mark.parametrize("exchange", [broadcasts, sends])
def test_lists_of_objects_of_two_lengths_are_a_mismatch(exchange, lengths):
    """The receiver has no sizes of the objects, and asks for no memory by what was there before."""
    verdict = run(lambda: exchange(lengths), 2, model="gloo").verdict
    assert verdict.outcome is Outcome.MISMATCH
    assert {one.code for one in verdict.findings} == {"PG202"}
    assert run(lambda: exchange((2, 2)), 2).verdict.safe


@pytest.mark.parametrize("form", ["block", "call"])
def test_what_a_rank_raises_is_reported_with_its_frames(form):
    """An exception on some rank is the answer, not a verdict on the rest."""

    def body():
        if dist.get_rank() == 1:
            raise ValueError("bad shard")

    with pytest.raises(UsageError, match="rank 1 could not be captured: ValueError: bad shard"):
        in_form(form, body, 2)


def test_an_exception_of_the_own_rank_passes_through_the_block():
    """The block hides nothing that its body raises, and ends its processes."""
    with pytest.raises(KeyError, match="mine"), precheck(2):
        raise KeyError("mine")


def test_nothing_is_left_behind():
    """No process group, no patched function, no child, no changed environment."""

    def surroundings():
        children = {child.pid for child in psutil.Process().children()}
        functions = dist.new_group, torch.Tensor.item, torch.autograd.backward
        # torch names its cache in the environment when its compiler is first imported.
        environment = {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"}
        return environment, functions, children

    before = surroundings()
    with precheck(3):
        train_step()
    assert not dist.is_initialized()
    assert surroundings() == before
    with pytest.raises(UsageError, match="of torch"), precheck(3):
        raise UsageError("no fault of torch")
    assert not dist.is_initialized()
    assert surroundings() == before


def test_a_running_process_group_is_refused(tmp_path):
    """precheck brings its own process group and will not touch a real one."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with pytest.raises(UsageError, match="already initialized"):
            precheck(2).run(train_step)
    finally:
        dist.destroy_process_group()


def test_a_world_that_does_not_fit_is_refused():
    """init_process_group of the body and the precheck must agree on the world."""

    def body():
        dist.init_process_group("nccl", world_size=16, rank=0)

    with pytest.raises(UsageError, match="asks for world_size=16, the precheck plays world_size=2"):
        precheck(2).run(body)


def test_ranks_that_wait_for_each_others_objects_are_a_deadlock():
    """Both ask for an object first: the play ends at once, and the plan is the deadlock."""

    def body():
        dist.recv_object_list([None], src=1 - dist.get_rank())

    assert run(body, 2).verdict.outcome is Outcome.DEADLOCK


def test_the_plan_of_a_precheck_is_an_ordinary_plan():
    """It can be checked again under any model, and written as a plan file."""
    check = run(skipping, 4)
    assert planguard.check(check.plan, model="gloo").unsafe
    assert planguard.load(check.plan.source).world_size == 4


def drops_a_handle():
    """Use a tensor whose reduction nobody waits for."""
    x = torch.ones(400)
    handle = dist.all_reduce(x, async_op=True)
    del handle
    x.add_(1)
    dist.barrier()


def test_an_error_that_leaves_the_outcome_safe_is_told():
    """A handle that is dropped is PG301, an error: the call raises, and says what is wrong."""
    assert run(drops_a_handle, 2, model="gloo").verdict.safe
    with pytest.raises(UnsafePlanError, match="plan is SAFE, and has errors: PG301"):
        precheck(2, model="gloo").run(drops_a_handle)


def test_ranks_play_programs_of_their_own():
    """One play of N programs gives the traces and the plan, and the next costs no start-up."""

    def one(length):
        def program():
            steps = torch.tensor(length)
            dist.all_reduce(steps, op=dist.ReduceOp.MAX)
            for _ in range(steps.item()):
                dist.all_reduce(torch.ones(1))

        return program

    play = play_ranks([one(1), one(4)])
    assert [len(log.actions) for log in play.logs.values()] == [5, 5]
    assert planguard.check(play.plan(model="gloo")).safe


def store_barrier():
    """Wait for a key that only the other rank's path would set."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        store.set("ready", "1")
        store.wait(["done"])
    else:
        store.wait(["ready"])
    dist.barrier()


def test_a_wait_for_a_key_that_nobody_sets_ends_the_rank():
    """The rank that waits in vain never comes to the barrier that its peer waits in."""
    assert run(store_barrier, 2).verdict.unsafe


@pytest.mark.parametrize("used", [True, False])
def test_a_counter_that_ranks_race_for_decides_nothing_for_sure(used):
    """Who adds first is another rank in another run: deciding on it is undecided, adding is not."""

    def votes():
        store = dist.distributed_c10d._get_default_store()
        if used:
            if store.add("votes", 1) == 2:
                torch.ones(1)
        else:
            store.add("votes", 1)
        dist.barrier()
        if store.add("votes", 0) == 2:
            dist.all_reduce(torch.ones(2))

    verdict = run(votes, 2).verdict
    assert verdict.unknown if used else verdict.safe


def test_values_that_go_through_a_thread_stay_doubted():
    """What a thread of the program computes of a made-up value is made up."""

    def body():
        x = torch.ones(1 << 17)
        dist.all_reduce(x)
        found = []
        worker = threading.Thread(target=lambda: found.append(x * 2))
        worker.start()
        worker.join()
        if found[0].sum() > 3:
            dist.barrier()

    assert run(body, 2).verdict.unknown


TRACED_BETWEEN = """
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

from planguard.capture import precheck


def job():
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    dist.all_reduce(weight.grad)


print(precheck(2).run(job).outcome.value)
with FakeTensorMode():
    torch.ones(2)
torch.ones(2, requires_grad=True).sum().backward()
print(precheck(2).run(job).outcome.value)
"""


@pytest.mark.skipif(
    torch.version.cuda is None or torch.cuda.device_count() > 0,
    reason="FakeTensorMode makes a device up where a build of torch for CUDA finds none",
)
def test_a_check_goes_on_behind_a_trace_and_a_gradient(tmp_path):
    """The first check starts autograd without threads; else forks would compute no gradients."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED_BETWEEN], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["SAFE", "SAFE"], done.stderr[-3000:]


def test_a_job_that_names_a_device_and_no_backend_is_played_on_nccl():
    """As torch takes it: what the job does on NCCL alone is in its plan."""

    def job() -> None:
        dist.init_process_group(device_id=torch.device("cuda:0"))
        if dist.get_backend() == "nccl" and dist.get_rank() == 0:
            dist.barrier()

    assert precheck(2, on_unsafe="return").run(job).unsafe


def test_a_list_that_begins_with_a_tensor_makes_one():
    """As a meter makes the sum and the count that it reduces: of the same values and type. A value
    that is made up stays so, wherever it stands.
    """
    double = torch.tensor(3.0, dtype=torch.float64)

    def job() -> None:
        for make in (torch.tensor, torch.as_tensor):
            assert make([double, 4]).tolist() == [3.0, 4.0]
            assert make([double, 4]).dtype == torch.float64
            assert make([[double], [4]], dtype=torch.int32).tolist() == [[3], [4]]
            assert make(double).dtype == torch.float64
        dist.all_reduce(torch.ones(2))

    assert run(job, 2).verdict.safe

    def made_up(first: int) -> None:
        large = torch.ones(3000, 3000)
        total = torch.tensor([(large @ large).sum(), 4.0][::first])
        if total.sum().item() > 0:
            dist.barrier()

    for first in (1, -1):
        assert run(lambda first=first: made_up(first), 2, compute="stub").verdict.unknown
