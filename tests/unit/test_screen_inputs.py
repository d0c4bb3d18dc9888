"""Any experiment folder: archives and lines that name files, and nothing outside of them."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import pytest

from planguard.cli import main
from planguard.errors import UsageError
from planguard.screen import archives
from planguard.screen.trials import Trials

PLAN = json.dumps({"schema": "planguard.plan/1", "world_size": 1,
                   "ranks": {"0": {"actions": []}}}).encode()  # fmt: skip


def names(trials):
    """Return the names of trials."""
    return [trial.name for trial in trials]


def test_plans_inside_archives_are_trials(tmp_path):
    """A zip and a tarball beside a plan: each plan is a trial, named as in its archive."""
    (tmp_path / "a.plan.json").write_bytes(PLAN)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as file:
        file.writestr("runs/b.plan.json", PLAN)
        file.writestr("runs/params.json", '{"lr": 2}')
        file.writestr("notes.txt", "hello")
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as tape:
        info = tarfile.TarInfo("c.plan.json")
        info.size = len(PLAN)
        tape.addfile(info, io.BytesIO(PLAN))
    trials = Trials(str(tmp_path))
    found = {trial.name: dict(trial.params) for trial in trials}
    assert found == {
        f"{tmp_path}/a.plan.json": {},
        f"{tmp_path}/z.zip/runs/b.plan.json": {"lr": 2},
        f"{tmp_path}/t.tar.gz/c.plan.json": {},
    }
    assert trials.skipped == [f"{tmp_path}/z.zip/notes.txt"]


def test_an_archive_writes_nothing_elsewhere(tmp_path):
    """Names that lead out, absolute ones, links and devices are left inside and listed."""
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tape:
        for name in ("../out.plan.json", "/tmp/out.plan.json", "a/../../out.plan.json"):  # noqa: S108
            info = tarfile.TarInfo(name)
            info.size = len(PLAN)
            tape.addfile(info, io.BytesIO(PLAN))
        link = tarfile.TarInfo("link.plan.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tape.addfile(link)
        info = tarfile.TarInfo("good.plan.json")
        info.size = len(PLAN)
        tape.addfile(info, io.BytesIO(PLAN))
    trials = Trials(str(archive))
    assert names(trials) == [f"{archive}/good.plan.json"]
    assert len(trials.skipped) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar"]


def test_an_archive_that_swells_is_refused(tmp_path, monkeypatch):
    """More bytes than the limit end the unpacking with one clear error."""
    monkeypatch.setattr(archives, "MOST_BYTES", 1 << 20)
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("b.plan.json", b" " * (8 << 20))
    with pytest.raises(UsageError, match="more than"):
        Trials(str(tmp_path / "z.zip")).total  # noqa: B018
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(UsageError, match="cannot be unpacked"):
        Trials([str(tmp_path / "cut.zip")])


def test_a_damaged_archive_of_a_folder_is_told_and_the_others_are_trials(tmp_path, capsys):
    """A folder with one archive that was cut short: `screen` goes on, `check` refuses that one."""
    (tmp_path / "a.plan.json").write_bytes(PLAN)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(b"PK\x03\x04 and then nothing")
    trials = Trials(str(tmp_path))
    assert names(trials) == [f"{tmp_path}/a.plan.json"]
    assert trials.skipped == [str(cut)]
    assert "cannot be unpacked" in trials.damaged[str(cut)].message
    assert main(["screen", str(tmp_path), "--store", str(tmp_path / "s.db")]) == 0
    said = capsys.readouterr().err
    assert f"not screened: {cut}: cannot be unpacked" in said
    assert "no plan is recognized" not in said
    assert main(["check", str(tmp_path), "--format", "concise"]) == 2
    out = capsys.readouterr().out
    assert "cut.zip: cannot be unpacked" in out
    assert "1 safe" in out
    (tmp_path / "a.plan.json").unlink()
    with pytest.raises(UsageError, match="cannot be unpacked"):
        Trials(str(tmp_path)).total  # noqa: B018


def test_lines_may_name_files_of_their_folder(tmp_path):
    """A line with a path is the trial in that file; a path elsewhere opens nothing."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.plan.json").write_bytes(PLAN)
    (tmp_path / "out.plan.json").write_bytes(PLAN)
    (tmp_path / "in" / "link.plan.json").symlink_to(tmp_path / "out.plan.json")
    lines = tmp_path / "in" / "trials.jsonl"
    given = ["a.plan.json", "../out.plan.json", str(tmp_path / "out.plan.json"), "link.plan.json",
             "missing.plan.json"]  # fmt: skip
    lines.write_text("\n".join(json.dumps({"path": p, "params": {"lr": 1}}) for p in given))
    found = list(Trials([str(lines)]))
    assert [trial.path for trial in found] == [str(tmp_path / "in" / "a.plan.json"), "", "", "", ""]
    assert found[0].params == {"lr": 1}


