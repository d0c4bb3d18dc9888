"""Which assignments of samples to ranks are played, and what is said of the rest."""

from __future__ import annotations

import itertools

import pytest

from planguard.capture.batches.samples import (
    MOST,
    choose,
    covered,
    covers_pairs,
    odd_ranks,
    pairs,
    written,
)

SIZES = [(kinds, world) for kinds in (1, 2, 3, 4, 7) for world in (1, 2, 3, 4, 5, 8, 13)]


@pytest.mark.parametrize(("kinds", "world"), SIZES)
def test_a_choice_is_exhaustive_where_few_and_else_has_its_base(kinds, world):
    """Each assignment once; all of them up to the limit, and else at least the whole base."""
    chosen = choose(kinds, world)
    assert len(set(chosen.assignments)) == len(chosen.assignments)
    assert all(len(one) == world and set(one) <= set(range(kinds)) for one in chosen.assignments)
    every = set(itertools.product(range(kinds), repeat=world)) if kinds**world <= MOST else None
    assert every is None or set(chosen.assignments) == every
    base = set(chosen.assignments[: chosen.base])
    assert {(number,) * world for number in range(kinds)} <= base
    for usual, odd in pairs(kinds):
        assert (usual,) * (world - 1) + (odd,) in base
        assert (odd,) + (usual,) * (world - 1) in base


@pytest.mark.parametrize(("kinds", "world"), SIZES)
def test_what_is_claimed_of_a_cover_holds(kinds, world):
    """Every pair of samples on every pair of ranks is covered when, and only when, it says so."""
    chosen = choose(kinds, world)
    for played in (chosen.assignments, chosen.assignments[: chosen.base], chosen.assignments[:3]):
        said = covered(chosen, played)
        couples = itertools.combinations(range(world), 2)
        wanted = set(itertools.product(range(kinds), repeat=2))
        is_covered = all({(one[a], one[b]) for one in played} == wanted for a, b in couples)
        assert covers_pairs(chosen, played) is is_covered
        if len(set(played)) == kinds**world:
            assert said.startswith(f"all {kinds**world} assignments")
        else:
            assert ("every two samples on every two ranks" in said) is is_covered
            assert ", ".join(map(written, played[:256])) in said


def test_two_samples_are_covered_pairwise_in_any_world():
    """The bits of the ranks' numbers cover all pairs with few assignments."""
    for world in (7, 8, 16, 33):
        chosen = choose(2, world)
        assert len(chosen.assignments) <= MOST
        assert covers_pairs(chosen, chosen.assignments)
        assert {0, world - 1} <= set(odd_ranks(chosen, chosen.assignments))


def test_bugs_are_met_early():
    """The second assignment is a mixed one, and neighbours come first: all samples are met soon."""
    chosen = choose(4, 6)
    assert chosen.assignments[0] == (0,) * 6
    assert chosen.assignments[1] == (1, 1, 1, 1, 1, 2)
    assert {number for one in chosen.assignments[:8] for number in one} == {0, 1, 2, 3}


@pytest.mark.parametrize(("kinds", "world"), SIZES)
def test_what_is_enough_without_mixes_has_every_sample_on_every_rank(kinds, world):
    """Only a cover may end early, behind every sample on every rank, mixed ones among them."""
    chosen = choose(kinds, world)
    if kinds**world <= MOST:
        assert not chosen.enough
        return
    assert chosen.enough <= set(chosen.assignments[: chosen.base])
    assert all({one[rank] for one in chosen.enough} == set(range(kinds)) for rank in range(world))
    assert any(len(set(one)) > 1 for one in chosen.enough) or world == 1
    assert len(chosen.enough) == max(kinds, 3)
