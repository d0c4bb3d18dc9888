"""Who changed the order of two groups: the rank whose order most others do not have."""

from __future__ import annotations

import itertools

import pytest
from audit_dumps import codes, entry, write

import planguard as pg

GROUPS = ("1", "2")


def dumps(tmp_path, first, *, members=None, shared=3):
    """Write dumps of ranks that stand in the group each of them comes to first.

    Args:
        tmp_path: Where.
        first: For each rank the group that it calls first behind the rounds that all have.
        members: Members of group 2, if not all.
        shared: Rounds that all have completed on both groups.
    """
    world = len(first)
    groups = {"1": list(range(world)), "2": members or list(range(world))}
    for rank, group in enumerate(first):
        own = [name for name in GROUPS if rank in groups[name]]
        rows = [
            entry(number=2 * n + m, seq=n + 1, group=name)
            for n in range(shared)
            for m, name in enumerate(own)
        ]
        rows.append(entry(number=2 * shared, seq=shared + 1, group=group, state="started", line=40))
        write(tmp_path, rank, rows, groups)


def found(tmp_path):
    """Return the ranks that the deadlock is said to be of, its words, and its edges."""
    one = next(f for f in pg.audit(tmp_path).findings if f.code == "PG004")
    return one.ranks, one.message, {edge.at.rank for edge in one.cycle}


@pytest.mark.parametrize(("world", "rank"), [(3, 0), (3, 2), (4, 1), (8, 7)])
@pytest.mark.parametrize("usual", GROUPS)
def test_the_rank_whose_order_no_other_has_changed_it(world, rank, usual, tmp_path):
    """All but one come to one group first: that one is named, whatever its number is."""
    other = GROUPS[usual == "1"]
    dumps(tmp_path, [other if n == rank else usual for n in range(world)])
    ranks, text, around = found(tmp_path)
    assert ranks == (rank,)
    assert f"by majority rank {rank} changed the order: #4 on {other} before #4 on {usual}" in text
    assert rank in around
    assert len(around) == 2
    notes = next(f for f in pg.audit(tmp_path).findings if f.code == "PG004").notes
    assert f"rests on dumps of ranks [0-{world - 1}]" in " ".join(notes)


@pytest.mark.parametrize("first", ["12", "1122", "12122", "11122"])
def test_where_no_majority_shows_it_both_sides_are_named(first, tmp_path):
    """Of two ranks, of two against two, and of two against three either side may have changed."""
    dumps(tmp_path, first)
    ranks, text, around = found(tmp_path)
    assert len(ranks) == 2
    assert set(ranks) == around
    assert "changed the order" not in text


def test_who_is_in_one_of_the_groups_only_has_no_vote(tmp_path):
    """Ranks 2 to 5 wait in group 1, of which rank 0 is missing, and are in no group 2."""
    dumps(tmp_path, "211111", members=[0, 1])
    ranks, text, _ = found(tmp_path)
    assert ranks == (0, 1)
    assert "changed the order" not in text


def test_calls_that_were_all_issued_in_one_order_blame_nobody(tmp_path):
    """On rank 0 the kernel of group 2 started first; its program has the order of the others."""
    groups = {"1": [0, 1, 2], "2": [0, 1, 2]}
    for rank in range(3):
        states = ("scheduled", "started") if rank == 0 else ("started", "scheduled")
        rows = zip(GROUPS, states, strict=True)
        rows = [entry(number=n, seq=1, group=g, state=s) for n, (g, s) in enumerate(rows)]
        write(tmp_path, rank, rows, groups)
    ranks, text, _ = found(tmp_path)
    assert len(ranks) == 2
    assert "changed the order" not in text


def test_every_choice_of_who_changed_is_answered_by_its_count(tmp_path):
    """Of five ranks every set that comes to group 2 first: named only if four or more do not."""
    for number, first in enumerate(itertools.product(GROUPS, repeat=5)):
        if len(set(first)) < 2:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        dumps(folder, first, shared=1)
        alone = [n for n in range(5) if first.count(first[n]) == 1]
        assert "PG004" in codes(pg.audit(folder))
        ranks, _, around = found(folder)
        assert ranks == (tuple(alone) if alone else tuple(sorted(around))), first
