"""Screening on this machine: inputs, skeletons, store, rules, isolation."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import planguard as pg
from planguard.cli import main
from planguard.errors import PlanError, UsageError
from planguard.screen import executors
from planguard.screen.correlate import find_rule
from planguard.screen.executors import Processes
from planguard.screen.export import export
from planguard.screen.gate import Gate
from planguard.screen.screening import Progress
from planguard.screen.store import query
from planguard.screen.tasks import Answer, Limits, Task
from planguard.screen.trials import Trials


def exchange(ranks=2, *, head_to_head=False, size=4, name=None):
    """A plan in which two ranks exchange a message, in an order that hangs or does not."""
    plan = pg.PlanBuilder(ranks, name=name)
    for rank in (0, 1):
        program, first = plan.program(rank), head_to_head or rank == 0
        for sends in (first, not first):
            if sends:
                program.send(peer=1 - rank, bytes=size)
            else:
                program.recv(peer=1 - rank, bytes=size)
    return plan.build()


def trials(count=24):
    """Trials of which every third hangs; sizes make three safe and three hanging skeletons."""
    return [
        (
            f"t{number:03}",
            exchange(head_to_head=number % 3 == 0, size=4 << number % 2, name=f"p {number}"),
            {"order": "eager" if number % 3 == 0 else "even", "size": number % 2, "seed": number},
        )
        for number in range(count)
    ]


def rows_of(screening):
    """The rows of a screening."""
    return list(screening.rows())


def test_verdicts_come_in_input_order_and_are_those_of_check():
    """screen yields (name, verdict) in input order; each verdict is what check says of the plan."""
    given = trials()
    answers = list(pg.screen(given, jobs=2))
    assert [name for name, _ in answers] == [name for name, *_ in given]
    for (_, plan, _), (_, verdict) in zip(given, answers, strict=True):
        whole = pg.check(plan)
        assert verdict.outcome is whole.outcome
        assert [f.message for f in verdict.findings] == [f.message for f in whole.findings]


def test_skeletons_are_decided_once():
    """24 trials with four ways to communicate are 24 readings and four decisions."""
    asked = []

    class Counting:
        def run(self, tasks):
            from planguard.screen.checking import answer

            asked.extend(tasks)
            return map(answer, tasks)

        def close(self):
            pass

    rows = rows_of(pg.screen(trials(), executor=Counting()))
    assert sum(task.decide for task in asked) == 4 == len({row.skeleton for row in rows})
    assert sum(not task.decide for task in asked) == 24


@pytest.mark.parametrize(
    "settings",
    [{"executor": "inline"}, {"jobs": 1}, {"jobs": 3}, {"cache": False, "jobs": 2}],
    ids=str,
)
def test_rows_do_not_depend_on_who_makes_them(settings, tmp_path):
    """The exported rows are equal bytes for any number of workers, with the cache and without."""
    paths = []
    for name, chosen in (("a", {"jobs": 2}), ("b", settings)):
        screening = pg.screen(trials(), store=tmp_path / f"{name}.db", **chosen)
        rows_of(screening)
        paths.append(tmp_path / f"{name}.csv")
        export(screening.store, str(paths[-1]))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert len(paths[0].read_text().splitlines()) == 25


def test_a_store_is_resumed_and_nothing_is_decided_twice(tmp_path):
    """A second run over the same trials asks no worker; a changed trial alone is read again."""

    class Refusing:
        def run(self, tasks):
            assert not tasks, "nothing was to be done"
            return iter(())

        def close(self):
            pass

    store = tmp_path / "s.db"
    first = rows_of(pg.screen(trials(), executor="inline", store=store))
    again = rows_of(pg.screen(trials(), executor=Refusing(), store=store))
    assert first == again
    changed = trials()
    changed[1] = ("t001", exchange(head_to_head=True, size=64), {})
    rows = rows_of(pg.screen(changed, executor="inline", store=store))
    assert [row for row in rows if row.name != "t001"] == [r for r in first if r.name != "t001"]
    assert rows[1].outcome == "DEADLOCK"


def test_budgets_are_no_part_of_the_question(tmp_path):
    """only='unknown' takes up undecided rows alone, with a larger budget, and replaces them."""
    items = [{"op": "all_reduce", "group": f"g{k}", "bytes": 4, "label": f"r{k}"} for k in range(4)]
    chains = [items[k : k + 2] for k in range(0, 4, 2)] + [[{"op": "exit"}]]
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {f"g{k}": {"ranks": [0, 1]} for k in range(4)},
        "ranks": {str(r): {"actions": [{"op": "unordered", "body": chains}]} for r in (0, 1)},
    }
    given = [("hard", document), *trials(3)]
    store = tmp_path / "s.db"
    rows = rows_of(pg.screen(given, executor="inline", store=store, budget=0.0))
    assert (rows[0].outcome, rows[0].code) == ("UNKNOWN", "PG903")
    assert "budget" in rows[0].reason
    rows = rows_of(pg.screen(given, executor="inline", store=store, budget=60.0, only="unknown"))
    assert rows[0].outcome == pg.check(document).outcome.value != "UNKNOWN"
    assert query(store, "SELECT count(*) FROM screen")[1] == [(4,)]


def test_folders_patterns_lines_and_parameters(tmp_path):
    """Folders, patterns and JSONL files give trials, with the parameters that stand beside them."""
    for number, (name, plan, params) in enumerate(trials(4)):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / f"{number}.plan.json").write_bytes(plan.source)
        (folder / "params.json").write_text(json.dumps({"outer": params, "lr": [1, 2]}))
    lines = [
        json.dumps({"name": name, "plan": json.loads(plan.source), "params": params})
        for name, plan, params in trials(3)
    ]
    lines.append(trials(1)[0][1].source.replace(b"\n", b" ").decode())
    (tmp_path / "more.jsonl").write_text("\n\n".join(lines) + "\n")
    found = Trials([tmp_path / "runs", str(tmp_path / "runs" / "*" / "1.plan.json")])
    assert found.total == 5
    folder = list(found)
    assert len({trial.name for trial in folder}) == 5
    assert folder[0].params == {
        "outer.order": "eager",
        "outer.size": 0,
        "outer.seed": 0,
        "lr": "[1, 2]",
    }
    given = list(Trials(tmp_path / "more.jsonl"))
    assert [trial.name for trial in given] == ["t000", "t001", "t002", f"{tmp_path}/more.jsonl:7"]
    assert given[1].params["order"] == "even"
    outcomes = [row.outcome for row in pg.screen(tmp_path / "more.jsonl", executor="inline").rows()]
    assert outcomes == ["DEADLOCK", "SAFE", "SAFE", "DEADLOCK"]
    with pytest.raises(UsageError, match="no such file"):
        list(Trials(tmp_path / "nothing"))


def test_a_refused_plan_costs_itself_only():
    """What is no plan is UNKNOWN with the code and the place; its neighbors are decided."""
    broken = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"actoins": []}}}
    given = [trials(1)[0], ("broken", broken), ("text", b"{"), trials(2)[1]]
    answers = dict(pg.screen(given, jobs=1))
    assert answers["t000"].unsafe
    assert answers["t001"].safe
    assert answers["broken"].unknown
    assert answers["broken"].findings[0].code == "PG906"
    with pytest.raises(PlanError) as refused:
        pg.check(broken)
    assert refused.value.path in answers["broken"].findings[0].message
    assert answers["text"].findings[0].code == "PG901"


HOSTILE = """
import os, signal, time
class Adapter:
    name = "hostile"
    def sniff(self, obj):
        return str(obj).endswith(".hostile")
    def adapt(self, obj, builder, **options):
        text = open(obj).read()
        if text == "hang":
            while True:
                time.sleep(0.01)
        if text == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if text == "eat":
            held = []
            while True:
                held.append(bytearray(1 << 24))
        if text == "raise":
            raise ZeroDivisionError("of the adapter")
        if text == "exit":
            raise SystemExit(3)
        print("noise on stdout", flush=True)
        plan = builder(2)
        for rank in (0, 1):
            plan.program(rank).all_reduce(bytes=4)
        return plan.build()
