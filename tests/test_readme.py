"""The README and the documentation under test; ``--update`` writes the transcripts anew.

A reader copies the blocks of a page from its top to its end, and so do the tests: nothing that a
page does not show is supplied. In a fenced ``console`` block, every ``$ planguard ...`` line is run
and what it prints is compared with the lines below it, times aside. A fenced ``pycon`` block is a
doctest, a ``python`` block a program. A fenced ``sh`` block is a script, ended by the first command
that fails; ``<!-- exits: N -->`` says that it ends with N. What cannot run here says why:
``<!-- not run: REASON -->``. The files a page tells its reader to save stand behind a comment
``<!-- file: NAME -->``. Each page has a folder of its own to run in, with ``examples/`` in it.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import planguard
from planguard import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    # The pages of the codes are installed with the package and have their own test.
    if "codes" not in path.relative_to(ROOT).parts
]
FOLLOWED = pytest.mark.wheel
"""The mark of a page that people follow step by step: it is tried with the installed wheel."""
SHOWN = pytest.mark.skipif(
    "PLANGUARD_INSTALLED_WHEEL" in os.environ, reason="tried beside the source"
)
"""The mark of a page whose examples need no installation to be tried in."""
EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "planguard").rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
]
FENCE = re.compile(
    # A comment belongs to the block right behind it: it holds no end of a comment.
    r"(?:<!-- (?:file: (?P<file>\S+)|not run: (?P<why_not>(?:(?!-->).)*?)|exits: (?P<exits>\d+))"
    r" -->\n)?"
    r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
INSTALLED = re.compile(r"^(pip install .*?(?: && |$))?(pytest( -[mn] .*)?$)?", re.MULTILINE)
"""Commands that a test run has behind it: ``.ci/run`` runs them on a clean clone."""
NAME = re.compile(r"`(\w+)").findall
SECONDS = 300
"""The most that a command may take: seconds on an idle machine, minutes on one with other work."""
PATIENT = pytest.mark.timeout(2 * SECONDS)
"""The mark of tests that run the commands of a page one after the other."""
ECHO_CODE = "echo $?"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        kind: The word behind the fence.
        body: What is between the fences.
        file: Where the reader saves it, or None.
        why_not: Why it is not run.
        exits: The exit code that its commands end with.
        span: Where the body is in the page.
    """

    kind: str
    body: str
    file: str | None
    why_not: str
    exits: int
    span: tuple[int, int]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            found["kind"], found["body"], found["file"], found["why_not"] or "",
            int(found["exits"] or 0), found.span("body"),
        )
        for found in FENCE.finditer(text)
    ]  # fmt: skip


def save(block: Block, folder: Path) -> None:
    """Do as a reader who is told to save a block."""
    if block.file is not None:
        (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.file).write_text(block.body, encoding="utf-8")


def paste(block: Block, folder: Path) -> None:
    """Run the commands of a block, which have to end as it says."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", INSTALLED.sub("", block.body)],
        cwd=folder, env=terminal(), capture_output=True, text=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == block.exits, block.body + done.stdout + done.stderr


def is_transcript(block: Block) -> bool:
    """Whether a block shows the command line at work."""
    return block.kind == "console" and block.body.startswith("$ planguard ")


def prepare(folder: Path) -> None:
    """Give a page the files that a reader in a checkout has."""
    for name in ("examples", "README.md", "tests"):
        if (ROOT / name).exists() and not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)


def terminal() -> dict[str, str]:
    """The environment of a reader's terminal."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONUNBUFFERED": "1",  # stdout and stderr in the order of a terminal
        "COLUMNS": "80",
        "NO_COLOR": "1",
    }


def replay(body: str, folder: Path) -> str:
    """Run the commands of a transcript and return the transcript as it is today."""
    environment = terminal()
    shown: list[str] = []
    code = 0
    for command in re.findall(r"^\$ (.*)$", body, re.MULTILINE):
        shown.append(f"$ {command}\n")
        if command == ECHO_CODE:
            shown.append(f"{code}\n")
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        code = done.returncode
        shown.append(done.stdout)
    return "".join(shown)


