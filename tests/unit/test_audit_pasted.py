"""Pastes as they stand in public reports: cut in the middle, of some ranks, of several groups.

What happened is not known of any of them, so most of these tests hold what must not be said.
"""

# ruff: noqa: E501  a line of a log is as long as it is

from __future__ import annotations

import pytest
from in_hand_cases import at, behind, caught, lines, work

import planguard as pg


def audit(tmp_path, text):
    """Audit a text, with what lies beside it."""
    (tmp_path / "paste.txt").write_text(text, encoding="utf-8")
    return pg.audit(tmp_path)


def codes(verdict):
    """Codes of errors, and all that is said of ranks."""
    return [(f.code, f.ranks) for f in verdict.errors]


@pytest.mark.parametrize("is_said", [True, False])
def test_who_has_issued_less_behind_the_call_that_holds_all_is_not_blamed(is_said, tmp_path):
    """Ranks 0 and 2 wait in call 2847; that rank 0 was one call less ahead of it says nothing."""
    rows = []
    for r, issued in ((0, 2855), (2, 2856)):
        pg_ = f"[PG ID 1 PG GUID 1 Rank {r}]"
        if r or is_said:  # the first line of rank 0 was cut off by the paste
            rows.append(at("2.7", r, 632, caught(r, work(2847))))
        rows.append(at("2.7", r, 2268, behind(pg_, 2847, issued, 2846)))
    verdict = audit(tmp_path, lines(*rows))
    assert verdict.unknown
    assert codes(verdict) == []
    assert "2847" in verdict.findings[0].message
    assert "PG007" not in {f.code for f in verdict.findings}


def test_a_call_whose_group_the_paste_lost_is_no_call_of_the_default_group(tmp_path):
    """Of ranks 2 and 4 only the first line is there: they wait with ranks 0 and 3, not for them."""
    rows = [at("2.4", r, 607, caught(r, work(1580, numel=466119168))) for r in (0, 2, 4)]
    for r in (0, 3):
        said = "Exception (either an error or timeout) detected by watchdog at work: 1580"
        rows.append(
            at("2.4", r, 1664, f"[PG 1 Rank {r}] {said}, last enqueued NCCL work: 1582, last "
               "completed NCCL work: 1579.")
        )  # fmt: skip
    verdict = audit(tmp_path, lines(*rows))
    assert codes(verdict) == []
    assert next((f.code, f.ranks) for f in verdict.findings if f.ranks)[0] == "PG501"
    assert "ranks [0,2-4]" in verdict.findings[0].message
    assert "is taken for that in which others made the same call" in str(verdict.findings[0].notes)


def test_launches_of_one_number_and_other_sizes_do_not_fit(tmp_path):
    """COALESCED says the sizes of its first tensor: ranks 4 and 6 gather other ones."""
    rows = []
    for r, numel in ((4, 56320), (6, 76800)):
        pg_ = f"[PG ID 2 PG GUID 9 Rank {r}]"
        rows.append(at("2.6", r, 629, caught(r, work(610, "COALESCED", numel, 8 * numel))))
        rows.append(at("2.6", r, 2168, behind(pg_, 610, 616, 609)))
    verdict = audit(tmp_path, lines(*rows))
    assert [code for code, _ in codes(verdict)] == ["PG202"]
    assert "neither side is blamed" in str(verdict.findings[0].notes)


def test_launches_of_pairs_say_no_sizes(tmp_path):
    """COALESCED of sends and receives says 0 on every rank, whatever they move."""
    rows = []
    for r in (0, 1):
        pg_ = f"[PG ID 2 PG GUID 9 Rank {r}]"
        rows.append(at("2.6", r, 629, caught(r, work(610, "COALESCED", 0, 0))))
        rows.append(at("2.6", r, 2168, behind(pg_, 610, 616, 609)))
    assert codes(audit(tmp_path, lines(*rows))) == []


def print_(number, op, shape, tail=""):
    """A fingerprint of DETAIL mode."""
    sizes = "" if shape is None else f", TensorShape={shape}, TensorDtypes=BFloat16"
    return f"CollectiveFingerPrint(SequenceNumber={number}{', ' if shape else ''}OpType={op}{sizes}{tail})"