def test_a_log_of_paths_is_no_trial(tmp_path):
    """A JSONL log whose lines have a path among other things is passed over."""
    (tmp_path / "a.plan.json").write_bytes(PLAN)
    (tmp_path / "log.jsonl").write_text('{"path": "a.plan.json", "level": "info"}\n')
    trials = Trials(str(tmp_path))
    assert names(trials) == [f"{tmp_path}/a.plan.json"]
    assert trials.skipped == [f"{tmp_path}/log.jsonl"]


def test_nan_as_python_writes_it_is_a_parameter_beside_a_plan_and_in_a_line(tmp_path):
    """A search with NaN among its parameters loses neither the trial nor the others of them."""
    params = {"drop": float("nan"), "limit": float("-inf"), "tp": 8}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "plan.json").write_bytes(PLAN)
    (tmp_path / "a" / "params.json").write_text(json.dumps(params))
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"name": "b", "params": params, "plan": json.loads(PLAN)}) + "\n")
    told = {"drop": "NaN", "limit": "-Infinity", "tp": 8}
    found = list(Trials([tmp_path]))
    assert [trial.params for trial in found] == [told, told]
    assert json.loads(next(trial.data for trial in found if trial.name == "b")) == json.loads(PLAN)


def test_a_key_given_twice_in_a_plan_is_not_mended_by_nan_beside_it(tmp_path):
    """The strict reader of plans sees such a line as it was written."""
    twice = '{"name": "b", "params": {"x": NaN}, "plan": {"world_size": 1, "world_size": 2}}'
    (tmp_path / "lines.jsonl").write_text(f"{twice}\n")
    assert [trial.data for trial in Trials([tmp_path / "lines.jsonl"])] == [twice.encode()]


@pytest.mark.parametrize(
    "data",
    ['{"a": "é"}'.encode("latin1"), b'{"a": 1,', b"[1]", b'{"a": "\\ud800"}', b'{"a":' * 9999],
)
def test_parameters_that_cannot_be_read_are_told_and_the_trial_stays(tmp_path, data):
    """Whatever lies in params.json, the trial stays and the file is named."""
    (tmp_path / "plan.json").write_bytes(PLAN)
    (tmp_path / "params.json").write_bytes(data)
    trials = Trials([tmp_path])
    assert [trial.params for trial in trials] == [{}]
    assert list(trials.beside.unread) == [str(tmp_path / "params.json")]


def test_a_link_to_a_file_beside_it_is_no_second_trial(tmp_path):
    """A link to a file of its own folder is skipped; one to another folder is a trial."""
    (tmp_path / "a.plan.json").write_bytes(PLAN)
    (tmp_path / "b.plan.json").symlink_to("a.plan.json")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "c.plan.json").symlink_to("../a.plan.json")
    trials = Trials(str(tmp_path))
    assert names(trials) == [f"{tmp_path}/a.plan.json", f"{tmp_path}/t/c.plan.json"]
    assert trials.skipped == [f"{tmp_path}/b.plan.json"]


def test_a_link_with_parameters_of_its_own_is_a_trial(tmp_path):
    """One plan under two settings: both are trials, each with its own parameters."""
    (tmp_path / "a.plan.json").write_bytes(PLAN)
    (tmp_path / "b.plan.json").symlink_to("a.plan.json")
    for name, rate in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.params.json").write_text(json.dumps({"lr": rate}))
    found = {trial.name: trial.params["lr"] for trial in Trials(tmp_path)}
    assert sorted(found.values()) == [1, 2]


def test_what_mlflow_keeps_beside_a_plan_is_read_not_skipped(tmp_path):
    """``meta.yaml`` and ``params`` of a run are where its parameters come from."""
    run = tmp_path / "0" / "ab"
    (run / "params").mkdir(parents=True)
    (run / "artifacts").mkdir()
    (run / "meta.yaml").write_text("run_id: ab\n")
    (run / "params" / "tp").write_text("8")
    (run / "artifacts" / "a.plan.json").write_bytes(PLAN)
    trials = Trials(str(tmp_path))
    assert [dict(trial.params) for trial in trials] == [{"tp": 8}]
    assert trials.skipped == []


def test_what_wandb_writes_itself_is_no_parameter(tmp_path):
    """``wandb_version`` and ``_wandb`` of ``config.yaml`` are left out."""
    pytest.importorskip("yaml")
    files = tmp_path / "run-1" / "files"
    files.mkdir(parents=True)
    (files / "config.yaml").write_text("wandb_version: 1\n_wandb:\n  value: {}\nlr:\n  value: 2\n")
    (files / "a.plan.json").write_bytes(PLAN)
    assert [dict(trial.params) for trial in Trials(str(tmp_path))] == [{"lr": 2}]
