"""A store that is locked, damaged, of another kind or where nothing can be written says so."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import planguard as pg
from planguard.cli import main
from planguard.screen import store as stores
from planguard.screen.store import Store, query


def plan(number):
    """One of many plans that communicate differently; every third one is stuck."""
    builder = pg.PlanBuilder(2, name=f"plan {number}")
    for rank in (0, 1):
        program = builder.program(rank)
        for sends in (True, False) if number % 3 == 0 or rank == 0 else (False, True):
            getattr(program, "send" if sends else "recv")(peer=1 - rank, bytes=4 + number)
    return builder.build()


@pytest.fixture
def kept(tmp_path):
    """A store of 60 trials with 60 skeletons."""
    path = tmp_path / "s.db"
    given = [(f"t{number:02}", plan(number), {"n": number}) for number in range(60)]
    screening = pg.screen(given, store=path, executor="inline")
    list(screening.rows())
    screening.store.close()
    return path


def test_a_file_that_is_damaged(kept, tmp_path, capsys):
    """Pages of a store that somebody wrote over: no traceback, and what to do."""
    data = bytearray(kept.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    bad = tmp_path / "bad.db"
    bad.write_bytes(data)
    for words in (["screen", "--store", str(bad)], ["report", str(bad)],
                  ["screen", "--store", str(bad), "--query", "1"]):  # fmt: skip
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "malformed" in said
        assert "the file is damaged: screen into a new one" in said


def test_a_file_that_is_none(tmp_path, capsys):
    """Text, and the database of somebody else, are no stores and are not written."""
    text, other = tmp_path / "t.db", tmp_path / "o.db"
    text.write_text("hello" * 100)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE trials (a)")
    db.close()
    before = text.read_bytes(), other.read_bytes()
    for one, why in ((text, "not a database"), (other, "no store of this version")):
        assert main(["screen", "--store", str(one)]) == 2
        assert why in capsys.readouterr().err
    assert (text.read_bytes(), other.read_bytes()) == before


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_store_where_nothing_can_be_written(kept, is_alone, monkeypatch, capsys):
    """It is read all the same, unless somebody is writing into it right now."""
    connect = sqlite3.connect

    def readonly(name, **how):
        db = connect(name, **how)
        if "immutable" not in str(name):
            db.close()
            raise sqlite3.OperationalError("unable to open database file")
        return db

    if not is_alone:
        Path(f"{kept}-wal").write_bytes(b"")
    monkeypatch.setattr(stores.sqlite3, "connect", readonly)
    code = main(["screen", "--store", str(kept), "--quiet"])
    said = capsys.readouterr()
    if is_alone:
        assert code == 1
        assert "SAFE                      40" in said.out
    else:
        assert code == 2
        assert "may this process write into it?" in said.err
    assert main(["screen", str(kept), "--store", "/nowhere/s.db"]) == 2


def test_a_disk_that_is_full(kept, tmp_path):
    """What was committed is kept, and the hint says to make room."""
    copy = tmp_path / "full.db"
    shutil.copyfile(kept, copy)
    store = Store(copy)
    store.resume()
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    rows = list(store.rows())
    more = [stores.Row(f"x{n}" * 50, "SAFE", "", (), "", "", "") for n in range(1000)]
    with pytest.raises(pg.UsageError, match="disk is full; what was committed is kept") as refused:
        store.add(more, [])
    assert "make room" in refused.value.hint
    assert list(store.rows()) == rows


def test_what_a_store_answers_is_said(kept, capsys):
    """The question stands above the text; another one is named as left out."""
    given = [("t00", plan(1), {}), ("t01", plan(2), {})]
    screening = pg.screen(given, store=kept, executor="inline", model="gloo")
    list(screening.rows())
    screening.store.close()
    assert main(["report", str(kept)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == f" model of the plan, version {pg.__version__}"
    assert f"left out of {kept}: 2 rows of model gloo, version {pg.__version__}" in said.err
    assert main(["report", str(kept), "--model", "mpi-sync"]) == 2


def test_options_are_part_of_the_question(tmp_path):
    """Other rules are another question, and are named by what is not usual."""
    from planguard.options import CheckOptions

    kept = tmp_path / "s.db"
    for options in (CheckOptions(), CheckOptions(eager_bytes=7)):
        screening = pg.screen([("a", plan(1), {})], store=kept, executor="inline", options=options)
        list(screening.rows())
        asked = str(screening.store.question)
    assert asked == f"model of the plan, version {pg.__version__}, eager_bytes=7"


def test_skeletons_are_kept_in_bounds(monkeypatch, tmp_path):
    """With room for three the rows are the same: the others are looked up in the store."""
    from planguard.screen import screening as module

    monkeypatch.setattr(module, "REMEMBERED", 3)
    monkeypatch.setattr(module, "LARGEST", 8)
    monkeypatch.setattr(module, "SMALLEST", 4)
    given = [(f"t{n:02}", plan(n % 60), {"n": n}) for n in range(120)]
    path = tmp_path / "small.db"
    screening = pg.screen(given, store=path, executor="inline")
    rows = list(screening.rows())
    assert len(screening._known) <= 3
    assert [row.outcome for row in rows[:60]] == [row.outcome for row in rows[60:]]
    assert [row.skeleton for row in rows[:60]] == [row.skeleton for row in rows[60:]]
    assert sum(screening.store.kinds().values()) == 60
    again = pg.screen(given, store=path, executor="inline")
    assert list(again.rows()) == rows
    _, first = query(path, "SELECT count(DISTINCT message) FROM screen WHERE outcome = 'DEADLOCK'")
    assert first[0][0] >= 1


def test_a_plan_that_differs_by_its_name_is_read_once(tmp_path):
    """Named plans share one answer; a name that has to be looked at, and refusals, do not."""
    document = json.loads(plan(1).source)
    document.pop("name")
    rest = json.dumps(document)[1:]
    lines = [f'{{"name": "p{n}", {rest}' for n in range(4)]
    lines += ['{"name": "a\\u0062", ' + rest, '{"name": 5, ' + rest]
    broken = rest.replace('"world_size": 2', '"world_size": 0')
    assert broken != rest
    lines += [f'{{"name": "{name}", {broken}' for name in ("x", "much longer")]
    twice = rest[:-1] + ', "name": "again"}'
    lines += [f'{{"name": "{name}", {twice}' for name in ("x", "y")]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    contents = [trial.content[0] for trial in pg.screen([str(path)], jobs=1)._trials]
    assert len(set(contents[:4])) == 1
    assert len(set(contents)) == 5
    rows = list(pg.screen([str(path)], executor="inline").rows())
    alone = [next(pg.screen([("n", line.encode())], executor="inline").rows()) for line in lines]
    assert [(r.outcome, r.code, r.reason) for r in rows] == [
        (r.outcome, r.code, r.reason) for r in alone
    ]
    assert [row.outcome for row in rows] == ["SAFE"] * 5 + ["UNKNOWN"] * 5


def test_a_caller_that_is_read_ahead_may_be_interrupted(tmp_path):
    """Ctrl-C while the next window is read ends the screening and keeps what was committed."""
    path = tmp_path / "t.jsonl"
    with path.open("w") as file:
        for number in range(3000):
            file.write(plan(number).source.decode().replace("\n", " ") + "\n")
    script = (
        "import os, signal, sys, threading, planguard as pg\n"
        "screening = pg.screen([sys.argv[1]], store=sys.argv[2], jobs=1)\n"
        "rows = screening.rows()\n"
        "next(rows)\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    list(rows)\nexcept KeyboardInterrupt:\n    print(screening.store.count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path, tmp_path / "s.db"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert int(done.stdout) >= 32, done.stderr