def mismatch(speaker, one, other, theirs):
    """What DETAIL mode raises on one rank."""
    return (
        f"[rank{speaker}]: RuntimeError: Detected mismatch between collectives on ranks. Rank "
        f"{speaker} is running collective: {one}, but Rank {other} is running collective: {theirs}."
        "Collectives differ in the following aspects: \t Tensor Tensor shapes: 1vs 2\n"
    )


DEVICES = ", TensorDeviceTypes=TensorOptions(dtype=float (default), memory_format=(nullopt))"


@pytest.mark.parametrize(("speaker", "other"), [(1, 0), (0, 1)])
def test_one_rank_alone_tells_both_sides_of_a_mismatch(speaker, other, tmp_path):
    """Both fingerprints are of one kind, so the other side is no garbage. A higher number may be a
    place in a smaller group: what follows is weak then.
    """
    sides = [print_(3104, "ALLREDUCE", f"[{n}]", DEVICES) for n in (195812480, 51123456)]
    verdict = audit(tmp_path, mismatch(speaker, sides[0], other, sides[1]))
    (found,) = [f for f in verdict.findings if f.code == "PG202"]
    assert found.severity == ("error" if other < speaker else "warning")
    assert "neither side is blamed" in str(found.notes)


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (print_(3104, "ALLREDUCE", "[4]", DEVICES), print_(0, "ALLTOALL", None)),
        (print_(3104, "ALLREDUCE", "[4]", DEVICES), print_(7, "ALLREDUCE", "[8]")),
        (print_(0, "ALLREDUCE", "[4]", DEVICES), print_(0, "REDUCE", None)),
        (print_(0, "BARRIER", None), print_(0, "GATHER", None)),
        (print_(1, "BARRIER", None), print_(0, "BARRIER", None)),
    ],
)
def test_a_side_that_may_be_garbage_tells_nothing(own, theirs, tmp_path):
    """Where descriptions have other lengths, torch prints the length as if it were one; and calls
    of other numbers are no round.
    """
    assert codes(audit(tmp_path, mismatch(1, own, 0, theirs))) == []


@pytest.mark.parametrize("theirs", [print_(3104, "BROADCAST", "[8]"), print_(3104, "GATHER", None)])
def test_a_side_of_another_kind_is_told_where_it_is_real(theirs, tmp_path):
    """It has a tensor; or a number, as in torch 2.0, which left out the tensors of others."""
    own = print_(3104, "ALLREDUCE", "[4]", DEVICES)
    (found,) = audit(tmp_path, mismatch(1, own, 0, theirs)).errors
    assert (found.code, found.ranks) == ("PG201", (0, 1))
    assert "all_reduce" in found.message
    assert ("broadcast" if "BROADCAST" in theirs else "gather") in found.message


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (print_(101, "ALLGATHER", "[1]", DEVICES), print_(0, "REDUCE", None)),
        (
            "CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[6], TensorDtypes=Double)",
            "CollectiveFingerPrint(OpType=ALLREDUCE_COALESCED)",
        ),
    ],
)
def test_a_call_without_tensors_is_a_barrier_as_a_rule(own, theirs, tmp_path):
    """Three numbers describe it, and torch prints the third operation, REDUCE: bghira/SimpleTuner
    2712; before 2.0 two numbers, and the second one.
    """
    verdict = audit(tmp_path, mismatch(1, own, 0, theirs))
    (found,) = [f for f in verdict.findings if f.code == "PG201"]
    assert found.severity == "warning"
    assert "barrier" in found.message
    assert "is taken for a barrier" in str(found.notes)


CLIQUE = (
    "2026-07-29 17:14:59.920189: E external/xla/xla/service/rendezvous.cc:38] This thread has been "
    "waiting for `initialize clique for rank {place}; clique=devices=[{all}]; stream=0; "
    "run_id=724296073` for 10 seconds and may be stuck. Expected {count} threads to join the "
    "rendezvous, but not all of them arrived on time."
)


