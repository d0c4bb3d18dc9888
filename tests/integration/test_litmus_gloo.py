from __future__ import annotations

import json
from pathlib import Path

import pytest
from gloo_runner import GlooPool
from oracle.enumerator import Effort, enumerate_plan
from oracle.generate import generate

LITMUS = Path(__file__).resolve().parents[1] / "corpus" / "litmus"
# Two or three of every family; each kind of ending is among them.
SAMPLE = (
    "p2p_send_recv_4B",
    "p2p_head_to_head_send_4B",
    "p2p_head_to_head_send_64KiB",
    "p2p_send_ring4_isend",
    "p2p_tag_cross_isend",
    "p2p_recv_smaller",
    "p2p_recv_larger_same_tag",
    "p2p_group_mismatch",
    "p2p_wait_second_only_one_recv",
    "p2p_peer_exits",
    "batch_two_peers",
    "batch_two_peers_serialized",
    "coll_allreduce_missing_rank",
    "coll_missing_rank_exits",
    "kind_all_reduce__vs__all_gather",
    "kind_3ranks_allreduce_vs_barrier",
    "order_swap_ar_bc_same_group_async",
    "order_swap_ar_ar_diff_size_async",
    "size_gather_mismatch",
    "root_broadcast_3r_0_0_1",
    "dtype_allreduce_f32_i32",
    "sync4_scatter_rank3_missing",
    "sync_bcast_chain_2groups_gather",
    "groups_cross_order_sync",
    "groups_cross_order_async",
    "newgroup_order_swap",
    "newgroup_diff_members_order",
    "coal_allreduce_coalesced_permuted",
    "async_ar_wait_before_send",
    "zero_size_send_alone",
)
# What a translation cannot keep: a timeout that turns a hang into an error, and races.
HANGS_WITHOUT_ITS_TIMEOUT = {
    "monitored_barrier_missing",
    "monitored_barrier_vs_allreduce",
    "wait_timeout_arg",
}
RACES = {"p2p_anysource_steals", "isend_then_exit_immediately"}
RANDOM, RANDOM_ALL = 24, 500


def read(name):
    """The decoded plan of a litmus program."""
    return json.loads((LITMUS / f"{name}.plan.json").read_text("utf-8"))


def names(config):
    """The programs to run."""
    if not config.getoption("--litmus-all", default=False):
        return list(SAMPLE)
    found = sorted(path.name.removesuffix(".plan.json") for path in LITMUS.glob("*.plan.json"))
    return [name for name in found if "error" not in read(name)["x-expect"]]


def seeds(config):
    """The random plans to run."""
    return range(RANDOM_ALL if config.getoption("--litmus-all", default=False) else RANDOM)


def pytest_generate_tests(metafunc):
    """Make a test per program."""
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", names(metafunc.config))
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds(metafunc.config))


@pytest.fixture(scope="module")
def pool():
    """A server that has torch loaded."""
    with GlooPool(quiet=3.0, parallel=6) as running:
        yield running


@pytest.fixture(scope="module")
def endings(pool, request):
    """How every program ended; they run side by side, since hanging is mostly waiting."""
    todo = names(request.config)
    return dict(zip(todo, pool.run_many([read(name) for name in todo]), strict=True))


@pytest.fixture(scope="module")
def random_endings(pool, request):
    """How every random plan ended."""
    todo = seeds(request.config)
    return dict(zip(todo, pool.run_many([generate(seed) for seed in todo]), strict=True))


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_litmus_plan_ends_as_it_was_measured(name, endings):
    """On real gloo processes a plan ends as its program did, at the same actions."""
    plan, ending = read(name), endings[name]
    measured = plan["x-observed"]["gloo"]["verdict"]
    expected = {"ok": {"ok"}, "corrupt": {"ok"}, "hang": {"hang"}, "crash": {"crash"}}.get(
        measured, {"error"}
    )
    if name in HANGS_WITHOUT_ITS_TIMEOUT:
        expected = {"hang"}
    if name in RACES or name.startswith("anysource"):
        expected = {"ok", "hang", "error"}
    assert ending.outcome in expected, ending
    stuck = plan["x-expect"]["gloo"].get("stuck")
    if stuck is not None and name not in RACES:
        assert {str(rank): action for rank, action in ending.stuck.items()} == stuck


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_random_plan_ends_as_the_enumerator_says(seed, random_endings):
    """On real gloo processes a safe plan completes, and a deadlock hangs at the named actions."""
    ending = random_endings[seed]
    verdict = enumerate_plan(generate(seed), "gloo", Effort(verify=0))
    assert ending.outcome != "unusable"
    if verdict.outcome in {"SAFE", "UNKNOWN"}:
        assert ending.outcome == "ok", ending
    if verdict.outcome == "DEADLOCK":
        # A rank that left makes its partners fail instead of wait; a mismatch may abort them.
        assert ending.outcome in {"hang", "error", "crash"}, ending
        # An exit may break the last call of a partner that was about to return.
        leaves = any(state.state == "exit" for state in ending.ranks)
        if not leaves and not any(each.mismatches for each in verdict.endings):
            assert ending.stuck == verdict.stuck


@pytest.mark.processes
@pytest.mark.timeout(120)
def test_safe_random_plans_complete_under_any_delays(pool):
    """Random pauses before the actions of safe plans change nothing."""
    safe = [
        plan
        for plan in map(generate, range(100, 130))
        if enumerate_plan(plan, "gloo", Effort(verify=0)).outcome == "SAFE"
    ][:8]
    for delays in range(3):
        assert {ending.outcome for ending in pool.run_many(safe, delays=delays)} == {"ok"}
