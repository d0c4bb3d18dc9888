"""Logs of torchcomms' ClogHook, written by hand from its description of the format."""

from __future__ import annotations

import pytest

import planguard as pg

HEAD = "V|1|base_timestamp=1714234567.890"
SUM = (
    "C{n}|sig|all_reduce|in_count={count}|out_count={count}|dtype=f32|red_op=sum|async_op=f|"
    "comm={comm}"
)


def log(rank, *events, world=4, extra=()):
    """The file of one rank: two signatures, and events."""
    return "\n".join(
        [
            HEAD,
            f"new_comm|comm=main|rank={rank}|world_size={world}",
            *extra,
            SUM.format(n=1, count=1024, comm="main"),
            SUM.format(n=2, count=2048, comm="main"),
            *events,
            "",
        ]
    )


def done(corr, work):
    """A call that came to its end."""
    return [f"C{corr}|Q|work_id={work}|+0.1", f"C{corr}|S|+0.2", f"C{corr}|E|+0.3"]


def begun(corr, work):
    """A call that started and did not end."""
    return [f"C{corr}|Q|work_id={work}|+0.1", f"C{corr}|S|+0.2"]


def audit(tmp_path, *texts):
    """Audit one file per rank."""
    for number, text in enumerate(texts):
        (tmp_path / f"clog.{number}").write_text(text, encoding="utf-8")
    return pg.audit(tmp_path)


def errors(verdict):
    """Codes and ranks of errors."""
    return [(f.code, f.ranks) for f in verdict.errors]


def test_who_never_came_is_named(tmp_path):
    """Rank 2 ended its first call and never made the second, in which the others are."""
    logs = [log(r, *done(1, 1), *([] if r == 2 else begun(2, 2))) for r in range(4)]
    verdict = audit(tmp_path, *logs)
    assert errors(verdict) == [("PG007", (2,))]
    assert "all_reduce #2" in verdict.findings[0].message


def test_calls_of_other_sizes_are_a_mismatch(tmp_path):
    """Rank 1 brings 2048 elements where the others bring 1024."""
    verdict = audit(tmp_path, *(log(r, *begun(2 if r == 1 else 1, 1)) for r in range(4)))
    assert errors(verdict) == [("PG202", (1,))]


def test_a_finished_run_is_not_stuck(tmp_path):
    """All calls ended: no rank is stuck, and nothing is an error."""
    verdict = audit(tmp_path, *(log(r, *done(1, 1), *done(2, 2)) for r in range(4)))
    assert errors(verdict) == []


def test_members_of_a_split_are_ranks_of_its_parent(tmp_path):
    """A peer of a split communicator is its place: place 1 of ranks 1 and 3 is rank 3."""
    split = ["split|parent=main|child=odd|ranks=1,3"]
    send = "C3|sig|send|in_count=4|out_count=0|dtype=f32|peer=1|async_op=f|comm=odd"
    recv = "C3|sig|recv|in_count=0|out_count=4|dtype=f32|peer=0|async_op=f|comm=odd"
    logs = [log(0, extra=split), log(1, send, *begun(3, 1), extra=split)]
    logs += [log(2, extra=split), log(3, *done(1, 1), extra=[*split, recv])]
    logs[0] += "C1|Q|work_id=1|+1\nC1|S|+1\n"
    logs[2] += "C1|Q|work_id=1|+1\nC1|S|+1\n"
    verdict = audit(tmp_path, *logs)
    said = " ".join(f.message + " ".join(f.notes) for f in verdict.findings)
    assert "send -> 3" in said


def test_without_states_nothing_is_known_to_have_ended(tmp_path):
    """A hook that logs no lifecycle leaves open what ended."""
    logs = [log(r, "C1|Q|work_id=1|+0.1", "C2|Q|work_id=2|+0.1") for r in range(4)]
    assert errors(audit(tmp_path, *logs)) == []


def test_graphs_leave_the_order_open(tmp_path):
    """What a graph runs again is not logged as a call: nothing is certain beside it."""
    graph = ["G42|C1|Q|work_id=9|+1.000", "G42|R1|C1|S|+2.0"]
    logs = [log(r, *graph, *([] if r == 2 else begun(2, 2))) for r in range(4)]
    logs[2] = log(2, *graph, *done(1, 1))
    assert errors(audit(tmp_path, *logs)) == []


@pytest.mark.parametrize(
    "text",
    [HEAD, f"{HEAD}\nC1|Q|work_id=1|+0.1", f"{HEAD}\nnew_comm|comm=a|rank=9|world_size=4"],
)
def test_a_log_without_calls_is_listed(text, tmp_path):
    """A log that holds no call is no error: what it begins with is shown."""
    verdict = audit(tmp_path, text)
    assert verdict.unknown
    assert "V|1|base_timestamp" in verdict.findings[0].message
