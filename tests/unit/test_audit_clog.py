"""Logs of torchcomms' ClogHook, by its description and its formatting code (0.3.0)."""

from __future__ import annotations

import pytest

import planguard as pg
from planguard.audit.readers.clog import read_clog

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


def signed(corr, op, comm="main", **values):
    """The signature of a call."""
    said = "".join(f"|{name}={value}" for name, value in values.items())
    return f"C{corr}|sig|{op}{said}|async_op=f|comm={comm}"


NAMED = {
    "nccl": "tp",
    "gloo": "tp_{color}",
    "ncclx": "main::split::{color}_tp_1",
}
"""What a backend calls the communicator that a program split off by the name tp."""


@pytest.mark.parametrize("backend", NAMED)
def test_a_split_is_known_by_the_name_that_its_backend_gives(backend, tmp_path):
    """Two groups split off by one name: rank 3 never came to the call of ranks 2 and 3."""
    logs = []
    for r in range(4):
        color = r // 2 * 2
        name = NAMED[backend].format(color=color)
        split = f"split|parent=main|child=tp|ranks={color},{color + 1}"
        first = f"split|parent=main|child=all|ranks={'0' if r == 0 else ''}"
        sig = SUM.format(n=3, count=8, comm=name)
        calls = done(3, 2) if r < 2 else begun(3, 2) if r == 2 else []
        logs.append(log(r, *done(1, 1), sig, *calls, extra=[first, split]))
    verdict = audit(tmp_path, *logs)
    assert errors(verdict) == [("PG007", (3,))]
    assert "PG914" not in {f.code for f in verdict.findings}


def test_who_did_not_come_to_a_split_is_named(tmp_path):
    """A split waits for all of its parent; rank 3 is behind its first call and does not come."""
    split = ["split|parent=main|child=tp|ranks=0,1,2"]
    verdict = audit(tmp_path, *(log(r, *done(1, 1), *([] if r == 3 else split)) for r in range(4)))
    assert verdict.unknown
    assert next((f.code, f.severity, f.ranks) for f in verdict.findings) == (
        "PG007",
        "warning",
        (3,),
    )
    assert "split 1 of communicator main" in verdict.findings[0].message


@pytest.mark.parametrize("behind", [True, False])
def test_a_split_to_which_all_came_blames_nobody(behind, tmp_path):
    """What follows a split shows that it ended; where nothing does, that is open."""
    split = "split|parent=main|child=tp|ranks=0,1,2,3"
    after = done(1, 2) if behind else []
    verdict = audit(tmp_path, *(log(r, *done(1, 1), split, *after) for r in range(4)))
    assert not [f for f in verdict.findings if f.ranks]
    assert verdict.unknown is not behind


def test_a_call_that_timed_out_ended_too(tmp_path):
    """The hook writes an end of calls that failed as well: rank 2 did not come, or later."""
    logs = [log(r, *done(1, 1), *([] if r == 2 else done(2, 2))) for r in range(4)]
    verdict = audit(tmp_path, *logs)
    (found,) = [f for f in verdict.findings if f.code == "PG007"]
    assert (found.ranks, found.severity, verdict.unknown) == ((2,), "warning", True)
    assert any("completed: its last call did either" in note for note in found.notes)


def test_logs_that_end_at_different_moments_show_nothing_stuck(tmp_path):
    """Three ranks went on for three calls behind the last one of rank 2: its log ends earlier."""
    calls = [line for n in range(1, 5) for line in done(2 - n % 2, n)]
    logs = [log(r, *(done(1, 1) if r == 2 else calls)) for r in range(4)]
    verdict = audit(tmp_path, *logs)
    assert verdict.unknown
    assert {f.code for f in verdict.findings} == {"PG904"}
    assert "different moments" in verdict.reasons[0]


def test_a_rank_without_a_call_made_none(tmp_path):
    """The hook of rank 2 logged its communicator and no call: the others wait for it."""
    logs = [log(r, *begun(1, 1)) for r in range(4)]
    logs[2] = f"{HEAD}\nnew_comm|comm=main|rank=2|world_size=4\n"
    assert errors(audit(tmp_path, *logs)) == [("PG007", (2,))]


V_FORMS = {
    "all_gather_v": [
        {"in_count": 10 * (r + 1), "out_counts": "10,20,30,40", "dtype": "f32"} for r in range(4)
    ],
    "reduce_scatter_v": [
        {"in_counts": "10,20,30,40", "out_count": 10 * (r + 1), "dtype": "f32", "red_op": "sum"}
        for r in range(4)
    ],
    "all_to_all_v_single": [
        {"in_splits": f"{r},0,0,1", "out_splits": "0,1,2,3" if r == 0 else "0,0,0,0"}
        for r in range(4)
    ],
    "all_to_all": [
        {"in_counts": f"{r},5,0,1", "out_counts": f"1,{r},2,3", "dtype": "f32"} for r in range(4)
    ],
    "scatter": [
        {"in_counts": "8,8,8,8" if r == 0 else "", "out_count": 8, "dtype": "f32", "root": 0}
        for r in range(4)
    ],
    "gather": [
        {"in_count": 8, "out_counts": "8,8,8,8" if r == 0 else "", "dtype": "f32", "root": 0}
        for r in range(4)
    ],
}


@pytest.mark.parametrize("op", V_FORMS)
def test_parts_of_several_sizes_are_no_mismatch(op, tmp_path):
    """Members of a v-form bring parts of their own sizes, and only a root names those of all."""
    logs = [
        log(r, signed(3, op, **own), *begun(3, 1), extra=[]) for r, own in enumerate(V_FORMS[op])
    ]
    assert errors(audit(tmp_path, *logs)) == []


