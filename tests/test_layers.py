"""The walls of the house: who may import whom, what an import costs, how large a room may be."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path for folder in ("planguard", "planners") for path in (ROOT / folder).rglob("*.py")
)
HEAVY = ("torch", "z3", "networkx", "numpy", "msgspec", "rich", "hypothesis")


def path_in_repository(path: Path) -> str:
    """A short test id."""
    return str(path.relative_to(ROOT))


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts on the sources in a folder, wherever the package is installed."""
    # -S keeps the editable redirect away from a copy; the tool itself comes in by its path.
    script = (
        f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path += {sys.path!r}; "
        "from importlinter.cli import lint_imports_command; lint_imports_command()"
    )
    return subprocess.run(
        [sys.executable, "-S", "-c", script, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def house(tmp_path):
    """A copy of the sources with planners where it is once installed."""
    skip = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "planguard", tmp_path / "planguard", ignore=skip)
    shutil.copytree(ROOT / "planners", tmp_path / "planguard" / "planners", ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_go_downward_only(house):
    """Every import of the package keeps the contracts of pyproject.toml."""
    done = lint_imports(house)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("planguard/plan/columns.py", "import planguard.engine"),
        ("planguard/engine.py", "import planguard.planners"),
        ("planguard/planners/__init__.py", "import planguard.engine"),
        ("planguard/engine.py", "import z3"),
        ("planguard/engine.py", "import networkx"),
        ("planguard/plan/columns.py", "import torch"),
        ("planguard/newcomer.py", "import planguard.errors"),
    ],
)
def test_a_forbidden_import_is_noticed(house, module, line):
    """Each contract reports an import that breaks it, and a new part without a layer."""
    with (house / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    done = lint_imports(house)
    assert done.returncode != 0, done.stdout
    assert "BROKEN" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("statement", ["import planguard", "import planguard.cli"])
def test_importing_the_package_imports_nothing_heavy(statement):
    """Importing planguard, or its command line, loads none of its heavy dependencies."""
    script = f"{statement}; import sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""


@pytest.fixture(scope="module")
def trees():
    """The syntax tree of every module of the package and the adapters, by path."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def test_torch_is_imported_inside_functions_only(trees):
    """No module of the package or the adapters imports torch, z3 or networkx at its top level."""
    outside = [
        (path_in_repository(path), name)
        for path, tree in trees.items()
        for node in tree.body
        for name in imported(node)
        if name.partition(".")[0] in {"torch", "z3", "networkx"}
    ]
    assert outside == []


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports, and the names that may be modules."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def test_native_code_is_behind_the_kernels(trees):
    """Only planguard.kernels imports the extension module, at any depth of any function."""
    uses = {
        path_in_repository(path)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if any(name.startswith("planguard._native") for name in imported(node))
    }
    assert uses == {"planguard/kernels/__init__.py"}


def test_records_are_made_behind_a_lock(trees):
    """Two threads that first decode one kind of record at once crash the interpreter."""
    uses = {
        path_in_repository(path)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) == "msgspec.convert")
        or (
            isinstance(node, ast.keyword) and node.arg == "type" and "Document" in ast.unparse(node)
        )
    }
    assert uses == {"planguard/records.py"}


@pytest.mark.parametrize(
    "name",
    [
        "agreement",
        "turns",
        "checker",
        "blocks",
        "threads",
        "orders",
        "refutation",
        "picks",
        "buffers",
        "flushes",
        "cases",
        "verify",
    ],
)
def test_the_certificate_checker_needs_the_standard_library_only(name):
    """A module of the checker imports the standard library and the modules of the checker, of
    which ``agreement.py``, ``turns.py`` and ``checker.py`` are the first.
    """
    path = ROOT / "planguard" / "certificate" / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    names = [name for node in ast.walk(ast.parse(text)) for name in imported(node)]
    relative = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    others = [n for n in names if n.partition(".")[0] not in sys.stdlib_module_names]
    own = "planguard.certificate"
    base = f"{own}.agreement"
    first = {"agreement": (), "turns": (base,), "checker": (base, f"{own}.turns")}
    assert all(n.startswith(first.get(name, (own,))) for n in others)
    assert relative == []


def test_rooms_stay_small(trees):
    """A module is one idea: above 400 lines its docstring says why. No function is above 80."""
    long = [
        f"{path_in_repository(path)}: {node.name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or node.lineno) - node.lineno >= 80
    ]
    large = [
        path_in_repository(path)
        for path, tree in trees.items()
        if len(path.read_text(encoding="utf-8").splitlines()) > 400
        and "Above 400 lines:" not in (ast.get_docstring(tree) or "")
    ]
    assert long == []
    assert large == []


def test_docstrings_name_pages_that_exist(trees):
    """Every page of the documentation that the source names is there."""
    gone = [
        f"{path_in_repository(path)}: {page}"
        for path in trees
        for page in re.findall(
            r"(?<![\w./])docs/(?:adr|codes|explanation|how-to|planners|reference|tutorial)/[\w-]+\.md",
            path.read_text(encoding="utf-8"),
        )
        if not (ROOT / page).exists()
    ]
    assert gone == []


def test_adapters_have_one_name_only():
    """Importing the adapters as planners instead of planguard.planners is refused."""
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import planners"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert "import planguard.planners, not planners" in done.stderr


def rooms_of(package: str) -> dict[str, set[str]]:
    """The rooms of a package, its folders and the modules beside them, and whom each imports.

    Without a name: the parts of PlanGuard itself, but for the package, which names them all.
    """
    base = ROOT / "planguard" / package
    found: dict[str, set[str]] = {}
    for path in sorted(base.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        if parts == ("__init__",):
            continue
        room = found.setdefault(parts[0], set())
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {name for node in ast.walk(tree) for name in imported(node)}
        own = f"planguard.{package}." if package else "planguard."
        room |= {name.removeprefix(own).split(".")[0] for name in names if name.startswith(own)}
    return {room: (targets & found.keys()) - {room} for room, targets in found.items()}


def reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    """The rooms that a room imports, itself or through others."""
    todo, seen = [start], set()
    while todo:
        for target in arrows[todo.pop()] - seen:
            seen.add(target)
            todo.append(target)
    return seen


@pytest.mark.parametrize(
    "package",
    sorted(path.name for path in (ROOT / "planguard").iterdir() if (path / "__init__.py").exists()),
)
def test_no_circle_crosses_a_folder(package):
    """No folder of a package is in a circle of imports, those for annotations included."""
    arrows = rooms_of(package)
    folders = {path.parent.name for path in (ROOT / "planguard" / package).glob("*/__init__.py")}

    assert [room for room in sorted(folders & arrows.keys()) if room in reached(room, arrows)] == []


def test_no_circle_crosses_a_part():
    """No part of PlanGuard is in a circle of imports, be it for annotations alone."""
    arrows = rooms_of("")
    assert {"verdict", "errors", "plan", "engine"} <= arrows.keys()
    assert [part for part in sorted(arrows) if part in reached(part, arrows)] == []


def test_a_verdict_is_data():
    """A verdict imports nothing of PlanGuard but the table of what its methods call."""
    assert rooms_of("")["verdict"] == {"views"}
    assert rooms_of("")["views"] == set()
