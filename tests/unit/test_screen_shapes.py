"""Experiment folders as people have them: what is a trial, what are its parameters, what is not."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import planguard as pg
from planguard.cli import main
from planguard.screen.tracked import tracked
from planguard.screen.trials import Trials

SAMPLES = Path(__file__).parents[1] / "samples"
SCHEDULE = (SAMPLES / "pipelining" / "gpipe-2x4.csv").read_bytes()


def write(path, data):
    """Write a file, with the folders above it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def plan(order):
    """A plan of two ranks as JSON: ``send, recv`` on both blocks, the other way round does not."""
    ranks = {}
    for rank in (0, 1):
        ops = order if rank else ("send", "recv")
        ranks[str(rank)] = {"actions": [{"op": op, "peer": 1 - rank, "bytes": 4} for op in ops]}
    return json.dumps({"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks})


GOOD, BAD = plan(("recv", "send")), plan(("send", "recv"))


def screened(given, **settings):
    """Screen; rows by name, and what was skipped."""
    trials = Trials(given, **settings)
    rows = {row.name: row for row in pg.screen(trials, executor="inline").rows()}
    return rows, trials.skipped


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory, so that names are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_of_wandb():
    """Each run's config is its parameters; the link to the latest run is no trial of its own."""
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    for number in range(3):
        run = Path(f"wandb/run-2026112{number}_100000-abc{number}")
        config = (
            f"_wandb:\n  value:\n    cli_version: 0.19\nlr:\n  desc: null\n  value: 0.{number}\n"
        )
        write(run / "files/config.yaml", config)
        write(run / "files/schedule.csv", SCHEDULE)
        write(run / "files/output.log", "epoch 0\n")
        write(run / f"run-abc{number}.wandb", b":W&B\0\1")
    Path("wandb/latest-run").symlink_to("run-20261122_100000-abc2")
    rows, skipped = screened("wandb")
    assert [dict(row.params) for _, row in sorted(rows.items())] == [
        {"lr": 0.0}, {"lr": 0.1}, {"lr": 0.2},
    ]  # fmt: skip
    assert all("/run-2026112" in name for name in rows)
    assert "wandb/latest-run" in skipped
    assert len(skipped) == 7
    assert not any("config.yaml" in one for one in skipped)


def test_runs_of_mlflow():
    """A plan among the artifacts of a run has the parameters of that run, without being told."""
    for number in range(2):
        run = Path(f"mlruns/0/{number:032x}")
        write(run / "meta.yaml", f"run_id: {number:032x}\n")
        write(run / "params/optim/lr", f"0.{number}")
        write(run / "params/early", "True")
        write(run / "artifacts/deep/schedule.csv", SCHEDULE)
    rows, skipped = screened("mlruns")
    assert [dict(row.params) for _, row in sorted(rows.items())] == [
        {"early": True, "optim/lr": 0.0}, {"early": True, "optim/lr": 0.1},
    ]  # fmt: skip
    assert not skipped


def test_a_multirun_of_hydra():
    """The configuration that Hydra writes beside a run is its parameters, nested names dotted."""
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    for number in range(2):
        run = Path(f"multirun/2026-11-25/10-00-00/{number}")
        write(run / ".hydra/config.yaml", f"stages: {number}\noptim:\n  lr: 0.1\n")
        write(run / ".hydra/overrides.yaml", "- a=1\n")
        write(run / "schedule.csv", SCHEDULE)
        write(run / "train.log", "x\n")
    rows, skipped = screened("multirun")
    assert [dict(row.params) for _, row in sorted(rows.items())] == [
        {"stages": 0, "optim.lr": 0.1}, {"stages": 1, "optim.lr": 0.1},
    ]  # fmt: skip
    assert [Path(one).name for one in skipped] == ["train.log", "train.log"]


@pytest.mark.parametrize(
    ("config", "why"),
    [("a: &x [1]\nb: *x\n", "aliases"), ("a: [\n", "while parsing"), (None, "not installed")],
)
def test_a_configuration_that_is_not_read_is_told(config, why, monkeypatch, capsys):
    """Aliases, which may stand for gigabytes; broken YAML; no reader: the trial is screened."""
    if config is None:
        monkeypatch.setitem(sys.modules, "yaml", None)
    else:
        pytest.importorskip("yaml", reason="PyYAML is not installed")
    write("runs/0/.hydra/config.yaml", config or "a: 1\n")
    write("runs/0/schedule.csv", SCHEDULE)
    assert main(["screen", "runs", "--executor", "inline"]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "1 file of parameters not read: runs/0/.hydra/config.yaml" in shown
    assert why in shown


def test_results_of_ray_tune():
    """params.json is the parameters; results, checkpoints and pickles are listed, like together."""
    for number in range(2):
        run = Path(f"ray_results/train/train_9c_0000{number}_{number}_x=1")
        write(run / "params.json", json.dumps({"x": number}))
        write(run / "params.pkl", b"\x80\x04}.")
        write(run / "result.json", '{"loss": 0.3, "config": {"x": 1}}\n{"loss": 0.2}\n')
        write(run / "plan.json", BAD if number else GOOD)
    rows, skipped = screened("ray_results")
    assert [(row.outcome, dict(row.params)) for _, row in sorted(rows.items())] == [
        ("SAFE", {"x": 0}), ("DEADLOCK", {"x": 1}),
    ]  # fmt: skip
    assert len(skipped) == 4


def test_archives_are_opened_whatever_their_bytes_look_like():
    """Files that are stored and not packed look like a schedule to who reads the first bytes."""
    Path("a").mkdir()
    with zipfile.ZipFile("a/a.zip", "w") as stored:
        stored.writestr("t0/schedule.csv", SCHEDULE)
        stored.writestr("README", "x")
    write("t1/schedule.csv", SCHEDULE)
    with tarfile.open("a/b.tar", "w") as tape:
        tape.add("t1", "t1")
        tape.add("a/a.zip", "deep/a.zip")
    write("a/empty.zip", b"")
    write("a/bad.tar.gz", b"no archive")
    rows, skipped = screened("a")
    assert sorted(rows) == ["a/a.zip/t0/schedule.csv", "a/b.tar/t1/schedule.csv"]
    assert {row.outcome for row in rows.values()} == {"SAFE"}
    assert skipped == ["a/a.zip/README", "a/b.tar/deep/a.zip", "a/bad.tar.gz", "a/empty.zip"]
    assert sorted(screened("a/*.zip")[0]) == ["a/a.zip/t0/schedule.csv"]
    assert sorted(screened("a/b.tar")[0]) == ["a/b.tar/t1/schedule.csv"]
    with pytest.raises(pg.UsageError, match=r"empty\.zip"):
        screened("a/empty.zip")


def test_lines_that_are_paths():
    """Texts, and objects with a path: each a trial, and the file it names no second one."""
    for number in range(3):
        write(f"runs/plans/p{number}.json", BAD if number == 1 else GOOD)
    write("runs/texts.jsonl", '"plans/p0.json"\n"plans/p1.json"\n"../up.json"\n')
    write("runs/named.jsonl", '{"name": "two", "path": "plans/p2.json", "params": {"n": 2}}\n')
    write("runs/log.jsonl", '{"step": 1}\n')
    write("runs/list.txt", "plans/p0.json\n")
    rows, skipped = screened("runs")
    assert {name: row.outcome for name, row in rows.items()} == {
        "runs/plans/p0.json": "SAFE",
        "runs/plans/p1.json": "DEADLOCK",
        "runs/texts.jsonl:3": "UNKNOWN",
        "two": "SAFE",
    }
    assert skipped == ["runs/list.txt", "runs/log.jsonl"]


def test_links_come_after_what_they_lead_to():
    """A trial has the name it has without links; a planner's folder behind one is found."""
    write("real/t0/schedule.csv", SCHEDULE)
    shutil.copytree(SAMPLES / "chakra/pipeline", "elsewhere")
    Path("real/a").symlink_to("t0")
    Path("real/b").symlink_to("../real")
    Path("real/c").symlink_to("../elsewhere")
    Path("real/d").symlink_to("nowhere")
    Path("real/e").symlink_to("../elsewhere")
    rows, skipped = screened("real")
    assert sorted(rows) == ["real/c", "real/t0/schedule.csv"]
    assert skipped == ["real/a", "real/b", "real/d", "real/e"]


def test_names_that_are_no_utf8(capsys):
    """A byte that is no UTF-8 is shown as one, in rows, exports and lists; the file is read."""
    for number, name in enumerate([b"caf\xe9", "naïve".encode(), b"new\nline", b"-x", b"[a]*"]):
        folder = os.fsdecode(b"runs/" + name)
        write(f"{folder}/schedule.csv", SCHEDULE)
        write(f"{folder}/params.json", json.dumps({"n": number}))
    write(os.fsdecode(b"runs/notes\xff"), "x")
    write(os.fsdecode(b"runs/p\xe9.plan.json"), BAD)
    for executor in ("inline", "processes"):
        assert main(["screen", "runs", "--executor", executor, "--blocked", "b.txt", "--store",
                     "s.db", "--export", "r.csv", "--force", "--jobs", "1"]) == 1  # fmt: skip
        assert Path("b.txt").read_text() == "runs/p\\xdce9.plan.json\n"
        text = Path("r.csv").read_text("utf-8")
        assert "runs/caf\\xdce9/schedule.csv,SAFE" in text
        assert "runs/naïve/schedule.csv,SAFE" in text
        assert "notes\\xdcff" in capsys.readouterr().err
    assert main(["check", os.fsdecode(b"runs/caf\xe9/schedule.csv")]) == 0


def test_files_that_hold_nothing():
    """Called like a trial, a file without bytes is a row that says so; others are listed."""
    write("runs/t0/schedule.csv", SCHEDULE)
    write("runs/t1/schedule.csv", b"")
    write("runs/t2/schedule.csv", bytes(range(200, 256)))
    write("runs/e.plan.json", b"")
    write("runs/e.jsonl", b"")
    os.mkfifo("runs/t3")
    rows, skipped = screened("runs")
    said = {name: (row.outcome, row.end) for name, row in rows.items()}
    assert said.pop("runs/t0/schedule.csv") == ("SAFE", "")
    assert set(said.values()) == {("UNKNOWN", "refused")}
    assert len(said) == 3
    assert skipped == ["runs/e.jsonl", "runs/t3"]
    assert "the file is empty" in rows["runs/t1/schedule.csv"].reason


def test_a_journal_of_optuna():
    """The other storage of Optuna is read by the library, too."""
    optuna = pytest.importorskip("optuna", reason="the extra optuna is not installed")
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.JournalStorage(JournalFileBackend("study.log"))
    study = optuna.create_study(storage=storage)
    study.optimize(lambda trial: trial.suggest_int("n", 3, 3), n_trials=2)
    found = tracked(["study.log"])
    assert found.of("runs/trial-1/schedule.csv") == {"n": 3}
    assert found.of("runs/trial-2/schedule.csv") == {}
