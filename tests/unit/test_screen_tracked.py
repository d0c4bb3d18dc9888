"""Exports of W&B, MLflow and Optuna as parameters of trials, joined by name and never guessed."""

from __future__ import annotations

import json

import pytest

from planguard.cli import main
from planguard.errors import UsageError
from planguard.screen.store import query
from planguard.screen.tracked import tracked
from planguard.screen.trials import Trials

PLAN = json.dumps({"schema": "planguard.plan/1", "world_size": 1,
                   "ranks": {"0": {"actions": []}}})  # fmt: skip


def of(path, *trials):
    """Return the parameters of trials by an export."""
    rows = tracked([str(path)])
    return [dict(rows.of(trial)) for trial in trials]


def test_wandb_table_with_config_columns(tmp_path):
    """The table of W&B's pages: what it adds of its own is no parameter, cells become numbers."""
    file = tmp_path / "wandb.csv"
    file.write_text(
        '"Name","State","Runtime","lr","batch"\n"calm-sun-1","finished","12","0.1","8"\n'
    )
    assert of(file, "runs/calm-sun-1/plan.json") == [{"lr": 0.1, "batch": 8}]


def test_wandb_config_as_json_and_as_text(tmp_path):
    """Runs as objects, values wrapped as in config.yaml or not; as text only with literals."""
    file = tmp_path / "runs.json"
    runs = [{"id": "a1b2", "name": "x", "config": {"lr": {"value": 0.5}, "_wandb": {"v": 1},
             "opt": {"kind": "adam"}}, "summary": {"loss": 1}}]  # fmt: skip
    file.write_text(json.dumps(runs))
    assert of(file, "a1b2/schedule.csv") == [{"lr": 0.5, "opt.kind": "adam"}]
    text = tmp_path / "project.csv"
    text.write_text("summary,config,name\n\"{'loss': 1}\",\"{'lr': 0.5}\",x\n")
    assert of(text, "x.plan.json") == [{"lr": 0.5}]
    text.write_text("config,name\n\"__import__('os').getcwd()\",x\n")
    with pytest.raises(UsageError, match="no dictionary"):
        tracked([str(text)])


def test_mlflow_folder_and_its_search(tmp_path):
    """Files of an mlruns folder, and the table of search_runs: by id and by the run's name."""
    run = tmp_path / "mlruns/0/0f3a"
    (run / "params").mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: 0f3a\nrun_name: brave-fox\n")
    (run / "params/lr").write_text("0.1")
    (run / "params/shuffle").write_text("True")
    both = {"lr": 0.1, "shuffle": True}
    assert of(tmp_path / "mlruns", "x/0f3a/p.csv", "x/brave-fox.csv") == [both, both]
    table = tmp_path / "runs.csv"
    table.write_text(
        "run_id,status,metrics.loss,params.lr,tags.mlflow.runName\n0f3a,FINISHED,1,0.1,f\n"
    )
    assert of(table, "0f3a.csv", "f/plan.csv") == [{"lr": 0.1}, {"lr": 0.1}]


def test_optuna_table_and_storage(tmp_path):
    """Trials by number, however the folder spells it; a choice is its value and not its index."""
    table = tmp_path / "trials.csv"
    table.write_text("number,value,params_batches,state\n7,0.5,3,COMPLETE\n")
    assert of(table, "t7/s.csv", "trial-007.plan.json", "7/s.csv", "t70/s.csv") == [
        {"batches": 3}, {"batches": 3}, {"batches": 3}, {}
    ]  # fmt: skip
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = tmp_path / "study.db"
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
    study.enqueue_trial({"kind": "zbv", "batches": 4})
    study.optimize(lambda t: t.suggest_int("batches", 1, 8)
                   + len(t.suggest_categorical("kind", ["1f1b", "zbv"])), n_trials=1)  # fmt: skip
    before = path.read_bytes()
    assert of(path, "trial_0/plan.json") == [{"batches": 4, "kind": "zbv"}]
    assert path.read_bytes() == before


def test_two_runs_of_one_name_belong_to_none(tmp_path):
    """Parameters are never guessed: an ambiguous name joins nothing, and it is counted."""
    file = tmp_path / "runs.csv"
    file.write_text("Name,lr\na,1\na,2\nb,3\n")
    rows = tracked([str(file)])
    assert [dict(rows.of(name)) for name in ("a/p.csv", "b/p.csv", "c/p.csv")] == [
        {},
        {"lr": 3},
        {},
    ]
    assert (rows.used, rows.without) == ({2}, 2)


def test_cells_that_are_no_numbers_stay_texts(tmp_path):
    """nan, an underscore and a version are texts; signs, points and exponents are numbers."""
    file = tmp_path / "r.csv"
    file.write_text("Name,a,b,c,d,e\nx,nan,1_000,2.1.0,-1e-3,+5\n")
    assert of(file, "x.csv") == [{"a": "nan", "b": "1_000", "c": "2.1.0", "d": -0.001, "e": 5}]


def test_the_part_nearest_the_file_decides(tmp_path):
    """A folder called like another run does not hide the run's own folder."""
    file = tmp_path / "runs.csv"
    file.write_text("Name,lr\na,1\nb,2\n")
    assert of(file, "a/b/plan.csv") == [{"lr": 2}]


def test_own_parameters_come_first(tmp_path):
    """What stands beside a plan is not overwritten by a tracker, only added to."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.plan.json").write_text(PLAN)
    (tmp_path / "a/params.json").write_text('{"lr": 9}')
    (tmp_path / "r.csv").write_text("Name,lr,wd\na,1,2\n")
    rows = tracked([str(tmp_path / "r.csv")])
    assert [dict(t.params) for t in Trials(str(tmp_path / "a"), tracked=rows)] == [
        {"lr": 9, "wd": 2}
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.csv", "lr,wd\n1,2\n"), ("x.json", "3"), ("x.json", "not json"),
     ("x.csv", ""), ("missing.csv", None), ("x.db", "SQLite format 3\0 no database")],
)  # fmt: skip
def test_what_is_no_export_is_one_clear_error(tmp_path, capsys, name, text):
    """Exit code 2 and the file's name; nothing is screened."""
    (tmp_path / "a.plan.json").write_text(PLAN)
    if text is not None:
        (tmp_path / name).write_text(text)
    code = main(["screen", str(tmp_path / "a.plan.json"), "--params", str(tmp_path / name)])
    assert code == 2
    assert name in capsys.readouterr().err


def test_parameters_that_come_later_reach_the_store(tmp_path, capsys):
    """Screened without, resumed with an export: rows keep their answer and get the parameters."""
    for one in "ab":
        (tmp_path / "t" / one).mkdir(parents=True)
        (tmp_path / "t" / one / "x.plan.json").write_text(PLAN)
    store = str(tmp_path / "s.db")
    line = ["screen", str(tmp_path / "t"), "--store", store, "-q", "--jobs", "1"]
    assert main(line) == 0
    (tmp_path / "r.csv").write_text("Name,lr\na,1\nz,2\n")
    assert main([*line, "--resume", "--params", str(tmp_path / "r.csv")]) == 0
    said = capsys.readouterr().err
    assert "parameters of 1 run joined; 1 run without a trial, 1 trial without a run" in said
    _, rows = query(store, "SELECT outcome, lr FROM screen ORDER BY name")
    assert [tuple(row) for row in rows] == [("SAFE", 1), ("SAFE", None)]