@pytest.mark.parametrize(
    ("here", "of", "count", "missing"),
    [
        ((6,), 8, 8, ""),
        ((0, 1, 2, 3, 4, 6, 7), 8, 8, "places 5 did not come"),
        ((0, 1, 2, 3, 4, 6), 16, 8, ""),
    ],
)
def test_threads_that_printed_nothing_are_named_where_most_did(here, of, count, missing, tmp_path):
    """One thread that waits does not say who came; threads of other hosts wait elsewhere."""
    devices = ",".join(map(str, range(of)))
    rows = [CLIQUE.format(place=place, all=devices, count=count) for place in here]
    verdict = audit(tmp_path, lines(*rows))
    assert codes(verdict) == []
    assert verdict.unknown
    said = verdict.findings[0].message
    assert missing in said if missing else "not everybody came" in said


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ({"a": range(8), "b": (8, 9, 10, 11, 12, 14, 15)}, "places 13 did not come"),
        ({"a": (0, 1, 2, 3, 4, 6, 7), "b": ()}, "not everybody came"),
    ],
)
@pytest.mark.parametrize("is_one_file", [True, False])
def test_hosts_tell_of_one_rendezvous_together(hosts, said, is_one_file, tmp_path):
    """Each knows its own eight of sixteen threads. Of a host that printed nothing nothing is known."""
    devices = ",".join(map(str, range(16)))
    rows = {
        host: [CLIQUE.format(place=place, all=devices, count=8) for place in places]
        for host, places in hosts.items()
    }
    if is_one_file:
        verdict = audit(tmp_path, lines(*(row for own in rows.values() for row in own)))
    else:
        for host, own in rows.items():
            (tmp_path / f"host-{host}.log").write_text(lines(*own))
        verdict = pg.audit(tmp_path)
    assert codes(verdict) == []
    assert said in verdict.findings[0].message
    assert len([f for f in verdict.findings if "rendezvous" in str(f.notes)]) == 1


def test_the_rendezvous_of_older_jax_is_read(tmp_path):
    """Devices 0, 1 and 3 of 4 wait for the last."""
    rows = [
        "2021-06-01 12:09:19.9124: E external/org_tensorflow/tensorflow/compiler/xla/service/"
        f"collective_ops_utils.h:209] This thread has been waiting for 5000ms for and may be stuck: "
        f"participant for device ordinal {n}, stream 0x5594682cb160 waiting for all participants to "
        "arrive at rendezvous RendezvousKey{run_id=RunId: 85034, global_devices=[0,1,2,3], "
        "num_local_participants=4, collective_op_kind=cross_replica, op_id=534}"
        for n in (1, 0, 3)
    ]
    verdict = audit(tmp_path, lines(*rows))
    assert codes(verdict) == []
    assert "places 2 did not come" in verdict.findings[0].message


@pytest.mark.parametrize("late", [(), (5,)])
def test_a_desync_report_of_a_smaller_group_is_about_places(late, tmp_path):
    """Rank 10 stands at place 2 of its group: the report's numbers are no ranks of the job."""
    here = [place for place in range(8) if place not in late]
    rows = [
        at("2.6", 10, 1936, "Rank 2"),
        "\t - [2] Timeout at collective: ALLREDUCE, #730",
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        f"\t   - {list(late) or here} finished collective #700, but didn't join collective #701",
        "\t - Snapshot of ranks' latest states:",
        *(["\t   #700 finished ranks:", f"\t     {list(late)} finished ALLREDUCE"] if late else []),
        "\t   #730 started ranks:",
        f"\t     {here} started ALLREDUCE",
        at("2.6", 10, 2168, behind("[PG ID 1 PG GUID 1 Rank 2]", 730, 730, 729)),
    ]
    verdict = audit(tmp_path, lines(*rows))
    assert codes(verdict) == []
    said = " / ".join(f.message for f in verdict.findings)
    expected = "places 5 did not come to" if late else "everybody came to"
    assert f"{expected} all_reduce #730 of group 1" in said
    assert not any(5 in f.ranks for f in verdict.findings if f.code == "PG007")