def test_parts_that_do_not_agree_are_a_mismatch(tmp_path):
    """Rank 1 takes other parts than the others give: of a v-form all must name the same."""
    said = V_FORMS["all_gather_v"]
    said = [own | ({"out_counts": "10,20,30,44"} if r == 1 else {}) for r, own in enumerate(said)]
    logs = [log(r, signed(3, "all_gather_v", **own), *begun(3, 1)) for r, own in enumerate(said)]
    assert errors(audit(tmp_path, *logs)) == [("PG202", (1,))]


def test_namesakes_are_not_told_apart(tmp_path):
    """Two communicators of other members by one name: what looks like a wrong order is open."""
    splits = ["split|parent=main|child=g|ranks=0,1,2,3", "split|parent=main|child=g|ranks=0,1"]
    own = [SUM.format(n=3, count=8, comm="g"), SUM.format(n=4, count=16, comm="g")]
    logs = [
        log(r, *own, *(begun(3, 1) if r else begun(4, 1)), extra=splits if r < 2 else splits[:1])
        for r in range(4)
    ]
    verdict = audit(tmp_path, *logs)
    assert verdict.unknown
    assert not verdict.errors


def test_a_call_without_a_signature_leaves_the_order_open(tmp_path):
    """A log that lost its beginning does not say what a call was: nothing is certain then."""
    logs = [log(r, *done(1, 1), *begun(2, 2)) for r in range(4)]
    logs[2] = "\n".join(row for row in logs[2].splitlines() if "|sig|" not in row or "C1" in row)
    verdict = audit(tmp_path, *logs)
    assert not verdict.errors


def test_a_list_of_many_members_is_read_whole():
    """The members of a split of 5,000 ranks take more than 20,000 characters."""
    ranks = ",".join(map(str, range(0, 10_000, 2)))
    split = f"split|parent=main|child=even|ranks={ranks}"
    sig = SUM.format(n=3, count=8, comm="even")
    part = read_clog(log(9_998, sig, *begun(3, 1), world=10_000, extra=[split]).encode(), "x")
    assert part.groups["even"].ranks == tuple(range(0, 10_000, 2))


def test_another_version_of_the_format_is_refused_by_its_number(tmp_path):
    """What a later version writes is not guessed."""
    logs = [log(r, *begun(1, 1)) for r in range(4)]
    logs[1] = logs[1].replace("V|1|", "V|2|")
    verdict = audit(tmp_path, *logs)
    assert not verdict.errors
    assert "version 2 of ClogHook's log; version 1 is read" in " ".join(
        f.message for f in verdict.findings
    )


@pytest.mark.parametrize(
    "text",
    [HEAD, f"{HEAD}\nC1|Q|work_id=1|+0.1", f"{HEAD}\nnew_comm|comm=a|rank=9|world_size=4"],
)
def test_a_log_without_calls_is_listed(text, tmp_path):
    """A log that holds no call is no error: what it begins with is shown."""
    verdict = audit(tmp_path, text)
    assert verdict.unknown
    assert "V|1|base_timestamp" in verdict.findings[0].message


@pytest.mark.parametrize("states", [True, False])
def test_a_log_that_says_no_states_shows_one_moment(states, tmp_path):
    """Who had not enqueued a call when the log was taken may have been slow: weak, not medium."""
    calls = [done(1, 1), begun(2, 2)]
    keep = slice(None) if states else slice(1)
    logs = [log(r, *calls[0][keep], *([] if r == 2 else calls[1][keep])) for r in range(4)]
    verdict = audit(tmp_path, *logs)
    assert errors(verdict) == ([("PG007", (2,))] if states else [])
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG007", (2,))
    (said,) = [note for note in verdict.findings[0].notes if note.startswith("evidence: ")]
    assert said.startswith("evidence: medium" if states else "evidence: weak")
    assert "rests on logs of ClogHook of ranks" in said


def test_who_is_behind_in_a_call_that_follows_the_stuck_one_is_not_blamed(tmp_path):
    """All stand in their second call; that rank 0 has not issued a fourth says nothing."""
    ahead = ["C1|Q|work_id=3|+0.1", "C1|Q|work_id=4|+0.1"]
    logs = [log(r, *done(1, 1), *begun(1, 2), *ahead[: 1 if r == 0 else 2]) for r in range(3)]
    verdict = audit(tmp_path, *(text.replace("world_size=4", "world_size=3") for text in logs))
    assert verdict.unknown
    assert next((f.code, f.severity) for f in verdict.findings) == ("PG502", "warning")


@pytest.mark.parametrize("is_first", [True, False])
def test_who_stands_where_all_have_come_is_missing_only_behind_it(is_first, tmp_path):
    """All are in the second call on main. Rank 1 is also in a call of its group with rank 0: issued
    behind the other, it says nothing of rank 0; in front of it, rank 0 left it out.
    """
    splits = ["split|parent=main|child=b|ranks=0,1"]
    own = SUM.format(n=3, count=8, comm="b")
    logs = []
    for r in range(3):
        late, call = ["C2|Q|work_id=2|+0.2"], ["C3|Q|work_id=3|+0.2"] if r == 1 else []
        calls = [*late, *call] if is_first else [*call, *late]
        text = log(r, own, *done(1, 1), *calls, world=3, extra=splits if r < 2 else [])
        logs.append(text)
    verdict = audit(tmp_path, *logs)
    told = [(f.code, f.severity, f.ranks) for f in verdict.findings if f.code != "PG904"]
    if is_first:
        assert [(code, severity) for code, severity, _ in told] == [("PG502", "warning")]
    else:
        assert told == [("PG007", "error", (0,))]
