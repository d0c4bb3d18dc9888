"""Ranks that name other members of one group: a finding with the lists, and what follows folded."""

from __future__ import annotations

import pytest
from audit_dumps import codes, entry, write

import planguard as pg


def dumps(folder, lists, *, state="started", op="all_reduce", world=3, used=True):
    """Dumps of ranks that made one call on group 1, of which each has its own list of members."""
    for rank, members in lists.items():
        rows = [entry(number=0, seq=1)]
        if used:
            rows.append(entry(op, number=1, seq=1, group="1", state=state))
        write(folder, rank, rows, {"1": members}, world=world)


def test_the_lists_and_who_has_which_are_told(tmp_path):
    """Two of three ranks made the group of two, the third of three: PG405 on the third."""
    dumps(tmp_path, {0: [0, 1], 1: [0, 1], 2: [0, 1, 2]})
    verdict = pg.audit(tmp_path)
    assert verdict.outcome.name == "MISMATCH"
    first = verdict.findings[0]
    assert (first.code, first.ranks, first.severity) == ("PG405", (2,), "error")
    assert "group 1: ranks 0 and 1 name ranks 0 and 1 and rank 2 names ranks [0-2]" in first.message
    assert any(note.startswith("evidence: strong; rests on dumps") for note in first.notes)
    assert not {"PG006", "PG007", "PG501", "PG502"} & set(codes(verdict))


def test_where_as_many_have_either_list_nobody_is_unlike_most(tmp_path):
    """Of two lists of one rank each both ranks are named."""
    dumps(tmp_path, {0: [0, 1], 1: [0, 1, 2]}, world=3)
    first = pg.audit(tmp_path).findings[0]
    assert (first.code, first.ranks) == ("PG405", (0, 1))
    assert any("as many say the one as the other" in note for note in first.notes)


def test_another_order_permutes_what_is_gathered_although_all_calls_end(tmp_path):
    """The same members in another order: chunks land in other places."""
    lists = {0: [0, 1, 2], 1: [0, 1, 2], 2: [2, 1, 0]}
    dumps(tmp_path, lists, state="completed", op="all_gather")
    verdict = pg.audit(tmp_path)
    assert not verdict.safe
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG405", (2,))
    assert "the order of the members" in verdict.findings[0].message
    assert "ranks 0 and 1 name [0, 1, 2] and rank 2 names [2, 1, 0]" in verdict.findings[0].message


@pytest.mark.parametrize("case", ["groups of one name", "alike", "not used"])
def test_lists_that_are_no_contradiction_are_none(case, tmp_path):
    """Lists that share no rank are two groups; what nobody called on hangs nobody."""
    lists = {0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}
    if case == "alike":
        lists = {rank: [0, 1, 2, 3] for rank in range(4)}
    elif case == "not used":
        lists = {0: [0, 1], 1: [0, 1, 2], 2: [2], 3: [3]}
    dumps(tmp_path, lists, state="completed", world=4, used=case != "not used")
    assert "PG405" not in codes(pg.audit(tmp_path))