def never_joined(*late):
    """A desync report of four ranks of the default group (torch 2.7)."""
    return [
        at("2.7", 0, 632, caught(0, work(315))),
        at("2.7", 0, 1937, "[PG ID 0 PG GUID 0(default_pg) Rank 0] "),
        "\t - [0] Timeout at collective: ALLREDUCE, #315",
        f"\t - To our best knowledge, ranks {list(late)} are the lagging ranks that caused this timeout. They never joined any collectives",
        "\t - Snapshot of ranks' latest states:",
        "\t   #315 started ranks:",
        f"\t     {[rank for rank in range(4) if rank not in late]} started ALLREDUCE",
    ]


def stack(rank, *inner):
    """A stack of py-spy."""
    rows = [f"Process 80{rank}: python train.py", f'Thread 80{rank} (idle): "MainThread"', *inner]
    return "\n".join([*rows, f"    step (train.py:3{rank})", "    <module> (train.py:160)", ""])


def c10d(name):
    """The frame of a call."""
    return f"    {name} (torch/distributed/distributed_c10d.py:3252)"


def test_who_a_desync_report_says_never_joined_is_named(tmp_path):
    """It is a word about others: a rank that writes no reports looks the same."""
    verdict = audit(tmp_path, lines(*never_joined(3)))
    assert codes(verdict) == []
    found = verdict.findings[0]
    assert (found.code, found.ranks, found.severity) == ("PG007", (3,), "warning")
    assert "evidence: medium; the desync report" in str(found.notes)


@pytest.mark.parametrize("inner", [(), (c10d("all_reduce"),)])
def test_a_stack_settles_a_desync_report_or_is_against_it(inner, tmp_path):
    """Rank 3 loads data: it did not come. In a call of that kind: the report is no proof."""
    (tmp_path / "rank_3.txt").write_text(stack(3, *inner))
    verdict = audit(tmp_path, lines(*never_joined(3)))
    if not inner:
        assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (3,))]
        assert "stack: rank 3 at train.py:33 in step" in str(verdict.errors[0].notes)
    else:
        assert codes(verdict) == []
        assert "is against the stack of rank 3" in str(verdict.findings[0].notes)


def test_stacks_say_where_the_calls_of_a_desync_report_are(tmp_path):
    """The report has kinds and numbers, the stacks have the lines of the program."""
    rows = never_joined(9)[:3] + never_joined(9)[4:6]
    rows += ["\t     [0, 1, 2] started ALLREDUCE", "\t     [3] started BROADCAST"]
    for rank in range(4):
        name = "broadcast" if rank == 3 else "all_reduce"
        (tmp_path / f"rank_{rank}.txt").write_text(stack(rank, c10d(name)))
    (found,) = audit(tmp_path, lines(*rows)).errors
    assert (found.code, found.ranks) == ("PG201", (3,))
    assert "stack: rank 3 in broadcast at train.py:33 in step" in found.notes
    assert "stack: rank 0 in all_reduce at train.py:30 in step" in found.notes


def test_places_of_several_stages_are_not_one_rank(tmp_path):
    """Stage 1 receives, stage 2 reduces: both name place 1 of their own groups of tensors."""
    frames = {1: "recv", 2: "all_reduce"}
    rows = []
    for stage, call in frames.items():
        rows += [
            f"[2026-01-29 13:12:37 PP{stage} TP1] Pyspy dump for PID 8869{stage}:",
            f"Process 8869{stage}: sglang::scheduler_PP{stage}_TP1",
            "Python v3.12.3 (/usr/bin/python3.12)",
            "",
            f'Thread 8869{stage} (idle): "MainThread"',
            f"    {call} (torch/distributed/distributed_c10d.py:2500)",
            "    wrapper (torch/distributed/c10d_logger.py:81)",
            f"    forward (sglang/srt/stage{stage}.py:70)",
            "",
        ]
    verdict = audit(tmp_path, lines(*rows))
    assert codes(verdict) == []
    assert verdict.unknown
    document = str(verdict.findings)
    assert "stage1.py" in document
    assert "stage by stage" in document