adapter = Adapter()
"""


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """An adapter installed beside the others that hangs, crashes or eats memory on demand."""
    info = tmp_path / "site" / "hostile-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[planguard.planners]\nhostile = hostile_one:adapter\n")
    (tmp_path / "site" / "hostile_one.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    folder = tmp_path / "plans"
    folder.mkdir()
    for place, text in enumerate(["fine", "hang", "fine", "crash", "eat", "raise", "exit", "fine"]):
        (folder / f"{place}-{text}.hostile").write_text(text)
    return folder


def test_a_plan_that_hangs_crashes_or_eats_memory_costs_itself_only(hostile):
    """Each of five hostile plans is UNKNOWN with its reason; what stands around them is decided."""
    limits = Limits(seconds=2.0, memory_mb=512)
    screening = pg.screen(hostile, jobs=2, planner="hostile", limits=limits)
    rows = {row.name.rsplit("-", 1)[0][-1]: row for row in screening.rows()}
    assert [rows[place].outcome for place in "027"] == ["SAFE"] * 3
    assert [rows[place].outcome for place in "13456"] == ["UNKNOWN"] * 5
    said = {place: (rows[place].code, rows[place].reason) for place in "13456"}
    assert said["1"] == ("PG903", "not decided: it took more than 2 s")
    assert said["3"] == ("PG903", "not decided: its worker was ended by SIGSEGV, 3 times")
    assert said["4"] == ("PG903", "not decided: it needs more than 512 MiB of memory")
    assert said["5"] == ("PG999", "the check failed: ZeroDivisionError: of the adapter")
    assert said["6"] == ("PG903", "not decided: its worker ended with code 3, 3 times")


GIVEN_UP = "not decided: its worker was ended by SIGKILL, 3 times"


def test_twenty_random_deaths_lose_nothing():
    """Workers are killed twenty times at random while plans are decided: every row is there.

    A trial whose workers were killed three times is given up, and says so: on a busy machine chance
    does that to one, and each of them takes three of the deaths.
    """
    given = trials(2000)
    expected = rows_of(pg.screen(given, executor="inline"))
    processes, killed, stop, rng = Processes(2), set(), threading.Event(), random.Random(0)
    seen, given_up = {}, 0

    def kill():
        while not stop.wait(rng.uniform(0.05, 0.2)) and len(killed) < 20:
            now = time.monotonic()
            fresh = [
                pid
                for pid in processes.pids
                if pid not in killed and now - seen.setdefault(pid, now) > 0.3
            ]
            if fresh:
                killed.add(pid := rng.choice(fresh))
                os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        while len(killed) < 20:
            found = rows_of(pg.screen(given, executor=_Kept(processes), cache=False))
            assert [row.name for row in found] == [row.name for row in expected]
            other = [row for row, right in zip(found, expected, strict=True) if row != right]
            given_up += len(other)
            assert {row.reason for row in other} <= {GIVEN_UP}
        assert 3 * given_up <= len(killed)
    finally:
        stop.set()
        thread.join()
        processes.close()


class _Kept:
    """An executor that outlives a screening."""

    def __init__(self, inner):
        self.run = inner.run

    def close(self):
        pass


def test_a_killed_screening_is_resumed(tmp_path):
    """A screening killed by SIGKILL leaves whole windows; resumed, it ends with the same rows."""
    lines = tmp_path / "t.jsonl"
    with lines.open("w") as file:
        for name, plan, params in trials(1500):
            record = {"name": name, "plan": json.loads(plan.source), "params": params}
            file.write(json.dumps(record) + "\n")
    command = [sys.executable, "-m", "planguard", "screen", str(lines), "--jobs", "2", "--store"]
    store = tmp_path / "killed.db"
    process = subprocess.Popen([*command, str(store)], stderr=subprocess.DEVNULL)
    done = 0
    while process.poll() is None and done < 32:
        time.sleep(0.02)
        if store.exists():
            try:
                done = query(store, "select count(*) from screen")[1][0][0]
            except UsageError:  # its tables are not there yet
                continue
    process.kill()
    process.wait()
    assert 32 <= done < 1500
    export_to = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    resumed = subprocess.run(
        [*command, str(store), "--resume", "--export", export_to[0]],
        capture_output=True,
        check=False,
    )
    whole = subprocess.run(
        [*command, str(tmp_path / "whole.db"), "--export", export_to[1]],
        capture_output=True,
        check=False,
    )
    assert resumed.returncode == whole.returncode == 1
    assert resumed.stdout == whole.stdout
    one, two = (Path(path).read_bytes() for path in export_to)
    assert one == two
    assert one.count(b"\n") == 1501


def test_an_interrupted_screening_says_how_to_go_on(hostile, tmp_path):
    """Ctrl-C ends a screening with 130 at once, also while a plan hangs; the store is readable."""
    for number in range(64):
        (hostile / f"00-{number}.hostile").write_text("fine")
    store = tmp_path / "s.db"
    command = [sys.executable, "-m", "planguard", "screen", hostile / "*.hostile"]
    process = subprocess.Popen(
        [*command, "--planner", "hostile", "--jobs", "2", "--store", store, "--no-cache"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    done = 0
    while process.poll() is None and not done:
        time.sleep(0.1)
        try:
            done = query(store, "SELECT count(*) FROM screen")[1][0][0]
        except UsageError:
            continue
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - started < 30
    assert process.returncode == 130, said
    assert "go on with --resume" in said
    assert query(store, "SELECT count(*) FROM screen")[1][0][0] >= 32


def test_queries_read_and_do_nothing_else(tmp_path):
    """A condition, or a SELECT with parameters as columns; everything that writes is refused."""
    store = tmp_path / "s.db"
    rows_of(pg.screen(trials(9), executor="inline", store=store))
    names, rows = query(store, "outcome = 'DEADLOCK' AND size = 1")
    assert names == ["name", "outcome", "code"]
    assert rows == [("t003", "DEADLOCK", "PG001")]
    assert query(store, "SELECT count(*) FROM screen WHERE \"order\" = 'even'")[1] == [(6,)]
    for text in (
        "1; DROP TABLE trials",
        "SELECT writefile('x', 'y')",
        "nonsense",
        "ATTACH 'a' AS b",
    ):
        with pytest.raises(UsageError, match="--query"):
            query(store, text)
    assert query(store, "1")[1][0][0] == "t000"


def test_exports(tmp_path):
    """CSV, JSONL and Parquet hold every row; a name that is a formula stays text in CSV."""
    arrow = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    given = [("=1+1", trials(1)[0][1], {"a": 1}), *trials(3)[1:]]
    screening = pg.screen(given, executor="inline")
    rows_of(screening)
    for suffix in ("csv", "jsonl", "parquet"):
        assert export(screening.store, str(tmp_path / f"rows.{suffix}")) == 3
    with (tmp_path / "rows.csv").open() as file:
        records = list(csv.DictReader(file))
    assert records[0]["name"] == "'=1+1"
    assert records[0]["param.a"] == "1"
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    table = arrow.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [{k: v for k, v in row.items() if v is not None} for row in table] == lines
    assert list(table[0]) == list(records[0])  # the same columns, in the same order
    with pytest.raises(UsageError, match="unknown kind"):
        export(screening.store, "rows.xlsx")


def test_the_shortest_exact_rule():
    """All failing trials and no other: bounds of numbers, shared values, values never had."""
    grid = [
        {"bucket_mb": bucket, "buffers": buffers, "seed": bucket * 7 + buffers, "amp": buffers > 3}
        for bucket in (1, 2, 8)
        for buffers in (1, 2, 3, 4)
    ]

    def rule(fails):
        return find_rule([t for t in grid if fails(t)], [t for t in grid if not fails(t)])

    found = rule(lambda t: t["bucket_mb"] == 1 and t["buffers"] >= 2)
    assert str(found) == "all with bucket_mb=1 and buffers>=2, and no other trial has that"
    assert str(rule(lambda t: t["amp"])).startswith("all with amp=true,")
    assert str(rule(lambda t: t["bucket_mb"] != 2)).startswith("all with bucket_mb!=2,")
    assert len(rule(lambda t: 2 <= t["buffers"] <= 3).conditions) == 2
    either = rule(lambda t: t["bucket_mb"] == 1 or t["buffers"] == 4)
    assert not either.is_exact
    assert "precision" in str(either)
    assert either.precision == 1.0 or either.recall == 1.0
    assert find_rule(grid, []) is None
    assert find_rule([{"a": 1}], [{"a": 1}]) is None


def test_the_summary_names_the_parameters(tmp_path, capsys):
    """The command prints outcomes, skeletons and the rule, exits 1, and names what is blocked."""
    from planguard.cli import main

    lines = tmp_path / "t.jsonl"
    with lines.open("w") as file:
        for name, plan, params in trials(12):
            record = {"name": name, "plan": json.loads(plan.source), "params": params}
            file.write(json.dumps(record) + "\n")
    base = ["screen", str(lines), "--executor", "inline", "--store", str(tmp_path / "s.db")]
    blocked = tmp_path / "blocked.txt"
    assert main([*base, "--blocked", str(blocked)]) == 1
    out = capsys.readouterr().out
    assert "PG001 in 4 trials: all with order=eager, and no other trial has that" in out
    assert blocked.read_text().split() == ["t000", "t003", "t006", "t009"]
    assert main(base) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*base, "--resume", "--exit-zero"]) == 0
    assert main(["screen", "--store", str(tmp_path / "s.db"), "--format", "json"]) == 1
    said = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert said["trials"] == {"DEADLOCK": 4, "SAFE": 8}
    assert said["codes"][0]["rule"]["conditions"] == ["order=eager"]


def test_a_gate_holds_back_what_is_unsafe_or_undecided():
    """The gate runs SAFE trials only; undecided ones where the caller says so."""
    gate = Gate(lambda fault: exchange(head_to_head=fault))
    assert gate(False).runs
    assert not gate(True).runs
    assert gate(True).code == "PG001"
    assert gate.screened(lambda _: "trained")(False) == "trained"
    with pytest.raises(pg.UnsafePlanError):
        gate.screened(lambda _: "trained")(True)
    empty = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"actions": []}}}
    assert not Gate(lambda _: empty)(0).runs
    assert Gate(lambda _: empty, allow_unknown=True)(0).runs


def test_progress_counts_what_was_done_now():
    """The rate leaves out the rows of an earlier run; the rest of the time follows from it."""
    progress = Progress(done=300, total=400, seconds=10.0, skipped=100)
    assert progress.rate == 20.0
    assert progress.eta == 5.0


def test_what_travels_is_bytes():
    """Tasks and answers are the same after a round trip, and no pickle is needed for them."""
    from planguard.screen.tasks import decode_answers, decode_tasks, encode

    task = Task(1, b"a", b"b", "", {"model": None, "budget": 0.5}, True, False, Limits())
    said = Answer(1, "SAFE", ("PG601",), "PG601", "text", "digest", 2, 4)
    assert decode_tasks(encode([task])) == [task]
    assert decode_answers(encode([said])) == [said]


def test_parameters_are_columns_of_one_type(tmp_path):
    """Of one type where their values have one; else text, with numbers as JSON writes them."""
    arrow = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    plan = trials(1)[0][1]
    given = [
        ("a", plan, {"n": 1, "x": 1, "on": True, "odd": 2, "big": 1 << 70, "lr": float("nan")}),
        ("b", plan, {"n": 2, "x": 0.5, "on": False, "odd": "two", "none": None, "lr": 10**400}),
    ]
    screening = pg.screen(given, executor="inline")
    rows_of(screening)
    assert export(screening.store, str(tmp_path / "rows.parquet")) == 2
    table = arrow.read_table(tmp_path / "rows.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert types["param.n"] == "int64"
    assert types["param.x"] == types["param.big"] == types["param.lr"] == "double"
    assert types["param.on"] == "bool"
    assert types["param.odd"] == types["param.none"] == "string"
    assert table.column("param.odd").to_pylist() == ["2", "two"]
    assert table.column("param.big").to_pylist() == [float(1 << 70), None]
    assert table.column("param.lr").to_pylist() == [None, float("inf")]


def test_the_view_has_messages_and_versions(tmp_path):
    """What the finding says, of undecided trials the reason, and who answered which question."""
    screening = pg.screen([*trials(3), ("refused", b"{}")], store=tmp_path / "s.db", jobs=1)
    rows_of(screening)
    text = "SELECT name, message, reason, ranks, actions, model, version FROM screen"
    names, found = query(tmp_path / "s.db", text)
    assert names == ["name", "message", "reason", "ranks", "actions", "model", "version"]
    said = {row[0]: row for row in found}
    assert said["refused"][1] == said["refused"][2] != ""
    for name, message, reason, ranks, actions, _, version in found:
        if name != "refused":
            assert (reason, ranks > 0, actions > 0) == ("", True, True)
        assert version == pg.__version__
        assert message is not None


def test_numbers_that_json_lacks_keep_the_store_readable(tmp_path):
    """A learning rate that is no number, or infinite, is a parameter like any other."""
    plan = trials(1)[0][1]
    inf = float("inf")
    given = [("a", plan, {"lr": float("nan")}), ("b", plan, {"lr": inf, "text": "NaN"})]
    rows_of(pg.screen(given, store=tmp_path / "s.db", executor="inline"))
    assert query(tmp_path / "s.db", "lr > 1e300")[1] == [("b", "DEADLOCK", "PG001")]
    assert query(tmp_path / "s.db", "lr IS NULL")[1] == [("a", "DEADLOCK", "PG001")]
    assert query(tmp_path / "s.db", "text = 'NaN'")[1] == [("b", "DEADLOCK", "PG001")]
    again = pg.screen(given, store=tmp_path / "s.db", executor="inline")
    rows_of(again)
    found = again.store.known(["a", "b"])
    assert found["b"].params == {"lr": inf, "text": "NaN"}


def test_a_store_of_two_questions_says_which_is_shown(tmp_path, capsys):
    """The one with most rows, or that of a model; what is left out is reported."""
    kept = str(tmp_path / "s.db")
    rows_of(pg.screen(trials(4), store=kept, executor="inline"))
    rows_of(pg.screen(trials(2), store=kept, executor="inline", model="gloo"))
    main(["screen", "--store", kept])
    shown = capsys.readouterr()
    assert f"left out of {kept}: 2 rows of model gloo, version {pg.__version__}" in shown.err
    main(["screen", "--store", kept, "--model", "gloo", "--format", "json"])
    shown = capsys.readouterr()
    assert sum(json.loads(shown.out)["trials"].values()) == 2
    assert "4 rows of model of the plan" in shown.err
    assert main(["screen", "--store", kept, "--model", "mpi-sync"]) == 2
    assert "models in it: gloo, the plan's own" in capsys.readouterr().err


def test_a_store_that_another_process_writes_is_told_so(tmp_path, monkeypatch):
    """What is locked is whole: the hint says to wait."""
    kept = tmp_path / "s.db"
    rows_of(pg.screen(trials(1), store=kept, executor="inline"))
    writer = sqlite3.connect(kept, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    connect = sqlite3.connect

    def impatient(*given, **named):
        return connect(*given, **{**named, "timeout": 0.01})

    monkeypatch.setattr("planguard.screen.store.sqlite3.connect", impatient)
    with pytest.raises(UsageError, match="locked") as refused:
        rows_of(pg.screen(trials(2), store=kept, executor="inline"))
    assert "wait for it" in refused.value.hint
    writer.close()


def test_a_pool_that_has_gone_is_left(monkeypatch):
    """Futures of a cluster whose scheduler died wait for ever: this machine does the rest."""
    monkeypatch.setattr(executors, "LOOK_SECONDS", 0.05)
    submitted = []

    class Gone:
        def submit(self, function, data):
            submitted.append(data)
            future = Future()
            if len(submitted) == 1:  # the first chunk came back before
                future.set_result(function(data))
            return future

    expected = rows_of(pg.screen(trials(12), executor="inline"))
    pool = executors.Futures(Gone(), jobs=2, is_alive=lambda: False)
    assert rows_of(pg.screen(trials(12), executor=pool)) == expected
    assert len(submitted) > 2


def test_a_silent_pool_that_is_there_is_waited_for(monkeypatch):
    """A chunk that takes long is no dead cluster."""
    monkeypatch.setattr(executors, "LOOK_SECONDS", 0.05)
    asked = []

    def slowly(function, data):
        time.sleep(0.4)
        return function(data)

    with ThreadPoolExecutor(2) as threads:

        class Slow:
            def submit(self, function, data):
                return threads.submit(slowly, function, data)

        pool = executors.Futures(Slow(), jobs=2, is_alive=lambda: bool(asked.append(1) or True))
        rows = rows_of(pg.screen(trials(4), executor=pool))
    assert rows == rows_of(pg.screen(trials(4), executor="inline"))
    assert asked
    assert pool._rest is None