def normalize(text: str) -> str:
    """Hide what may differ between two runs: durations, and blanks at the ends of lines."""
    text = re.sub(r"\b\d[\d,]*(\.\d+)? ?(s|ms|us|µs)\b", "<time>", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def name_of(page: Path) -> str:
    """A page's path inside the repository."""
    return str(page.relative_to(ROOT))


def marked(pages: list[Path]) -> list[object]:
    """Pages as parameters of a test: each is tried in one of two places."""
    shown = {"planners", "explanation", "reference", "adr"}
    return [
        pytest.param(
            page,
            id=name_of(page),
            marks=FOLLOWED if shown.isdisjoint(page.relative_to(ROOT).parts) else SHOWN,
        )
        for page in pages
    ]


@PATIENT
@pytest.mark.parametrize("page", marked(PAGES))
def test_the_commands_of_a_page_do_what_it_shows(page, tmp_path):
    """In the order of the page and in one folder, each console transcript is what its commands
    print today, times aside, and each script ends as the page says.
    """
    prepare(tmp_path)
    for block in blocks(page.read_text(encoding="utf-8")):
        save(block, tmp_path)
        if is_transcript(block):
            assert normalize(replay(block.body, tmp_path)) == normalize(block.body)
        elif block.kind == "sh" and not block.why_not:
            paste(block, tmp_path)


@pytest.mark.parametrize("page", marked(PAGES))
def test_every_interactive_example_is_true(page, tmp_path, monkeypatch):
    """Each interactive Python example of a page prints what the page says."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        save(block, tmp_path)
        if block.kind == "pycon":
            test = doctest.DocTestParser().get_doctest(block.body, names, name_of(page), None, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            assert runner.failures == 0, "".join(report)
            names = test.globs


def programs(page: Path) -> list[Block]:
    """The Python blocks of a page that are no sessions."""
    return [one for one in blocks(page.read_text(encoding="utf-8")) if one.kind == "python"]


CLUSTERS = ("ray", "dask")


@PATIENT
@pytest.mark.parametrize("page", marked([page for page in PAGES if programs(page)]))
def test_every_python_block_runs(page, tmp_path):
    """The Python blocks of a page run one after the other. A block that needs what no test machine
    has says so in front of it, and compiles.
    """
    prepare(tmp_path)
    for block in blocks(page.read_text(encoding="utf-8")):
        save(block, tmp_path)
    parts = programs(page)
    for part in parts:
        compile(part.body, name_of(page), "exec")
    text = "\n".join(part.body for part in parts if not part.why_not)
    (tmp_path / "page.py").write_text(text, encoding="utf-8")
    for name in CLUSTERS:
        if re.search(rf"^\s*(?:from|import) {name}\b", text, re.MULTILINE):
            pytest.importorskip(name, reason="it comes with the extra test-all")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "page.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def left_out(page: Path) -> list[Block]:
    """The blocks of a page that a reader may paste into a terminal and that no test runs."""
    return [
        block
        for block in blocks(page.read_text(encoding="utf-8"))
        if (block.kind == "sh" and block.why_not)
        or (block.kind in ("", "text") and re.search(r"^\$ planguard ", block.body, re.MULTILINE))
    ]


@pytest.mark.parametrize("page", marked([page for page in PAGES if left_out(page)]))
def test_what_is_not_run_could_be(page):
    """Blocks that are not run say why, their command lines are accepted, and the benchmarks that
    they name exist.
    """
    for block in left_out(page):
        assert block.why_not, f"a transcript that nothing runs:\n{block.body}"
        body = re.sub(r"\\\n *", " ", block.body)
        for line in re.findall(r"^(?:\$ )?planguard (.*)", body, re.MULTILINE):
            words = shlex.split(line, comments=True)
            cli._parser(words[0])[0].parse_args(words)
        for name in re.findall(r"^python ((?:benchmarks|tests/campaigns)/\S+)", body, re.MULTILINE):
            assert (ROOT / name).exists()


@pytest.mark.parametrize("module", EXAMPLES)
def test_every_docstring_example_is_true(module):
    """Each interactive example in the docstrings of a module prints what it says."""
    tried = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert tried.attempted > 0
    assert tried.failed == 0


def test_every_transcript_marker_has_its_transcript():
    """A marker <!-- transcript:NAME --> is followed at once by a transcript of the command line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = re.findall(r"<!-- transcript:(\S+) -->\n+(.{0,24})", text, re.DOTALL)
    assert [name for name, after in marked if not after.startswith("```console\n$ planguard")] == []


def test_the_readme_opens_with_two_commands():
    """The README opens with its title, one sentence, a picture, and a block of two commands: the
    main job, then the tests.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.match(r"# PlanGuard\n\n[^\n]+\.\n\n!\[[^]]+\]\(docs/pictures/\S+\)\n\n```sh\n", text)
    first = blocks(text)[0]
    commands = first.body.splitlines()
    assert first.kind == "sh"
    assert len(commands) == 2
    assert re.fullmatch(r"pip install \. && planguard check examples/\S+.*", commands[0])
    assert commands[1] == ('pip install -e ".[test]" && pytest -m "not slow" -n 3 --dist loadfile')


def test_no_link_inside_the_documentation_is_broken():
    """Every relative link of a page leads to a file of the repository."""
    broken = [
        f"{name_of(page)} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_import_that_a_page_shows_is_there(page):
    """Each ``from planguard... import ...`` of a page, also in a block that is not run and in a
    command, names a module and what is in it.
    """
    text = page.read_text(encoding="utf-8")
    for module, names in re.findall(r"\bfrom (planguard(?:\.\w+)*) import ([\w, ]+)", text):
        for name in re.findall(r"\w+", names.partition(" as ")[0]):
            if not hasattr(importlib.import_module(module), name):
                importlib.import_module(f"{module}.{name}")


def slug(heading: str) -> str:
    """The anchor of a heading, as the pages of a repository are shown."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def test_every_anchor_exists():
    """Every link to a heading leads to a heading of that page."""
    broken = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
            goal = page if not target else (page.parent / target).resolve()
            headings = re.findall(r"^#+ (.*)$", goal.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor not in map(slug, headings):
                broken.append(f"{name_of(page)} -> {target}#{anchor}")
    assert broken == []


LISTS = ("adr", "upstream")
"""Folders whose README is the list of their pages."""


def test_the_index_lists_every_page():
    """docs/index.md links every page of the documentation, decisions and reports by their lists."""
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / target).resolve()
        for target in re.findall(r"\]\(([^)#\s]+)", index.read_text(encoding="utf-8"))
    }
    listed = [page for page in PAGES[1:] if page != index and page.parent.name not in LISTS]
    assert [name_of(page) for page in listed if page not in linked] == []


