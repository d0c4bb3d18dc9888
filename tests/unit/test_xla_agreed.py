"""Branches and loops of jax's shard_map whose condition all devices share, and their like.

``tests/samples/xla/regenerate.py`` wrote the programs: ``same-*`` hang on no device,
``differs-*`` branch on data that no text says to be equal everywhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import planguard

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "xla" / "manual"
SAME = sorted(path.stem for path in FOLDER.glob("same-*.mlir"))
DIFFERS = sorted(path.stem for path in FOLDER.glob("differs-*.mlir"))


def verdict(text: str, tmp_path: Path) -> planguard.Verdict:
    """Return the verdict of a program."""
    path = tmp_path / "program.mlir"
    path.write_text(text)
    return planguard.check(planguard.load(path))


def text_of(name: str) -> str:
    """Return a program."""
    return (FOLDER / f"{name}.mlir").read_text()


@pytest.mark.parametrize("name", SAME)
def test_a_condition_that_all_devices_share_is_safe(name, tmp_path):
    """A replicated operand, an equal constant, a count, a sum over all: nothing is left open."""
    found = verdict(text_of(name), tmp_path)
    assert found.outcome.value == "SAFE"
    assert {one.direction for one in found.approximations} <= {"exact"}


@pytest.mark.parametrize("name", DIFFERS)
def test_a_condition_that_may_differ_is_not_safe(name, tmp_path):
    """A cut operand, a table, a claim of `out_specs` that nobody checks, what a pass makes."""
    assert verdict(text_of(name), tmp_path).outcome.value in {"POTENTIAL_DEADLOCK", "UNKNOWN"}


@pytest.mark.parametrize("name", ["same-branch", "same-branch-free", "same-count"])
def test_one_axis_in_the_sharding_of_the_operand_decides(name, tmp_path):
    """The same program with its operand cut is open: `[{}]` is what makes it the same."""
    text = text_of(name)
    assert "<@mesh, [{}]>]" in text
    cut = text.replace("<@mesh, [{}]>]", '<@mesh, [{"dp"}]>]')
    assert verdict(cut, tmp_path).outcome.value != "SAFE"


@pytest.mark.parametrize("name", ["same-branch", "same-count"])
def test_replicas_get_their_own_inputs(name, tmp_path):
    """A sharding is about the partitions of one replica: several may be given different inputs."""
    text = text_of(name).replace("num_replicas = 1", "num_replicas = 2")
    text = text.replace("num_partitions = 8", "num_partitions = 4").replace("@jit_", "@jit_func_")
    assert verdict(text, tmp_path).outcome.value != "SAFE"


def test_an_agreed_loop_says_so(tmp_path):
    """The ledger names the loop and what stands for any number of passes."""
    found = verdict(text_of("same-until"), tmp_path)
    ledger = {one.kind: one.message for one in found.approximations}
    assert "none, one and two passes stand for any number" in ledger["agreed-loop"]


def test_an_agreed_loop_whose_pass_is_not_safe_is_not_safe(tmp_path):
    """All devices make the same passes, but one half of them leaves the sum of a pass out."""
    text = text_of("same-count")
    assert "replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]>" in text
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if '"stablehlo.all_reduce"' in line)
    result, operand = lines[at].split(" = ")[0].strip(), lines[at].split("(")[1].split(")")[0]
    end = next(n for n in range(at, len(lines)) if lines[n].strip().startswith("}) : "))
    body = lines[at : end + 1]
    body[0] = body[0].replace(f"{result} =", "%sum =")
    skipped = [
        "%id = stablehlo.partition_id : tensor<ui32>",
        "%four = stablehlo.constant dense<4> : tensor<ui32>",
        "%low = stablehlo.compare LT, %id, %four : (tensor<ui32>, tensor<ui32>) -> tensor<i1>",
        "%pick = stablehlo.convert %low : (tensor<i1>) -> tensor<i32>",
        f'{result} = "stablehlo.case"(%pick) ({{',
        f"stablehlo.return {operand} : tensor<8x4xf32>",
        "}, {",
        *body,
        "stablehlo.return %sum : tensor<8x4xf32>",
        "}) : (tensor<i32>) -> tensor<8x4xf32>",
    ]
    broken = "\n".join([*lines[:at], *skipped, *lines[end + 1 :]])
    assert verdict(broken, tmp_path).unsafe


def test_an_array_that_two_computations_want_cut_differently_is_not_placed(tmp_path):
    """An input without a sharding takes that of its first use; the second one has to move it."""
    text = text_of("same-branch-free")
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if "sdy.manual_computation" in line)
    end = next(n for n, line in enumerate(lines) if line.startswith("    } : "))
    again = "\n".join(lines[start : end + 1]).replace("%0 =", "%again =", 1)
    again = again.replace(
        'in_shardings=[<@mesh, [{"dp"}, {"tp"}]>', 'in_shardings=[<@mesh, [{"tp"}, {}]>'
    )
    found = verdict("\n".join([*lines[: end + 1], again, *lines[end + 1 :]]), tmp_path)
    assert found.outcome.value == "UNKNOWN"
    assert "not-partitioned" in {one.kind for one in found.approximations}
