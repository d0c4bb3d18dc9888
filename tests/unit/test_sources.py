from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import types
import zipfile
from pathlib import Path

import pytest

import planguard
from planguard import sources
from planguard.sources import is_library, is_library_elsewhere, is_own

PACKAGE = Path(planguard.__file__).parent
SITE = "/usr/lib/python3.11/site-packages"

# What a process asks of its own installation: told by the file of a module that is really there.
ASK = """
import sys

from planguard import sources
import planguard.errors, planguard.live.state

user = sys.argv[1]
for name in ("planguard.errors", "planguard.live.state", "planguard.sources"):
    file = sys.modules[name].__file__
    code = sys.modules[name].__loader__.get_code(name)
    assert sources.is_own(file) and sources.is_library(file), file
    assert sources.is_own(code.co_filename), code.co_filename
assert not sources.is_own(user) and not sources.is_library(user), user
print(sources.beside("docs", "codes"))
"""


def ask(path: Path, user: str) -> str:
    """Ask an installation in a folder about its own files and about a file of the user's."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    command = [sys.executable, "-S", "-c", ASK, user]
    done = subprocess.run(
        command, cwd="/", env={**environment, "PYTHONPATH": str(path)}, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "place",
    [
        "target",
        "venv/lib/python3.11/site-packages",
        "planguard/site-packages/.venv/lib/python3.11/site-packages",
        "with spaces/planguard",
    ],
)
def test_an_installed_package_knows_its_own_files_and_no_others(tmp_path, place):
    """Wherever the package lies (pip --target, a virtual environment whose path has site-packages
    or planguard in it, a folder with blanks), its frames are its own and the user's are the user's,
    even beside it under site-packages, and in folders called planguard, torch or capture.
    """
    folder = tmp_path / place
    shutil.copytree(
        PACKAGE, folder / "planguard", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    for user in (
        folder / "train.py",
        folder / "mine" / "planguard" / "train.py",
        folder / "planguard_mine" / "capture" / "train.py",
        folder / "torch" / "distributed" / "train.py",
        tmp_path / "planguard" / "capture" / "recorder.py",
        tmp_path / "train.py",
    ):
        assert ask(folder, str(user)) == "None"


def test_links_and_archives_are_seen_through(tmp_path):
    """A package reached through a link, or imported from a zip file, knows its own files."""
    real = tmp_path / "real"
    shutil.copytree(PACKAGE, real / "planguard", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "link").symlink_to(real)
    assert ask(tmp_path / "link", str(tmp_path / "train.py")) == "None"
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in (real / "planguard").rglob("*.py"):
            archive.write(file, file.relative_to(real))
    assert ask(tmp_path / "all.zip", str(tmp_path / "all" / "planguard" / "train.py")) == "None"


def test_this_process_tells_libraries_by_where_they_lie():
    """torch, the standard library and what has no file are libraries; other packages, a user's
    folder called torch or site-packages, and what is typed by hand are the program.
    """
    torch = pytest.importorskip("torch")
    inside = Path(torch.__file__).parent
    for file in (
        str(inside / "nn" / "modules" / "module.py"),
        str(inside.with_name("functorch") / "compile" / "__init__.py"),
        threading.__file__,
        sys.modules["typing_extensions"].__file__,
        "<frozen importlib._bootstrap>",
        "<string>",
        "/tmp/torchinductor_me/ab/cab.py",  # noqa: S108 - a name
        str(PACKAGE / "capture" / "recorder.py"),
    ):
        assert is_library(file), file
    for file in (
        __file__,
        str(inside.parent / "transformers" / "trainer.py"),
        str(inside.with_name("torch_mine") / "train.py"),
        "/home/me/torch/distributed/train.py",
        "/home/me/site-packages/train.py",
        "/home/me/planguard/train.py",
        "<stdin>",
        "<ipython-input-3-abc>",
    ):
        assert not is_library(file), file


def test_an_answer_holds_only_for_what_it_depends_on():
    """Asked before torch is imported or a folder is named, a file is told anew afterwards."""
    pytest.importorskip("torch")
    script = (
        "import importlib.util, os\n"
        "from pathlib import Path\n"
        "from planguard.sources import is_library\n"
        "folder = Path(importlib.util.find_spec('torch').origin).parent\n"
        "file = str(folder / 'nn' / 'modules' / 'module.py')\n"
        "before = is_library(file), is_library('/data/cache/ab/cab.py')\n"
        "import torch\n"
        "os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/data/cache'\n"
        "print(*before, is_library(file), is_library('/data/cache/ab/cab.py'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "False", "True", "True"]


def test_recorded_paths_are_told_by_their_shape():
    """What another machine wrote down: torch, PlanGuard and the interpreter in any installation;
    the user's files are told from them by more than the name of one folder.
    """
    for file in (
        f"{SITE}/torch/distributed/distributed_c10d.py",
        "site-packages/torch/nn/modules/module.py",
        "torch/distributed/distributed_c10d.py",
        "/build/pytorch/torch/_dynamo/eval_frame.py",
        "/build/pytorch/torch/autograd/graph.py",
        "multiprocessing/process.py",
        "/opt/lib/python3.12/threading.py",
        f"{SITE}/planguard/capture/run/record_group.py",
        "/home/me/checkout/planguard/capture/run/record_group.py",
        "/home/me/target/planguard/live/hooks.py",
        "planguard/live/hooks.py",
        "<string>",
    ):
        assert is_library_elsewhere(file), file
    for file in (
        f"{SITE}/megatron/core/pipeline_parallel/schedules.py",
        f"{SITE}/planguard_mine/capture/record_group.py",
        "/home/me/planguard/train.py",
        "/home/me/planguard/live/train.py",
        "/home/me/torch/train.py",
        "/home/me/multiprocessing/train.py",
        "train.py",
    ):
        assert not is_library_elsewhere(file), file


def test_nothing_else_asks_where_the_source_lies():
    """`__file__`, site-packages and paths of this package occur in one module of the program."""
    planners = sources.beside("planners") or PACKAGE / "planners"
    asking = re.compile(r"__file__|site-packages|dist-packages|/planguard/|/torch/")
    found = [
        f"{file}:{number}"
        for folder in (PACKAGE, planners)
        for file in sorted(folder.rglob("*.py"))
        if file != PACKAGE / "sources.py"
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if asking.search(line)
    ]
    assert found == []


def test_own_files_are_those_of_the_package():
    """In a checkout the planners' folder is the package's own, too; the tests are not."""
    assert is_own(str(PACKAGE / "api.py"))
    assert not is_own(__file__)
    assert is_own(sys.modules["planguard.sources"].__file__)


def every_program_module():
    """What a walk over all modules finds."""
    found = [(name, sources.file_of(module)) for name, module in list(sys.modules.items())]
    return [sys.modules[name] for name, file in found if sources.is_program(file)]


def test_the_users_modules_are_those_of_a_walk_over_all(monkeypatch, tmp_path):
    """Whatever happened since the last question: modules that came, went, came again as others or
    in another order, that were made by hand and got their file later, and another place of what
    torch.compile generates.
    """

    def come(name, file=str(tmp_path / "mine.py")):
        module = types.ModuleType(name)
        if file:
            module.__file__ = file
        monkeypatch.setitem(sys.modules, name, module)
        return module

    def same():
        assert sources.program_modules() == every_program_module()

    same()
    first = come("pg_first")
    same()
    assert first in sources.program_modules()
    come("pg_second")
    by_hand = come("pg_by_hand", "")
    same()
    by_hand.__file__ = str(tmp_path / "late.py")
    same()
    assert by_hand in sources.program_modules()
    del sys.modules["pg_by_hand"]
    come("pg_between")
    come("pg_by_hand")
    same()
    del sys.modules["pg_first"]
    same()
    come("pg_first", f"{SITE}/installed.py")
    same()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    same()
    assert sys.modules["pg_second"] not in sources.program_modules()
    monkeypatch.undo()
    same()
