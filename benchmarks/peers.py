"""PlanGuard beside other checkers, on the same plans, in one run.

    python benchmarks/peers.py                    # the rules and analyzers: half a minute
    python benchmarks/peers.py --processes        # with DETAIL on real gloo processes: minutes
    python benchmarks/peers.py --write            # and the table of docs/peers.md

Cases: the pairs of tests/corpus/bugs (a failing plan is unsafe under the first model of its
expectation, a fixed one safe), the blind spots and pipeline schedules of examples/, and the litmus
programs measured on gloo. Peers: torch's Flight Recorder analyzer (on dumps as NCCL leaves them),
TORCH_DISTRIBUTED_DEBUG=DETAIL, torch's pipelining simulator, dl2's published algorithm, XLA's
pairwise rule, and a comparison of orders.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import peers_rules as rules
import peers_torch
from peers_detail import Detail

import planguard
from planguard.execution import stuck_actions
from planguard.plan.flatten import flatten

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "corpus"
PAGE = ROOT / "docs" / "peers.md"
BEGIN, END = "<!-- begin: python benchmarks/peers.py --processes --write -->", "<!-- end -->"
RIGHT, MISSED, ALARM, SILENT = "right", "**missed**", "**false alarm**", "-"
PEERS = {
    "PlanGuard": "PlanGuard", "recorder": "Flight Recorder", "detail": "DETAIL",
    "simulator": "simulator", "dl2": "dl2's algorithm", "pairwise": "XLA pairwise",
    "order": "equal orders",
}  # fmt: skip
RESULTS = Path(__file__).parent / "results" / "peers-detail.jsonl"
PROCESSES = 4
"""Ranks of the largest plan that is played under DETAIL."""


@dataclass
class Case:
    """One plan, what is true of it, and what each tool says.

    Attributes:
        name: where it comes from.
        path: the plan file.
        model: the model under which the truth holds.
        unsafe: the truth.
        rows: its cells, of a pipeline schedule.
    """

    name: str
    path: Path
    model: str
    unsafe: bool
    rows: dict[int, list[str]] | None = None
    options: dict = field(default_factory=dict)
    says: dict[str, bool | None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)


def cases() -> list[Case]:
    """List all cases."""
    found = []
    for path in sorted((CORPUS / "bugs").glob("*.plan.json")):
        document = json.loads(path.read_text())
        name, options = path.name.removesuffix(".plan.json"), document.get("x-options", {})
        other = json.loads((path.parent / path.name.replace(".fix.", ".bug.")).read_text())
        model = next(m for m, e in other["x-expect"].items() if e["outcomes"] != ["SAFE"] or
                     "PG305" in e["codes"])  # fmt: skip
        rows = _cells(name) if name.startswith("pytorch-172668") else None
        found.append(Case(name, path, model, ".bug" in name, rows, options))
    blind = {"correct-pipeline": False}
    for path in sorted((ROOT / "examples" / "blind-spots").glob("*.plan.json")):
        name = path.name.removesuffix(".plan.json")
        found.append(Case(f"blind-spots/{name}", path, "nccl", blind.get(name, True)))
    for path in sorted((ROOT / "examples" / "pipelining").glob("*.csv")):
        with path.open() as file:
            rows = dict(enumerate([cell for cell in row if cell] for row in csv.reader(file)))
        name = f"pipelining/{path.stem}"
        found.append(Case(name, path, "nccl", path.stem != "interleaved1f1b-4x8", rows))
    for path in sorted((CORPUS / "litmus").glob("*.plan.json")):
        expected = json.loads(path.read_text())["x-expect"]
        allowed = expected.get("gloo", {}).get("outcomes", [])
        if allowed and not ({"SAFE"} < set(allowed)):
            found.append(Case(f"litmus/{path.name.removesuffix('.plan.json')}", path, "gloo",
                              "SAFE" not in allowed))  # fmt: skip
    return found


def _cells(name: str) -> dict[int, list[str]]:
    sys.path.insert(0, str(CORPUS))
    from user_cases.pipelines import DEFERRED, FRONT_LOADED

    text = DEFERRED if ".bug" in name else FRONT_LOADED
    return {rank: row.split() for rank, row in enumerate(text)}


def ask(case: Case, tool: str, question) -> None:
    """Ask a tool, and note what it says and how long it took."""
    started = time.perf_counter()
    try:
        case.says[tool] = question()
    except rules.NotApplicable as reason:
        case.says[tool], case.why[tool] = None, str(reason)
    case.seconds[tool] = time.perf_counter() - started


def ours(case: Case) -> bool:
    """Tell whether PlanGuard rejects the plan."""
    options = planguard.CheckOptions(model=case.model, **case.options)
    verdict = planguard.check(planguard.load(case.path), options=options)
    # What was measured of a litmus program is whether it ends with the right data; that a handle
    # is never waited for (PG301) is another question.
    errors = [finding for finding in verdict.errors if finding.code != "PG301"]
    return verdict.unsafe or bool(errors)


def judge(case: Case, detail: Detail | None = None) -> None:
    """Ask everybody about one case."""
    ask(case, "PlanGuard", lambda: ours(case))
    plan = planguard.load(case.path)
    flat = flatten(plan)
    ask(case, "dl2", lambda: rules.dl2(flat))
    ask(case, "pairwise", lambda: rules.pairwise(flat))
    ask(case, "order", lambda: rules.same_order(flat))
    rows = case.rows
    if rows is not None:
        ask(case, "simulator", lambda: peers_torch.simulator(rows))
    try:
        stands = stuck_actions(plan, case.model, worst=True)
        found = peers_torch.dumps(flat, dict(stands))
    except (rules.NotApplicable, planguard.PlanGuardError, AttributeError, KeyError) as reason:
        case.says["recorder"], case.why["recorder"] = None, str(reason)
    else:
        ask(case, "recorder", lambda: peers_torch.flight_recorder(found))
    if detail is not None:
        play(case, plan.world_size, detail)


def play(case: Case, world: int, detail: Detail) -> None:
    """Ask DETAIL, on real processes, where it is known what gloo does."""
    known = json.loads(case.path.read_text()) if case.path.suffix == ".json" else {}
    gloo = known.get("x-expect", {}).get("gloo", {}).get("outcomes")
    if not gloo or world > PROCESSES:
        return
    case.why["detail truth"] = "unsafe" if "SAFE" not in gloo else "safe"
    try:
        line = detail.ask(case.name, case.path)
    except rules.NotApplicable as reason:
        case.says["detail"], case.why["detail"] = None, str(reason)
        return
    case.says["detail"], case.why["detail"] = line["seen"] == "error", line["seen"]
    case.seconds["detail"] = line["seconds"]


def mark(case: Case, tool: str) -> str:
    """Say whether a tool is right about a case."""
    said = case.says.get(tool)
    if said is None:
        return SILENT
    unsafe = case.unsafe
    if tool == "detail":
        unsafe = case.why["detail truth"] == "unsafe"
        if case.why.get("detail") == "hang":
            return "**hangs**, says nothing" if unsafe else ALARM
    if said == unsafe:
        return RIGHT
    return MISSED if unsafe else ALARM


def tally(found: list[Case]) -> list[str]:
    """Count per tool: right, missed, false alarms, silent; and the time beside ours."""
    lines = ["| | asked | right | missed | false alarms | PlanGuard on the same | time of both |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for tool, title in PEERS.items():
        asked = [case for case in found if case.says.get(tool) is not None]
        if not asked:
            continue
        marks = Counter(mark(case, tool) for case in asked)
        missed = marks[MISSED] + marks["**hangs**, says nothing"]
        also = sum(mark(case, "PlanGuard") == RIGHT for case in asked)
        theirs = sum(case.seconds[tool] for case in asked)
        mine = sum(case.seconds["PlanGuard"] for case in asked)
        counts = f"{len(asked)} | {marks[RIGHT]} | {missed} | {marks[ALARM]} | {also} right"
        ratio = f"{theirs:.2f} s / {mine:.2f} s = {theirs / mine:.2f}"
        lines.append(f"| {title} | {counts} | {ratio} |")
    return lines


def table(found: list[Case]) -> list[str]:
    """One line per case outside the litmus programs."""
    lines = [
        "| case | truth | " + " | ".join(PEERS.values()) + " |",
        "|---" * (len(PEERS) + 2) + "|",
    ]
    for case in found:
        if case.name.startswith("litmus/"):
            continue
        truth = f"{'unsafe' if case.unsafe else 'safe'}, `{case.model}`"
        lines.append(
            f"| {case.name} | {truth} | " + " | ".join(mark(case, t) for t in PEERS) + " |"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", action="store_true", help="play plans under DETAIL, too")
    parser.add_argument("--timeout", type=float, default=4.0, help="seconds without progress")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all plays together")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/peers.md")
    args = parser.parse_args()
    found = [case for case in cases() if args.only in case.name]
    judge(found[0])  # imports are no part of any time
    detail = Detail(RESULTS, args.minutes, args.timeout) if args.processes else None
    for case in found:
        judge(case, detail)
    wrong = [case.name for case in found if mark(case, "PlanGuard") != RIGHT]
    text = "\n".join([*tally(found), "", *table(found)])
    print(text)
    print(f"PlanGuard is not right about: {wrong or 'none'}")
    better = [(c.name, t) for c in found for t in PEERS
              if mark(c, t) == RIGHT and mark(c, "PlanGuard") != RIGHT]  # fmt: skip
    print(f"a peer is right where PlanGuard is not: {better or 'nowhere'}")
    if args.write:
        page = PAGE.read_text()
        PAGE.write_text(f"{page.split(BEGIN)[0]}{BEGIN}\n{text}\n{END}{page.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
