"""Write the table of public problems in docs/user-cases.md: every program is asked again.

    python tests/divergence/write_table.py

A program is a row if its KIND names a thread (``A owner/repo#n``; "like" is no claim to be it).
"""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "user-cases.md"
BEGIN = "<!-- begin: python tests/divergence/write_table.py -->"
END = "<!-- end of the programs -->"
THREAD = re.compile(r"^[A-F] ([\w.-]+/[\w.-]+)#(\d+)$")


def load(path: Path) -> Any:
    """Import a program."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def programs() -> list[tuple[Path, Any, str, str]]:
    """Return the bugs that are public problems: path, module, repository, number."""
    found = []
    for path in sorted((HERE / "programs").glob("*_bug.py")):
        module = load(path)
        thread = THREAD.match(module.KIND)
        if thread:
            found.append((path, module, thread[1], thread[2]))
    return found


def head(path: Path, module: Any, repository: str, number: str) -> str:
    """Return what a row says before any check: the thread, the program, what is wrong."""
    link = f"[{repository}#{number}](https://github.com/{repository}/issues/{number})"
    return f"| {link} | `{path.stem.removesuffix('_bug')}` | {module.__doc__.strip()} |"


def answer(path: Path, module: Any) -> str:
    """Return what ``precheck`` says of a bug, and that its fix is SAFE."""
    from planguard.capture import precheck

    options: dict[str, Any] = {"model": "gloo", "on_unsafe": "return"}
    verdict = precheck(module.WORLD, samples=module.SAMPLES, **options).run(module.job)
    finding = verdict.findings[0]
    note = next(one for one in finding.notes if one.startswith("decided at "))
    line = int(re.search(r"_bug\.py:(\d+)", note)[1])  # type: ignore[index]
    source = path.read_text().splitlines()[line - 1].strip().replace("|", "\\|")
    fix = load(path.with_name(path.name.replace("_bug", "_fix")))
    fixed = precheck(fix.WORLD, samples=fix.SAMPLES, **options).run(fix.job)
    said = f"{verdict.outcome.value} {finding.code}, decided at line {line}, `{source}`"
    return f" {said} | {fixed.outcome.value} |"


def table() -> str:
    """Return the table."""
    rows = [
        "| thread | program | what is wrong | `precheck` says | the fix |",
        "|---|---|---|---|---|",
    ]
    rows += [head(*one) + answer(*one[:2]) for one in programs()]
    return "\n".join(rows)


def main() -> None:
    """Write the table into the page."""
    warnings.simplefilter("ignore")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
