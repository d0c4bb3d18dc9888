"""Two plans beside each other: numbers, bytes and order, against plans worked out by hand."""

from __future__ import annotations

import json

import pytest

from planguard import api
from planguard.cli import main
from planguard.plan.format import read
from planguard.report.page.beside import beside, beside_page, side
from planguard.report.page.order import order

RED = {"op": "all_reduce", "bytes": 4096, "label": "g"}
GATHER = {"op": "all_gather", "bytes": 1024, "label": "w"}
WORK = {"op": "compute", "op_name": "F", "duration_us": 100}


def document(*programs, **more):
    """Return a plan file with one program per rank."""
    return {"schema": "planguard.plan/1", "world_size": len(programs),
            "ranks": {str(r): {"actions": list(a)} for r, a in enumerate(programs)},
            **more}  # fmt: skip


def plan(*programs, **more):
    """Return a plan with one program per rank."""
    return read(json.dumps(document(*programs, **more)).encode())


def told(a, b):
    """Return the comparison of two plans."""
    return beside(*(side(one, api.check(one), name, None, "ring")
                    for one, name in ((a, "one"), (b, "two"))))  # fmt: skip


def kinds(found):
    """Return kind and places of the differences of each set of ranks."""
    return [(one.ranks, [change[:3] for change in one.changes]) for one in found.differs]


def test_equal_plans_differ_in_nothing():
    """The same plan twice: the sentence says so, and no table has a row that differs."""
    one = plan([RED, WORK, GATHER], [RED, WORK, GATHER])
    found = told(one, one)
    assert found.sentence == (
        "The modeled step times are equal; the same bytes move; "
        "every rank that both have runs the same program."
    )
    assert {row[3] for row in found.numbers} == {"equal"}
    assert not found.pairs
    assert not found.order.differs


def test_a_call_that_goes_elsewhere_is_moved_and_not_lost():
    """The gather comes first on both ranks: one move, told once for both, with both places."""
    a = plan([RED, WORK, GATHER], [RED, WORK, GATHER])
    b = plan([GATHER, RED, WORK], [GATHER, RED, WORK])
    assert kinds(order(a, b)) in (
        [((0, 1), [("moved", 2, 0)])],
        [((0,), [("moved", 2, 0)]), ((1,), [("moved", 2, 0)])],
    )


def test_what_is_new_gone_or_of_another_size():
    """A new call is only in B, one that went only in A, another size is a change in place."""
    a = plan([RED, GATHER])
    b = plan([{**RED, "bytes": 8192}, {"op": "barrier"}, WORK])
    assert kinds(order(a, b)) == [
        ((0,), [("changed", 0, 0), ("only A", 1, None), ("only B", None, 1), ("only B", None, 2)])
    ]


def test_names_of_handles_make_no_difference_but_what_is_waited_for_does():
    """Handles renamed: equal. The wait for another call: a difference."""

    def waits(first, second, waited):
        red = {**RED, "async": True, "work": first}
        gather = {**GATHER, "async": True, "work": second}
        rest = second if waited == first else first
        return plan([red, gather, *({"op": "wait", "work": work} for work in (waited, rest))])

    one, renamed = waits("x", "y", "x"), waits("p", "q", "p")
    assert not order(one, renamed).differs
    assert kinds(order(one, waits("x", "y", "y"))) == [((0,), [("moved", 2, 3)])]


def test_bytes_by_kind_and_by_pair():
    """A ring all-reduce of two ranks moves its size each way: 4 KiB become 8, the gather is new."""
    found = told(plan([RED], [RED]), plan([{**RED, "bytes": 8192}] * 1, [{**RED, "bytes": 8192}]))
    assert [(row[0], row[4], row[6]) for row in found.bytes] == [("all_reduce", 8192, 16384)]
    assert sorted(found.pairs) == [(0, 1, 4096, 8192), (1, 0, 4096, 8192)]
    assert "bytes moved +8.00 KiB (+100.0%) in B" in found.sentence


def test_a_stuck_plan_has_no_time_to_compare():
    """Where one never ends no step time is set against the other's, and the answers differ."""
    send = [{"op": "send", "peer": 1, "bytes": 4}, {"op": "recv", "peer": 1, "bytes": 4}]
    back = [{"op": "send", "peer": 0, "bytes": 4}, {"op": "recv", "peer": 0, "bytes": 4}]
    found = told(plan(send, back), plan(send, back[::-1]))
    assert found.sentence.startswith("A is DEADLOCK and B is SAFE; the times of the steps cannot")
    assert found.numbers[3][:2] == ("step time", "never ends")
    assert found.numbers[3][3] == "different"


def test_worlds_of_other_sizes():
    """Ranks that only one plan has are named, and the others compared."""
    found = told(plan([RED], [RED]), plan([RED], [RED], [RED]))
    assert found.order.only == (2,)
    assert found.order.equal == 2
    assert found.sentence.endswith("1 rank only in B.")


def test_what_is_too_much_to_compare_is_said(monkeypatch):
    """Beyond the limits nothing is called equal that was not read or not aligned."""
    a = plan(*[[{**RED, "label": f"{r} {i}"} for i in range(8)] for r in range(4)])
    b = plan(*[[{**RED, "label": f"{r} {i}"} for i in reversed(range(8))] for r in range(4)])
    monkeypatch.setattr("planguard.report.page.order.CELLS", 100)
    found = order(a, b)
    assert [one.aligned for one in found.differs] == [True, False, False, False]
    monkeypatch.setattr("planguard.report.page.order.READ", 20)
    found = order(a, a)
    assert found.note.startswith("of 4 pairs of programs 1 were compared")
    assert "the programs that were compared are equal" in told(a, a).sentence


def test_the_page_is_the_same_twice_and_hostile_names_stay_text():
    """Equal inputs give equal bytes; a name that is markup is not in the page as markup."""
    one = plan([{**RED, "label": "<script>x</script>"}], [RED], name="<img src=x>")
    found = told(one, plan([RED], [RED]))
    data = beside_page(found).data
    assert data == beside_page(found).data
    assert b"<img src=x>" not in data


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["-", "-"], "both plans are `-`"),
        (["a.json", "b.json", "-o", "m.svg"], "two plans have no svg picture"),
        (["a.json", "missing.json"], "missing.json"),
        (["a.json", "b.json", "--counts"], "--counts"),
        (["a.json", "b.json", "-o", "b.json", "--force", "--format", "html"], "b.json"),
    ],
)
def test_what_cannot_be_is_one_clear_error(tmp_path, monkeypatch, capsys, line, said):
    """Exit code 2, the reason named; an input is never overwritten."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(document([RED], [RED])))
    before = (tmp_path / "b.json").read_text()
    assert main(["report", *line]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "b.json").read_text() == before


def test_the_command_writes_text_and_a_page(tmp_path, capsysbinary):
    """Text on standard output begins with the two names; -o writes a page."""
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(json.dumps(document([RED], [RED])))
    b.write_text(json.dumps(document([GATHER], [GATHER])))
    assert main(["report", str(a), str(b)]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert text.splitlines()[:2] == ["A: a.json", "B: b.json"]
    assert "all_gather on world" in text
    assert main(["report", str(a), str(b), "-o", str(tmp_path / "both.html")]) == 0
    assert (tmp_path / "both.html").read_bytes().startswith(b"<!doctype html>")
