"""Random plans of every shape against the enumerator: a part of ``tests/campaigns/campaign.py``."""

from __future__ import annotations

import campaign
import pytest

CHUNK = 250
CI, SLOW = 2_000, 100_000
STATES = {"ci": 150, "slow": 2_000}
EACH = 24
"""Plans of each later shape in CI."""


def pytest_generate_tests(metafunc):
    """Cut the seeds into chunks; --slow makes it the whole campaign."""
    if "first" in metafunc.fixturenames:
        count = SLOW if metafunc.config.getoption("--slow") else CI
        metafunc.parametrize("first", range(0, count, CHUNK))


def test_plans_that_mix_constructs_are_judged_as_the_enumerator_judges_them(first, request):
    """Fixed, open, fused, branched, wild, threaded and mixed plans: no outcome differs, no check
    of a plan that the door let pass raises, and most verdicts are compared.
    """
    states = STATES["slow" if request.config.getoption("--slow") else "ci"]
    tally, _ = campaign.run(first, CHUNK, one_model=True, limit=states)
    assert not tally.raised
    assert not tally.different
    assert sum(tally.compared.values()) > CHUNK // 2
    assert sum(tally.unknown.values()) < CHUNK // 4


@pytest.mark.parametrize(
    ("seed", "model"),
    [
        (791, "mpi-pg"),
        (991, "gloo-detail"),
        (1217, "nccl"),
        (40279, "nccl-eager"),
        (43087, "nccl-eager"),
        (57446, "mpi-pg"),
        (500365, "gloo-detail"),
        (501055, "mpi-sync"),
        (3007304, "gloo"),
    ],
)
def test_what_once_differed_agrees(seed, model):
    """The enumerator was wrong: `{i}` of an inner loop, a wait issued before its start, members of
    a fused buffer in a block inside a block, a call in a queue that lacks a member for good,
    and a hang that only a message that might have been buffered explains by a mismatch. PlanGuard
    was wrong: a call that a dropped receive stalls (a SAFE), and one behind a mismatch.
    """
    tally = campaign.Tally()
    campaign.compare(seed, [model], 1_000, tally)
    assert not tally.different
    assert not tally.raised
    assert not tally.bold
    # A verdict that says of itself that it is not complete is counted apart, and what is UNKNOWN
    # now (the turns of mpi-pg, for example) differs from nothing.
    asked = tally.compared + tally.careful + tally.unknown + tally.passed
    assert sum(asked.values()) == 1


def test_after_may_name_what_stands_in_front_of_the_block():
    """A branch inside threads that comes after a call in front of them: decided, not KeyError."""
    tally = campaign.Tally()
    campaign.compare(1_074_123, ["gloo-detail", "gloo"], 1_000, tally)
    assert not tally.raised
    assert not tally.different


def test_plans_of_a_job_in_small_are_judged_as_the_enumerator_judges_them(request):
    """Asynchronous and fused calls of several groups, half with `init` first: no outcome differs.

    ``--slow`` draws 1,120 seeds, of which about a thousand are plans.
    """
    slow = request.config.getoption("--slow")
    count, limit, patience = (1_120, 4_000, 4.0) if slow else (20, 150, 20.0)
    tally, _ = campaign.run(campaign.JOBS, count, one_model=True, limit=limit, patience=patience)
    assert not tally.raised
    assert not tally.different
    assert not tally.bold
    assert tally.plans["job"]
    assert tally.plans["job-fused"]
    assert sum(tally.compared.values()) > (count // 2 if slow else 0)


@pytest.mark.parametrize("shape", campaign.LATER_SHAPES)
def test_plans_of_the_later_shapes_are_judged_as_the_enumerator_judges_them(shape, request):
    """Shapes of one construct each, and all of them together: no outcome differs, no check raises,
    and nothing is SAFE where the enumerator cannot tell.
    """
    campaign.register_operations()
    tally = campaign.Tally()
    step = len(campaign.LATER_SHAPES)
    first = campaign.LATER + campaign.LATER_SHAPES.index(shape)
    count = EACH * (40 if request.config.getoption("--slow") else 1)
    for seed in range(first, first + count * step, step):
        campaign.compare(seed, [campaign.one_model_of(seed)], 500, tally)
    assert tally.plans[shape] > count / 2
    assert not tally.raised
    assert not tally.different
    assert not tally.bold


def test_the_later_shapes_meet_every_model_they_speak_of():
    """Slices with one model for each plan reach all pairs of shape and model."""
    step = len(campaign.LATER_SHAPES)
    for place, shape in enumerate(campaign.LATER_SHAPES):
        seeds = range(campaign.LATER + place, campaign.LATER + place + 20 * step, step)
        met = {campaign.one_model_of(seed) for seed in seeds}
        assert campaign.draw(seeds[0])[0] == shape
        assert met == set(campaign.models_of(seeds[0]))


def test_a_campaign_goes_on_behind_its_last_slice(tmp_path, capsys):
    """`--resume` starts where the file ends, and has nothing to do when all of it is there."""
    path = tmp_path / "slices.jsonl"
    slices = ["--first", "0", "--one-model", "--append", str(path), "--resume"]
    for count, said in (("4", "seeds      0 to 3"), ("10", "seeds      4 to 9")):
        assert campaign.main([*slices, "--count", count]) == 0
        assert said in capsys.readouterr().out
    assert campaign.main(["--sum", str(path)]) == 0
    with pytest.raises(SystemExit):
        campaign.main(["--resume"])


def test_a_slice_of_the_campaign_can_be_added_up(tmp_path, capsys):
    """Slices go to a file one line each, and their sum says what all of them found."""
    path = tmp_path / "slices.jsonl"
    for first in (0, 8):
        code = campaign.main(
            ["--first", str(first), "--count", "8", "--one-model", "--append", str(path)]
        )
        assert code == 0
    capsys.readouterr()
    assert campaign.main(["--sum", str(path)]) == 0
    assert "different  0" in capsys.readouterr().out
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize("seed", [8, 47, 85, 117, 163, 202, 264, 307, 335])
def test_an_order_that_is_no_valid_program_is_a_reason_not_an_exception(seed):
    """These plans made a check raise: an order, a branch or a flush of them is ill-formed."""
    import planguard

    document = campaign.combined.combined(seed)
    try:
        plan = planguard.load(document)
    except planguard.PlanError:
        return
    for model in ("nccl", "gloo", "mpi-pg"):
        verdict = planguard.check(plan, model=model)
        assert verdict.reasons or not verdict.unknown
