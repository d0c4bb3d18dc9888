"""``planguard explain``: the page of a code, the list of codes, or a saved result in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.catalog import CATALOG, find, lookup
from planguard.errors import PlanError, UsageError, shorten
from planguard.explain.codes import code_json, list_text, page
from planguard.files import refuse_special

if TYPE_CHECKING:
    import argparse

    from planguard.verdict import Finding, Verdict


_EPILOG = """\
examples:
  planguard explain PG001                 the page of a code: what, why, example, how to fix
  planguard explain p2p-deadlock          the same, by name
  planguard explain result.json           a saved result (check --format json) in words
"""


class Explain:
    """The command; see ``planguard explain --help``."""

    name = "explain"
    help = "Print what a finding code means, or explain a saved result."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        parser.add_argument(
            "what",
            nargs="?",
            metavar="CODE|RESULT.json",
            help="a code (PG001), its name (p2p-deadlock), or a result of check --format json",
        )
        parser.add_argument("--list", action="store_true", help="print all codes")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print the explanation.

        Raises:
            UsageError: Unknown code, or a file that is not a result.
        """
        as_json = args.format == "json"
        if args.list:
            rows = [code_json(code) for code in CATALOG.values()]
            print(_dump(rows) if as_json else list_text(), end="")
        elif args.what is None:
            raise UsageError(
                "explain needs a code or a result file",
                hint="`planguard explain PG001`, or `planguard explain --list` for all codes",
            )
        elif find(args.what) is None and _is_file(args.what):
            documents = _read_documents(args.what)
            print(_dump(documents) if as_json else _explain_all(documents), end="")
        else:
            shown = page(lookup(args.what).number)
            print(_dump(shown.to_json()) if as_json else shown.plain, end="")
        return 0


def _dump(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _is_file(what: str) -> bool:
    return what.endswith((".json", ".jsonl")) or Path(what).exists()


def _read_documents(path: str) -> list[dict[str, Any]]:
    """Read one result, an array of results, or one result per line."""
    refuse_special(path)
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    try:
        if path.endswith(".jsonl"):
            loaded: Any = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            loaded = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{shorten(path)} is not JSON: {shorten(str(error))}",
            hint="write results with `planguard check PLAN --format json > RESULT.json`",
        ) from None
    return loaded if isinstance(loaded, list) else [loaded]


def _explain_all(documents: list[dict[str, Any]]) -> str:
    from planguard.result import verdict_from_json  # only a saved result needs msgspec

    blocks = []
    for document in documents:
        try:
            blocks.append(_explain(verdict_from_json(document)))
        except PlanError as error:
            # The saved answer is that the plan could not be read: say it, do not fail.
            blocks.append(f"not read: {error}\n{_page_line(error.code)}")
    return "\n".join(blocks)


def _explain(verdict: Verdict) -> str:
    name = verdict.plan.file or verdict.plan.name or "plan"
    lines = [f"{_clean(name)}: {verdict.outcome.value} under model {_clean(verdict.model)}\n"]
    for finding in verdict.findings:
        lines.append(f"\n{finding.severity}[{finding.code}]: {_clean(finding.message)}\n")
        lines.extend(f"  {line}\n" for line in _details(finding))
        lines.append(_page_line(finding.code))
    lines.extend(f"\nopen: {_clean(reason)}\n" for reason in verdict.reasons)
    if verdict.proved:
        lines.append(f"\nproved: {', '.join(verdict.proved)}\n")
    lines.append(f"verdict: {verdict.outcome.value}   model {_clean(verdict.model)}\n")
    return "".join(lines)


def _details(finding: Finding) -> list[str]:
    details = []
    if finding.primary is not None:
        at = finding.primary
        source = at.source
        where = f" ({source.file}:{source.line})" if source is not None and source.line else ""
        details.append(f"--> rank {at.rank}, action {at.action}{where}")
    for edge in finding.cycle:
        goal = edge.waits_for
        free = f"rank {goal.rank} action {goal.action}" if goal is not None else "a call never made"
        details.append(f"rank {edge.at.rank} action {edge.at.action} waits for {free}: {edge.why}")
    if finding.witness is not None:
        details.append(f"witness {finding.witness.id}: {len(finding.witness.steps)} steps")
    if finding.help:
        details.append(f"help: {finding.help}")
    return [_clean(detail) for detail in details]


def _page_line(number: str) -> str:
    code = find(number)
    name = f" ({code.name})" if code is not None else ""
    return f"  page: planguard explain {_clean(number)}{name}\n"


def _clean(text: str) -> str:
    """Escape control characters and bidirectional marks: names are untrusted."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
