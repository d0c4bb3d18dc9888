"""Write the plans of bugs/ and the table of docs/user-cases.md from user_cases/.

Run it without arguments after a change; a test compares its output with the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from user_cases.table import CASES  # noqa: E402
from user_cases.words import BLAME, Case, Pair, url  # noqa: E402

import planguard  # noqa: E402
from planguard.plan.pointers import step  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

BUGS = HERE / "bugs"
PAGE = HERE.parents[1] / "docs" / "user-cases.md"
BEGIN = "<!-- begin: python tests/corpus/write_user_cases.py -->"
END = "<!-- end -->"


def _marked(node: Any, path: str) -> Iterator[str]:
    """Give the paths of marked actions, and take the marks out."""
    if isinstance(node, dict):
        if node.pop(BLAME, False):
            yield path
        for key, value in node.items():
            yield from _marked(value, step(path, key))
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from _marked(value, f"{path}[{place}]")


def with_blame(document: dict[str, Any]) -> tuple[dict[str, Any], list[list[int]]]:
    """Give the document without marks, and rank and flat index of every marked action."""
    document = json.loads(json.dumps(document))
    paths = set(_marked(document["ranks"], "$.ranks"))
    if not paths:
        return document, []
    plan = planguard.load(document)
    places = [
        [rank, index]
        for rank in range(plan.world_size)
        for index in range(plan.length(rank))
        if plan.location(rank, index).pointer in paths
    ]
    if not places:
        raise ValueError(f"no action at {sorted(paths)}")
    return document, places


def documents(case: Case, pair: Pair) -> dict[str, dict[str, Any]]:
    """Give both plans of a pair by file name."""
    bug, places = with_blame(pair.bug())
    expect = {
        model: {"outcomes": allowed, "codes": list(pair.codes), "blamed": places}
        for model, allowed in pair.outcomes.items()
    }
    if pair.safe_iff:
        first = next(m for m, allowed in pair.outcomes.items() if allowed != ["SAFE"])
        expect[first]["safe_iff"] = pair.safe_iff
    about = {"x-thread": url(pair.thread), "x-cause": case.cause}
    options = {"x-options": pair.check} if pair.check else {}
    ends = {
        "bug": {**bug, **about, **options, "x-expect": expect},
        "fix": {
            **pair.fix(),
            **about,
            **options,
            "x-expect": {model: {"outcomes": ["SAFE"]} for model in pair.safe},
        },
    }
    return {
        f"{pair.name}.{end}.plan.json": {"schema": plan["schema"], "name": f"{pair.name}.{end}"}
        | plan
        for end, plan in ends.items()
    }


def render(plan: dict[str, Any]) -> str:
    """Write a plan as text with one action per line."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def program(body: dict[str, Any]) -> str:
        actions = ",\n".join("   " + line(action) for action in body["actions"])
        return '{"actions": [' + (f"\n{actions}]}}" if actions else "]}")

    parts = []
    for key, value in plan.items():
        if key == "ranks":
            programs = [f"  {line(rank)}: {program(body)}" for rank, body in value.items()]
            parts.append(' "ranks": {\n' + ",\n".join(programs) + "}")
        else:
            parts.append(f" {line(key)}: {line(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def files() -> dict[str, str]:
    """Give the text of every plan file, by name."""
    return {
        name: render(document)
        for case in CASES
        for pair in case.pairs
        for name, document in documents(case, pair).items()
    }


def table() -> str:
    """Give the table of all rows."""
    lines = ["| # | threads | root cause, as the threads state it | caught |", "|---|---|---|---|"]
    for case in CASES:
        threads = ", ".join(f"[{thread}]({url(thread)})" for thread in case.threads)
        said = [_answer(pair) for pair in case.pairs]
        caught = f"**{case.catch}**" + (": " + "; ".join(said) if said else "")
        lines.append(
            f"| {case.number} | {threads} | {case.cause} | {caught}. {case.why}".rstrip() + " |"
        )
    return "\n".join(lines)


def _answer(pair: Pair) -> str:
    """Say what PlanGuard answers to a pair, under the first model with an expectation."""
    document = json.loads((BUGS / f"{pair.name}.bug.plan.json").read_text("utf-8"))
    model = next(m for m, allowed in pair.outcomes.items() if m.startswith(("nccl", "gloo")))
    options = planguard.CheckOptions(model=model, **document.get("x-options", {}))
    verdict = planguard.check(planguard.load(document), options=options)
    code = verdict.errors[0].code
    return f"`{pair.name}` {verdict.outcome.value} under `{model}`, {code}"


def page(text: str) -> str:
    """Give the page with the table renewed."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the files and the table."""
    BUGS.mkdir(exist_ok=True)
    for name, text in files().items():
        (BUGS / name).write_text(text, "utf-8")
    if PAGE.exists():
        PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
