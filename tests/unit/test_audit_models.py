"""Models that DDP found to differ: the rank whose model is unlike those of most is named."""

from __future__ import annotations

import pytest
from test_audit_logs import audit, errors

import planguard as pg

FRAMES = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 40, in main',
    "    model = DDP(model)",
    '  File "/x/torch/nn/parallel/distributed.py", line 800, in __init__',
    "    _verify_param_shape_across_processes(self.process_group, parameters)",
    '  File "/x/torch/distributed/utils.py", line 304, in _verify_param_shape_across_processes',
]


def differs(counts, speakers=None):
    """What the ranks print where the numbers of their parameters differ."""
    for rank in range(len(counts)) if speakers is None else speakers:
        other = next(n for n, count in enumerate(counts) if count != counts[rank])
        yield (
            rank,
            (
                f"RuntimeError: DDP expects same model across all ranks, but Rank {rank} has "
                f"{counts[rank]} params, while rank {other} has inconsistent {counts[other]} "
                "params."
            ),
        )


def sizes(rank, size):
    """What a rank prints whose parameter has another size than that of rank 0."""
    return (
        f"RuntimeError: [{rank}]: params[3] in this process with sizes [{size}, 32] appears not to "
        "match sizes of the same param in process 0."
    )


def rows(said, prefix="[rank{}]: "):
    """The tracebacks of ranks, mixed line by line."""
    own = [[prefix.format(rank) + line for line in [*FRAMES, error]] for rank, error in said]
    return [line for several in zip(*own, strict=True) for line in several]


def crashes(verdict):
    """Who ended with an error of its own."""
    return [(f.ranks, f.message) for f in verdict.findings if f.code == "PG506"]


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "{}: ", "[default{}]:"])
def test_the_rank_with_another_number_of_parameters_is_named(prefix, tmp_path):
    """Ranks 0, 1 and 3 have 103, rank 2 has 101: most are taken to be right, which is a hint."""
    verdict = audit(tmp_path, rows(differs((103, 103, 101, 103)), prefix))
    ((ranks, text),) = crashes(verdict)
    assert ranks == (2,)
    assert "its model has 101 params, those of ranks [0-1,3] have 103 params" in text
    assert errors(verdict) == []


def test_files_of_ranks_tell_it_together(tmp_path):
    """Each rank's file names two ranks only; the names of the files say nothing."""
    for rank, error in differs((103, 103, 101, 103)):
        (tmp_path / f"out-{'abcd'[rank]}.log").write_text("\n".join([*FRAMES, error]) + "\n")
    assert [ranks for ranks, _ in crashes(pg.audit(tmp_path))] == [(2,)]


@pytest.mark.parametrize(
    "said",
    [
        list(differs((103, 101))),
        list(differs((103, 103, 101, 101))),
        list(differs((103, 101, 103), speakers=(1,))),
        [
            (rank, error.replace("inconsistent 101", "inconsistent 0"))
            for rank, error in differs((103, 103, 101, 103), speakers=(0, 1, 3))
        ],
    ],
)
def test_where_most_do_not_agree_nobody_is_blamed(said, tmp_path):
    """Two ranks, two against two, one that speaks, or numbers that an abort left behind."""
    verdict = audit(tmp_path, rows(said))
    assert crashes(verdict) == []
    assert not verdict.safe


def test_where_all_others_differ_from_rank_0_it_is_the_odd_one(tmp_path):
    """Ranks 1 to 3 have one size, and rank 0 another: it says nothing, being what they look at."""
    verdict = audit(tmp_path, rows([(rank, sizes(rank, 96)) for rank in (1, 2, 3)]))
    ((ranks, text),) = crashes(verdict)
    assert ranks == (0,)
    assert "those of ranks [1-3] do" in text


def test_one_rank_that_differs_from_rank_0_is_the_odd_one(tmp_path):
    """Rank 1 speaks, the others go on and wait: they agree with rank 0."""
    others = [(rank, "RuntimeError: Timed out waiting 8000ms for recv") for rank in (0, 2, 3)]
    verdict = audit(tmp_path, rows([(1, sizes(1, 96)), *others]))
    assert [ranks for ranks, _ in crashes(verdict)] == [(1,)]
    assert errors(verdict) == []