def test_every_page_is_linked():
    """Every page of the documentation is linked from another page."""
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    }
    assert [name_of(page) for page in PAGES[1:] if page not in linked] == []


def test_the_reference_names_what_is_public():
    """docs/reference/library.md has a heading for each public name of the package, and no other."""
    text = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
    listed = {name for line in re.findall(r"^### (.*)$", text, re.MULTILINE) for name in NAME(line)}
    assert listed == set(planguard.__all__)


def test_transcripts_are_those_of_80_columns():
    """No page shows a transcript wider than a terminal of 80 columns, but for what a terminal
    cannot break: the commands, the paths and the lines of a table.
    """
    assert terminal()["COLUMNS"] == "80"
    free = re.compile(
        r"^(\$ |wrote |usage: |.*\S{40}| +\(\S+:\d+ |[\w./-]+(:rank\d+)?(:\d+)?: |.* {2,}#)"
    )
    wide = [
        f"{name_of(page)}: {line}"
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if is_transcript(block)
        for line in block.body.splitlines()
        if len(line) > 80 and not free.match(line)
    ]
    assert wide == []


def test_pages_are_below_300_lines():
    """A page has one purpose and fewer than 300 lines."""
    lengths = {name_of(page): page.read_text(encoding="utf-8").count("\n") for page in PAGES}
    assert {name: n for name, n in lengths.items() if n >= 300} == {}


def test_a_wrong_transcript_is_noticed(tmp_path):
    """A transcript whose output differs from the real one is not equal to its replay."""
    body = "$ planguard --version\nplanguard 99.0\n$ echo $?\n0\n"
    assert normalize(replay(body, tmp_path)) != normalize(body)
    assert replay(body, tmp_path).endswith("$ echo $?\n0\n")


def update() -> None:
    """Write every transcript of every page anew."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        with TemporaryDirectory() as name:
            folder = Path(name)
            prepare(folder)
            pieces: list[str] = []
            end = 0
            for block in blocks(text):
                save(block, folder)
                if block.kind == "sh" and not block.why_not:
                    paste(block, folder)
                if is_transcript(block):
                    new = replay(block.body, folder)
                    if "internal error[PG999]" in new:
                        raise SystemExit(f"{name_of(page)}: not written, a command fails\n{new}")
                    if normalize(new) != normalize(block.body):
                        pieces += [text[end : block.span[0]], new]
                        end = block.span[1]
            pieces.append(text[end:])
        if "".join(pieces) != text:
            page.write_text("".join(pieces), encoding="utf-8")
            print(f"updated {name_of(page)}")


if __name__ == "__main__" and "--update" in sys.argv:
    update()
