from __future__ import annotations

import base64
import json
import re
import zlib

import pytest

import planguard
from planguard.cli import main
from planguard.report.page import screened


def unpacked(data):
    """Return the document inside a page."""
    text = re.search(rb'id="data">([^<]*)<', data)[1]
    blob = zlib.decompress(base64.b64decode(text))
    return json.loads(blob[4 : 4 + int.from_bytes(blob[:4], "little")])


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of six trials: two orders of two calls, three sizes; the sizes are a parameter."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trials").mkdir()
    for size in (1, 2, 4):
        for order in ("same", "crossed"):
            calls = [{"op": "all_reduce", "bytes": 1024 * size}, {"op": "barrier", "group": "g"}]
            other = calls[::-1] if order == "crossed" else calls
            document = {
                "schema": "planguard.plan/1",
                "world_size": 2,
                "groups": {"g": {"ranks": [0, 1]}},
                "ranks": {"0": {"actions": calls}, "1": {"actions": other}},
            }
            stem = tmp_path / "trials" / f"{size}-{order}"
            stem.with_suffix(".plan.json").write_text(json.dumps(document))
            stem.with_suffix(".params.json").write_text(json.dumps({"mb": size, "order": order}))
    assert main(["screen", "trials", "--store", "screen.db", "--quiet"]) == 1
    return tmp_path / "screen.db"


def test_the_page_of_a_store_has_every_trial_and_the_witness_of_a_family(store, tmp_path):
    """Rows with outcome, parameters and a relative link; what parameters tell; a witness of the
    first trial of every unsafe family.
    """
    out = tmp_path / "report.html"
    assert main(["report", str(store), "-o", str(out)]) == 0
    found = unpacked(out.read_bytes())
    assert found["total"] == len(found["trials"]) == 6
    assert found["params"] == ["mb", "order"]
    rows = {name: (outcome, code, link) for name, outcome, code, *_, link in found["trials"]}
    assert rows["trials/1-crossed.plan.json"] == (
        "DEADLOCK", "PG004", "./trials/1-crossed.plan.json",
    )  # fmt: skip
    assert [rule[2] for rule in found["rules"]] == [
        "all with order=crossed, and no other trial has that"
    ]
    unsafe = [family[0] for family in found["families"] if family[1] == "DEADLOCK"]
    assert sorted(map(int, found["said"])) == unsafe
    for told in found["said"].values():
        assert told["findings"][0]["witness"]["end"] == "stuck"
        assert told["findings"][0]["fixes"]
    assert str(tmp_path) not in json.dumps(found)


def test_only_what_was_screened_is_opened_again(store, tmp_path):
    """A plan file that has changed since, or is gone, gives no witness; the page is written."""
    (tmp_path / "trials" / "1-crossed.plan.json").write_text("{}")
    (tmp_path / "trials" / "2-crossed.plan.json").unlink()
    assert main(["report", str(store), "-o", "report.html"]) == 0
    found = unpacked((tmp_path / "report.html").read_bytes())
    assert len(found["said"]) == 1
    links = {trial[0]: trial[-1] for trial in found["trials"]}
    assert links["trials/2-crossed.plan.json"] == ""


def test_trials_of_lines_are_found_again_and_names_are_text(tmp_path, monkeypatch):
    """A trial of a JSONL file keeps its witness; a hostile name stays data, and is never opened."""
    monkeypatch.chdir(tmp_path)
    calls = [{"op": "all_reduce", "bytes": 8}, {"op": "barrier"}]
    plan = {
        "schema": "planguard.plan/1", "world_size": 2,
        "ranks": {"0": {"actions": calls}, "1": {"actions": calls[::-1]}},
    }  # fmt: skip
    lines = [plan, {"name": "/etc/passwd.plan.json</script>", "plan": {**plan, "world_size": 2}}]
    (tmp_path / "trials.jsonl").write_text("\n".join(map(json.dumps, lines)))
    verdicts = planguard.screen("trials.jsonl", store="s.db", jobs=1, executor="inline")
    assert len(list(verdicts)) == 2
    assert main(["report", "s.db", "-o", "s.html"]) == 0
    data = (tmp_path / "s.html").read_bytes()
    found = unpacked(data)
    assert {trial[0] for trial in found["trials"]} == {
        "trials.jsonl:1", "/etc/passwd.plan.json</script>",
    }  # fmt: skip
    assert data.count(b"</script>") == 2
    assert all(trial[-1] == "" for trial in found["trials"])


def test_a_store_in_text_and_in_other_formats(store, capsys):
    """Text is the summary of screen; a store has no matrix."""
    assert main(["report", str(store)]) == 0
    assert "DEADLOCK" in capsys.readouterr().out
    assert main(["report", str(store), "-o", "x.svg"]) == 2


def test_a_page_that_is_too_large_says_what_it_leaves_out(store, monkeypatch):
    """Above the cap trials are left out, never the count of all."""
    monkeypatch.setattr(screened, "CAP", 1)
    assert main(["report", str(store), "-o", "x.html"]) == 0
    found = unpacked(store.with_name("x.html").read_bytes())
    assert found["trials"] == []
    assert found["total"] == 6


def test_the_page_says_which_question_it_shows(store, tmp_path, capsys):
    """Of a store with two, the model that was asked for; the other is named as left out."""
    assert main(["screen", "trials", "--store", str(store), "--resume", "--model", "gloo"]) != 4
    out = tmp_path / "gloo.html"
    assert main(["report", str(store), "--model", "gloo", "-o", str(out)]) == 0
    found = unpacked(out.read_bytes())
    assert found["question"] == f"model gloo, version {planguard.__version__}"
    assert found["kinds"] == len(found["families"])
    assert "rows of model of the plan" in capsys.readouterr().err
