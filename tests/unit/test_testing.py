"""planguard.testing: the conformance test of adapters, on the built-in ones and on bad ones."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest
from planguard.planners.pipelining import adapter as pipelining

from planguard.errors import PlanError
from planguard.testing import assert_safe, check_adapter

SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "samples" / "pipelining"


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*-2x4.csv")), ids=lambda path: path.stem)
def test_pipelining_adapter_conforms_on_every_small_sample(path: Path) -> None:
    """The pipelining adapter keeps the contract on each of torch's schedules, as path and bytes."""
    seen = check_adapter(pipelining, path, variants=25)
    assert seen.labeled > 10
    assert seen.refused > 10
    check_adapter(pipelining, path.read_bytes(), variants=10)


def test_pipelining_adapter_conforms_with_options() -> None:
    """The contract holds with batches, sharding, sizes and the first step as well."""
    options = {"lowering": "batched", "shards": 2, "bytes": [8, 16], "first_step": True}
    seen = check_adapter(pipelining, SAMPLES / "dualpipev-4x8.csv", options=options, variants=10)
    assert seen.plan.world_size == 8


def test_safe_plans_pass_and_others_fail_with_their_findings() -> None:
    """assert_safe accepts torch's default order and rejects the deferred one, naming code, model
    and outcome; options reach the adapter.
    """
    assert_safe(SAMPLES / "zbv-2x4.csv", model="all")
    with pytest.raises(AssertionError, match=r"not safe \(gloo: MISMATCH\)\n\nerror\[PG2\d\d\]"):
        assert_safe(SAMPLES / "zbv-deferred-2x4.csv", model="gloo")
    with pytest.raises(AssertionError, match="nccl-lazy: DEADLOCK"):
        assert_safe(SAMPLES / "interleaved1f1b-2x4.csv", model="all", defer_recv=True)


class Letters:
    """A correct adapter, one all_reduce per letter. Its subclasses break one rule each."""

    name = "letters"
    runs = 0

    def sniff(self, obj: object) -> bool:
        return isinstance(obj, bytes) and obj[:2] == b"a:"

    def adapt(self, obj, builder, **options):
        text = self.text(obj)
        plan = builder(2)
        for rank in range(2):
            for place, letter in enumerate(text):
                fields = self.fields(letter, place)
                plan.program(rank).add("all_reduce", bytes=4, **fields)
        return plan.build()

    def text(self, obj: bytes) -> str:
        text = obj[2:].decode("ascii", "replace")
        if not (self.sniff(obj) and text.isalpha()):
            raise PlanError("not letters", path="byte 0")
        return text

    def fields(self, letter: str, place: int) -> dict:
        return {"label": letter, "src": ("letters", place)}


SAMPLE = b"a:hello"


class Greedy(Letters):
    """Recognizes everything."""

    def sniff(self, obj: object) -> bool:
        return True


class Blind(Letters):
    """Recognizes nothing."""

    def sniff(self, obj: object) -> bool:
        return False


class Fickle(Letters):
    """Gives another plan each time."""

    def fields(self, letter: str, place: int) -> dict:
        self.runs += 1
        return {"label": f"{letter}{self.runs}", "src": ("letters", place)}


class Lost(Letters):
    """Forgets where actions come from."""

    def fields(self, letter: str, place: int) -> dict:
        return {"label": letter}


class Nameless(Letters):
    """Has no labels and does not say so."""

    def fields(self, letter: str, place: int) -> dict:
        return {"src": ("letters", place)}


class Evaluating(Letters):
    """Evaluates its input."""

    def text(self, obj: bytes) -> str:
        eval("1 + 1")  # noqa: S307 - the defect under test
        return super().text(obj)


class Unpickling(Letters):
    """Unpickles its input."""

    def text(self, obj: bytes) -> str:
        pickle.loads(pickle.dumps(Path))  # noqa: S301 - the defect under test
        return super().text(obj)


class Crashing(Letters):
    """Raises something else on damaged input."""

    def text(self, obj: bytes) -> str:
        return obj[2:].decode("ascii")


class Credulous(Letters):
    """Accepts every damaged input."""

    def text(self, obj: bytes) -> str:
        return "hello"


def test_a_correct_adapter_passes() -> None:
    """An adapter that keeps the rules passes, and the report counts what was seen."""
    seen = check_adapter(Letters(), SAMPLE)
    assert (seen.actions, seen.labeled, seen.damaged) == (10, 10, 60)
    assert 0 < seen.refused < 60


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Greedy, "sniff recognizes None"),
        (Blind, "does not recognize the sample"),
        (Fickle, "two different plans"),
        (Lost, "no source location"),
        (Nameless, "have no label"),
        (Evaluating, "ran code: compile"),
        (Unpickling, "ran code: pickle.find_class"),
        (Crashing, "raised UnicodeDecodeError instead of PlanError"),
        (Credulous, "none of 60 damaged samples was refused"),
    ],
)
def test_each_broken_rule_is_named(broken: type[Letters], words: str) -> None:
    """An adapter that breaks one rule fails with a message that names the rule."""
    with pytest.raises(AssertionError, match=words):
        check_adapter(broken(), SAMPLE)


def test_parsing_is_not_running() -> None:
    """An adapter may parse source text into a syntax tree; that runs nothing."""

    class Parsing(Letters):
        def text(self, obj: bytes) -> str:
            ast.parse("print('never')")
            return super().text(obj)

    assert check_adapter(Parsing(), SAMPLE).actions == 10


def test_strangers_of_the_caller_count_too() -> None:
    """Inputs of other planners can be given as strangers."""
    with pytest.raises(AssertionError, match="sniff recognizes"):
        check_adapter(Letters(), SAMPLE, strangers=[b"a:other"])


def test_folders_are_damaged_file_by_file(tmp_path: Path) -> None:
    """A sample that is a folder is copied and one of its files damaged."""

    class Folder(Letters):
        def sniff(self, obj: object) -> bool:
            return isinstance(obj, Path) and (obj / "text").exists()

        def text(self, obj: Path) -> str:
            return Letters().text((obj / "text").read_bytes())

    (tmp_path / "text").write_bytes(SAMPLE)
    seen = check_adapter(Folder(), tmp_path)
    assert seen.refused > 0
    assert (tmp_path / "text").read_bytes() == SAMPLE
