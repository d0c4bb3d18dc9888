"""What an operation is stands in one place: ``planguard.plan.vocabulary``."""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path
from typing import get_args

import pytest

from planguard.operations import OperationSpec, register, unregister
from planguard.plan import nodes
from planguard.plan import vocabulary as v
from planguard.plan.actions import DTYPE_NAME, ITEM_BYTES, OPERATION_KINDS, Kind, is_collective
from planguard.plan.format import read
from planguard.semantics.model import find_model

ROOT = Path(__file__).resolve().parents[1]
BUILT_IN = {row.name for row in v.BUILT_IN}
"""Without what other tests register, which stays registered for their process."""
HOME = "planguard/plan/vocabulary.py"
ELSEWHERE = {
    "planguard/certificate/": "the checker shares nothing with what it checks",
    "planguard/plan/nodes.py": "msgspec decodes by these types; compared with the rows below",
    "planguard/execution/findings/members.py": "numbers of the kernels for sorts of matches",
}
"""Where names of operations stand in a set all the same, and why."""
NAMED = {
    frozenset(value)
    for name, value in vars(v).items()
    if (name.isupper() and isinstance(value, frozenset) and len(value) > 1) or name == "BLOCKING"
}
"""The sets of operations that have a name in the vocabulary."""


def names_in(node: ast.AST) -> set[str]:
    """The operations that a display of values, or a text of nothing but names, holds."""
    if isinstance(node, ast.Dict):
        if not any(isinstance(value, ast.Constant) for value in node.values):
            return set()  # a table of functions says what is done, not what an operation is
        held = [*node.keys, *node.values]
    elif isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        held = list(node.elts)
    elif isinstance(node, ast.MatchOr):
        held = [one.value for one in node.patterns if isinstance(one, ast.MatchValue)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = set(node.value.replace("|", " ").replace(",", " ").split())
        return words if words <= v.OPERATIONS.keys() else set()
    else:
        return set()
    texts = {one.value for one in held if isinstance(one, ast.Constant)}
    return {text for text in texts if isinstance(text, str)} & v.OPERATIONS.keys()


def written_sets(text: str) -> list[tuple[int, list[str]]]:
    """The sets of operations in a module: three or more names, or a set that has a name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names = names_in(node)
        if len(names) > 2 or names in NAMED:
            found.append((node.lineno, sorted(names)))
    return found


def modules() -> list[Path]:
    """The modules of the package; adapters map the names of their own formats."""
    return sorted((ROOT / "planguard").rglob("*.py"))


def test_a_set_of_operations_is_written_in_one_place_only():
    """No module but the vocabulary, the checker and those named above lists operations."""
    found = {}
    for path in modules():
        place = str(path.relative_to(ROOT))
        if place != HOME and not place.startswith(tuple(ELSEWHERE)):
            sets = written_sets(path.read_text(encoding="utf-8"))
            found |= {f"{place}:{line}": names for line, names in sets}
    assert found == {}, "ask planguard.plan.vocabulary, or give the rows a new column"


@pytest.mark.parametrize("place", ELSEWHERE)
def test_every_exception_is_needed(place):
    """A module that may list operations does so; else it is no exception any more."""
    paths = [path for path in modules() if str(path.relative_to(ROOT)).startswith(place)]
    assert any(written_sets(path.read_text(encoding="utf-8")) for path in paths)


@pytest.mark.parametrize(
    "text",
    [
        "X = {'send', 'recv', 'probe'}",
        "X = frozenset(['all_reduce', 'broadcast', 'scan'])",
        "X = {'isend', 'irecv'}",
        "def f(op): return op in ('wait', 'test', 'drop')",
        "X = {'gather': 1, 'scatter': 2, 'reduce': 3}",
        "X = 'send recv probe'.split()",
        "match x:\n  case 'send' | 'recv' | 'probe': pass",
    ],
)
def test_a_written_set_is_noticed(text):
    """Every way to write a set of operations down is seen."""
    assert written_sets(text)


@pytest.mark.parametrize(
    "text", ["X = {'send': f, 'recv': g, 'probe': h}", "X = {'wait', 'batch'}"]
)
def test_what_is_no_set_of_operations_is_let_be(text):
    """A table of functions, and two names that make no set of the vocabulary, are no finding."""
    assert written_sets(text) == []


def test_the_checker_and_the_oracle_know_nothing_of_it():
    """What is independent by design imports neither the vocabulary nor the numbers beside it."""
    independent = [
        *(ROOT / "planguard/certificate").glob("*.py"),
        *(ROOT / "tests/oracle").glob("*.py"),
    ]
    for path in independent:
        if path.name == "format.py":  # writes certificates, and is no part of the checker
            continue
        text = path.read_text(encoding="utf-8")
        assert "plan.vocabulary" not in text, path
        assert "plan.actions" not in text, path


def test_the_records_of_plan_files_are_the_rows():
    """Every operation of the format has a row, every row a record, and types name the same."""
    assert nodes.OP_CLASSES.keys() == v.OPERATIONS.keys()
    assert set(get_args(nodes.CoalescedName)) == v.COALESCED_KIND.keys()
    assert get_args(nodes.Dtype) == tuple(ITEM_BYTES)
    built_in = {op: nodes.OP_CLASSES[op] for op in BUILT_IN}
    collectives = {op for op, cls in built_in.items() if issubclass(cls, nodes.Collective)}
    assert collectives == v.COLLECTIVES
    messages = {op for op, cls in built_in.items() if issubclass(cls, nodes.PointToPoint)}
    assert messages == v.POINT_TO_POINT
    for op, field in v.HOLDS.items():
        assert field in nodes.OP_CLASSES[op].__struct_fields__


def test_every_kind_of_collective_belongs_to_a_row():
    """No kind of collective of the kernels is without a row, and no two rows have one kind."""
    collectives = [kind for op, kind in v.COLLECTIVE_KIND.items() if op in BUILT_IN]
    kinds = [*collectives, *v.COALESCED_KIND.values()]
    known = {kind for kind in Kind if is_collective(kind)} - set(OPERATION_KINDS)
    assert sorted(kinds) == sorted(known)


def test_the_native_kernels_count_alike():
    """Every kind that the native kernels name has the number that it has here, and no other."""
    header = (ROOT / "native/include/planguard/kinds.h").read_text(encoding="utf-8")
    pairs = re.findall(r"^  ([A-Z_]+) = (\d+),", header, re.MULTILINE)
    numbers = {name: int(number) for name, number in pairs}
    assert numbers.pop("FIRST_OPERATION") == OPERATION_KINDS[0]
    assert numbers.pop("LAST_OPERATION") == OPERATION_KINDS[-1]
    kinds = {name: number for name, number in numbers.items() if name in Kind.__members__}
    assert {name: Kind[name].value for name in kinds} == kinds
    assert {row.kind.name for row in v.BUILT_IN if row.kind} <= kinds.keys() | {"CHOICE_BEGIN"}


def test_a_name_of_another_library_means_one_operation():
    """No operator, function or number stands in two rows, and the numbers have no gaps."""
    for column in ("c10d", "functional", "nccl", "records"):
        names = [name for row in v.BUILT_IN for name in getattr(row, column)]
        assert len(names) == len(set(names)), column
    methods = [name for names in v.METHODS for name in names]
    assert len(methods) == len(set(methods))
    assert v.LOGGED[:3] == ("all_reduce", "broadcast", "reduce")  # logs that were written stay
    assert len(v.LOGGED) == 15
    assert len(v.CHAKRA) == 10


def test_every_operator_of_torch_is_known():
    """What torch's dispatcher can communicate has a row, or is known to be none of its calls."""
    torch = pytest.importorskip("torch")
    others = {"batch_p2p_ops", "check_for_nan", "wait_tensor", "_wrap_tensor_autograd"}
    for space, known in (("c10d", v.C10D), ("_c10d_functional", v.FUNCTIONAL)):
        every = torch._C._dispatch_get_all_op_names()
        names = [name.partition("::")[2] for name in every if name.startswith(f"{space}::")]
        assert names, "torch is built without torch.distributed"
        assert {name.partition(".")[0] for name in names} - known.keys() - others == set()


def test_a_registered_operation_has_a_row_like_any_other():
    """Registering adds a row, another spelling has that of its original, forgetting removes it."""
    for spec, like in (
        (OperationSpec(name="swap_halves", agree=("bytes",)), None),
        (OperationSpec(name="share_out", degree="root"), None),
        (OperationSpec(name="spread", spelling="broadcast"), "broadcast"),
    ):
        register(spec)
        row = v.OPERATIONS[spec.name]
        assert row.family is v.Family.COLLECTIVE
        assert v.takes_round(spec.name)
        assert row.kind == v.COLLECTIVE_KIND[spec.name]
        if like is None:
            assert (row.degree, row.agree) == (spec.degree, spec.agree)
        else:
            assert (row.kind, row.degree, row.same) == (Kind.BROADCAST, "root", like)
        unregister(spec.name)
        assert spec.name not in v.OPERATIONS


def test_sizes_are_those_of_the_compiled_plan():
    """The bytes that an action says are the bytes that its signature has, however it says them."""
    rng = random.Random(7)
    tensors = {"w": {"shape": [3, 5], "dtype": "i64"}}
    for _ in range(60):
        dtype = rng.choice(DTYPE_NAME[1:])
        fields = rng.choice(
            [
                {"bytes": rng.randrange(99)},
                {"count": rng.randrange(99), "dtype": dtype},
                {"shape": [rng.randrange(5), rng.randrange(5)], "dtype": dtype},
                {"shape": [], "dtype": dtype},
                {"tensor": "w"},
                {},
            ]
        )
        action = {"op": "all_reduce", **fields}
        document = {
            "schema": "planguard.plan/1", "world_size": 1, "tensors": tensors,
            "ranks": {"0": {"actions": [action]}},
        }  # fmt: skip
        (signature,) = [one for one in read(document).code.signatures if one.kind]
        assert v.bytes_of(action, tensors) == signature.bytes


def test_the_models_that_have_an_operation_are_those_that_are_mpi():
    """What only MPI has is left open under every other model."""
    assert {row.name for row in v.MPI_ONLY} == {"probe", "scan", "exscan"}
    assert find_model("mpi-pg").is_mpi
    assert not find_model("gloo").is_mpi
