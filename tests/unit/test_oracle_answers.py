"""The list of what the enumerator said: of this enumerator, and looked at again in each run."""

from __future__ import annotations

import pytest
from oracle import answers
from oracle.enumerator import Effort, OracleBudget, enumerate_plan
from oracle.generate import generate
from oracle.models import MODELS

CHEAP = Effort(4_000, 0)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Make a list of one's own; give what writes it."""
    monkeypatch.delenv("PLANGUARD_ENUMERATE", raising=False)
    monkeypatch.setattr(answers, "LIST", tmp_path / "answers.txt")

    def write(letters, head=None):
        rest = answers.NOT_ASKED * (len(MODELS) - 1)
        lines = [f"{key} {letter}{rest}" for key, letter in letters.items()]
        answers.LIST.write_text("\n".join([head or answers.head(), *lines]))
        answers.answers.cache_clear()

    yield write
    answers.answers.cache_clear()


def questions(asked):
    """Yield plans whose answer is asked in each run, or never."""
    for seed in range(200):
        plan = generate(seed)
        key = answers.key_of(plan, CHEAP)
        if (int(key, 16) % answers.ASKED_ANYWAY == 0) == asked:
            yield plan, key


def test_the_list_is_of_this_enumerator():
    """What decides the enumerator's answers is as it was when the list was written."""
    first = answers.LIST.read_text().partition("\n")[0]
    assert first == answers.head(), "python tests/campaigns/answers.py writes the list anew"


def test_all_of_the_enumerator_is_in_its_digest():
    """Its sources are what importing it loads, but for the tools that make plans."""
    names = {source.stem for source in answers.sources()}
    assert {"enumerator", "state", "host", "lowering", "expand", "signature", "blame"} <= names
    assert not names & {"generate", "mutate", "answers"}


def test_an_answer_of_the_list_is_used(written):
    """What the list says is taken, a limit that was passed too; what it has not is asked."""
    (one, key), (other, second), (third, _), *_ = questions(asked=False)
    written({key: "U", second: answers.GIVEN_UP})
    assert answers.outcome_of(one, "gloo", CHEAP) == "UNKNOWN"
    with pytest.raises(OracleBudget):
        answers.outcome_of(other, "gloo", CHEAP)
    assert answers.outcome_of(third, "gloo", CHEAP) == enumerate_plan(third, "gloo", CHEAP).outcome


def test_the_list_of_another_enumerator_is_not_used(written):
    """Where the source has changed, the list says nothing."""
    plan, key = next(questions(asked=False))
    true = enumerate_plan(plan, "gloo", CHEAP).outcome
    written({key: "U"}, head="enumerator 0123456789abcdef")
    assert answers.outcome_of(plan, "gloo", CHEAP) == true


def test_everything_is_asked_where_that_is_wanted(written, monkeypatch):
    """PLANGUARD_ENUMERATE=1 asks every plan, and what the list has is compared with the answer."""
    (one, key), (other, second), (third, limit), (fourth, _), *_ = questions(asked=False)
    true = {n: enumerate_plan(p, "gloo", CHEAP).outcome for n, p in ((1, other), (2, fourth))}
    written({key: "U", second: answers.LETTERS[true[1]], limit: answers.GIVEN_UP})
    monkeypatch.setenv("PLANGUARD_ENUMERATE", "1")
    for plan in (one, third):
        with pytest.raises(AssertionError, match="the enumerator says"):
            answers.outcome_of(plan, "gloo", CHEAP)
    assert answers.outcome_of(other, "gloo", CHEAP) == true[1]
    assert answers.outcome_of(fourth, "gloo", CHEAP) == true[2]


def test_a_part_of_the_list_is_asked_in_each_run(written):
    """An answer that is not the enumerator's fails the test that looks it up."""
    plan, key = next(questions(asked=True))
    written({key: "U"})
    with pytest.raises(AssertionError, match="the enumerator says"):
        answers.outcome_of(plan, "gloo", CHEAP)


def test_a_question_is_all_that_decides_its_answer(written):
    """Another plan, limit, seed or number of kernels is another question, another model another
    letter.
    """
    plan = generate(3)
    keys = {
        answers.key_of(plan, CHEAP),
        answers.key_of(generate(4), CHEAP),
        answers.key_of(plan, Effort(4_001, 0)),
        answers.key_of(plan, Effort(4_000, 0, 1)),
        answers.key_of(plan, Effort(4_000, 0, kernels=1)),
        answers.key_of(plan, Effort(4_000, 0, strict=False)),
    }
    assert len(keys) == 6
    written({answers.key_of(plan, CHEAP): "U"})
    assert answers.outcome_of(plan, "nccl", CHEAP) == enumerate_plan(plan, "nccl", CHEAP).outcome


def test_what_processes_noted_becomes_the_list(written, tmp_path, monkeypatch):
    """What was asked in a run that writes the list is in it, a limit that was passed too."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (one, key), (other, second), *_ = questions(asked=False)
    monkeypatch.setenv("PLANGUARD_ANSWERS_TO", str(notes))
    written({second: answers.GIVEN_UP})
    said = answers.outcome_of(one, "gloo", CHEAP)
    with pytest.raises(OracleBudget):
        answers.outcome_of(other, "gloo", CHEAP)
    assert answers.write(notes) == 2
    answers.answers.cache_clear()
    assert set(answers.answers()) == {key, second}
    assert answers.answers()[key][0] == answers.LETTERS[said]
