"""One finding in full: headline, place, context, reasons, what to change."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from planguard.catalog import find
from planguard.explain.context import Context
from planguard.explain.lines import Line, columns, flow, line
from planguard.explain.reasons import around
from planguard.explain.schedule import schedule_lines
from planguard.options import DEFAULT_MODEL, EAGER_BYTES, MODEL_NAMES
from planguard.words import clean, cut, listed, name_ranks, plural, rank_set, shown, size

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Edit, Finding, Location, Repair, SafeIff, Verdict

KEY = 10
"""Columns of the longest key and its colon: ``same bug:``."""
NOT_ON_GLOO = {"queue", "init", "event", "stream-edge"}
"""Reasons that a replay on gloo cannot show: it has no queues, no streams, no lazy creation."""
OBSERVED = {
    "calls", "cause", "evidence", "next", "plan", "source", "stack", "stopped", "then", "waiting",
}  # fmt: skip
"""Keys with which audits begin their notes."""
OUTCOME_FAMILIES = ("PG0", "PG1", "PG2")


def _blocks_host(name: str) -> bool:
    from planguard.semantics.model import known_model  # where a cycle is told

    model = known_model(name)
    return model is None or model.blocks_host


def headline(finding: Finding, width: int) -> list[Line]:
    """Return the first line: severity, code, and the sentence."""
    head = line((finding.severity, f"{finding.severity}[{finding.code}]"), ": ")
    return flow(head, finding.message, "strong", width=width, hang=4)


def source(place: Location) -> str:
    """Return the planner's location of an action: ``schedule.py:212 in emit_1f1b``."""
    at = place.source
    if at is None:
        return ""
    where = at.file if at.line is None else f"{at.file}:{at.line}"
    return where if at.function is None else f"{where} in {at.function}"


def plan_name(verdict: Verdict, plan: Plan | None) -> str:
    """Return what a plan is called: its file, else its name."""
    info = verdict.plan
    return info.file or (plan.file if plan else None) or info.name or "plan"


class FindingText:
    """The lines of one finding.

    Args:
        finding: The finding.
        verdict: Its verdict.
        plan: The plan, for the actions around those of the finding; None shows those alone.
        name: What the plan is called.
        tells_conditions: It is the finding that decides the outcome: conditions stand with it.
        tells_schedule: Its witness was not told before.
    """

    def __init__(
        self,
        finding: Finding,
        verdict: Verdict,
        plan: Plan | None,
        *,
        name: str,
        tells_conditions: bool,
        tells_schedule: bool = True,
    ) -> None:
        self.finding, self.verdict, self.plan, self.tells_conditions = (
            finding,
            verdict,
            plan,
            tells_conditions,
        )
        self.name, self.tells_schedule = clean(name), tells_schedule
        # What is shown and was not reached stands behind a cycle: why is asked of the model there.
        is_blocked = not finding.cycle or _blocks_host(verdict.model)
        self.context = Context(finding, plan, blocks_host=is_blocked)
        self.pad = " " * self.context.gutter

    def lines(self, width: int) -> list[Line]:
        """Return all lines, without an empty one at the end."""
        return [
            *headline(self.finding, width),
            *self._place(width),
            *self.context.lines(width),
            *self._facts(width),
            *self._help(width),
            *self._see_it(width),
            *self._told("more", f"planguard explain {self.finding.code}", width),
        ]

    def _place(self, width: int) -> list[Line]:
        """Return the arrow lines: file, rank, action, and the planner's own line."""
        at = self.finding.primary
        arrow = line(("gutter", " " * (self.context.gutter - 1) + "--> "))
        if at is None:
            return [(*arrow, ("", self.name))]
        member = "" if at.member is None else f", batch member {at.member}"
        words = [self.name, f"rank {at.rank}, action {at.action}{member}"]
        if written := source(at):
            words.append(f"({written})")
        rows = [words[0]]
        for word in words[1:]:
            if len(self.pad) + 3 + columns(rows[-1]) + 2 + columns(word) <= width:
                rows[-1] += f"  {word}"
            else:
                rows.append(word)
        return [(*arrow, ("", rows[0])), *(line(f"{self.pad}   ", row) for row in rows[1:])]

    def _told(self, key: str, text: str, width: int) -> list[Line]:
        return flow(line(("gutter", f"{self.pad}= "), ("strong", key), ": "), text, width=width)

    def _fact(self, key: str, text: str, width: int, role: str = "") -> list[Line]:
        head = line(("gutter", f"{self.pad}= "), ("strong", f"{key}:".ljust(KEY)))
        return flow(head, text, role, width=width)

    def _facts(self, width: int) -> list[Line]:
        finding = self.finding
        facts: list[tuple[str, str]] = []
        if finding.cycle and finding.subkind != "orphan":
            facts.append(("cycle", around(finding.cycle)))
        facts += [_note(note) for note in finding.notes]
        if finding.consequences:
            implied = ", ".join(map(_named_code, finding.consequences))
            facts.append(("implies", f"{implied}: what follows from this"))
        decides = finding.code.startswith(OUTCOME_FAMILIES) or finding.witness is not None
        if decides and finding.severity == "error":
            facts.append(("scope", self._scope()))
            if self.tells_conditions:
                facts += [
                    ("", f"safe iff {text}") for text in map(condition, self.verdict.safe_iff)
                ]
        if finding.equivalent:
            facts.append(("same bug", self._same()))
        if finding.related:
            facts.append(("related", ", ".join(map(_named_code, finding.related))))
        if finding.suppressed is not None:
            by, reason = finding.suppressed["by"], finding.suppressed["reason"]
            facts.append(("ignored", f"by {by}: {reason}"))
        out: list[Line] = []
        for key, text in facts:
            out += self._fact(key, text, width) if key else self._more(text, width)
        return out + self._witness(width)

    def _more(self, text: str, width: int) -> list[Line]:
        """Return a further line of the fact above."""
        return flow(line(self.pad + "  " + " " * KEY), text, width=width)

    def _scope(self) -> str:
        if self.verdict.evidence.kind == "trace" and self.finding.evidence == "T":
            return "the recorded run"
        which = {
            "all-executions": "every admissible execution",
            "some-execution": "some admissible executions",
        }.get(self.finding.certainty, "a heuristic")
        return f"{which} under model {self.verdict.model}"

    def _same(self) -> str:
        groups = self.finding.equivalent
        listed = " ".join(f"({','.join(map(str, ranks))})" for ranks in groups if len(ranks) <= 4)
        if not listed or len(groups) > 8:
            ranks = {rank for group in groups for rank in group}
            return f"{plural(len(groups), 'time')} more, on ranks {rank_set(ranks)}"
        return f"ranks {listed}, folded by symmetry"

    def _witness(self, width: int) -> list[Line]:
        witness = self.finding.witness
        if witness is None:
            return []
        stats = self.verdict.stats
        ranks = len({rank for rank, _ in witness.actions})
        text = f"{len(witness.actions):,} of {plural(stats.actions, 'action')}, "
        text += f"{ranks} of {plural(stats.ranks, 'rank')}; id {witness.id}"
        out = self._fact("witness", text + ("" if witness.minimal else "; not minimal"), width)
        if self.finding.certainty == "some-execution" and self.tells_schedule:
            out += schedule_lines(self.finding, self.plan, self.pad, width)
        return out

    def _see_it(self, width: int) -> list[Line]:
        witness = self.finding.witness
        if witness is None or not self._can_replay():
            return []
        hang = "it hang" if witness.end == "stuck" else "it"
        head = line(("gutter", f"{self.pad}= "), ("strong", f"see {hang} on real processes"), ": ")
        words = self._replay_command(witness.id)
        used = sum(columns(part) for _, part in head)
        if used + len(" ".join(words)) <= width:
            return [(*head, ("", " ".join(words)))]
        return [head, *command(words, f"{self.pad}    ", width)]

    def _can_replay(self) -> bool:
        """Tell whether real processes on gloo can show the witness."""
        file = self.verdict.plan.file or ""
        finding = self.finding
        return (
            file.endswith((".json", ".json.gz"))
            and finding.certainty == "all-executions"
            and finding.code not in {"PG011", "PG109"}
            and not NOT_ON_GLOO & {edge.why for edge in finding.cycle}
        )

    def _replay_command(self, identity: str) -> list[str]:
        file = shlex.quote(clean(self.verdict.plan.file or ""))
        words = ["planguard", "replay", file, f"--schedule {identity}"]
        own = DEFAULT_MODEL if self.plan is None or self.plan.model is None else self.plan.model
        return words if own == self.verdict.model else [*words, f"--model {self.verdict.model}"]

    def _help(self, width: int) -> list[Line]:
        finding = self.finding
        if finding.fixes:
            return [out for fix in finding.fixes for out in self._fix(fix, width)]
        if not finding.help:
            return []
        return flow(
            line(("help", "help"), ": "), f"{finding.help} (not verified)", width=width, hang=4
        )

    def _fix(self, fix: Repair, width: int) -> list[Line]:
        verified = fix.applicability == "verified"
        text = (fix.text or fix.kind) + ("" if verified else " (not verified)")
        out = flow(line(("help", "help"), ": "), text, width=width, hang=4)
        for sign, text in (row for edit in fix.edits for row in _rows(edit)):
            role = {"+": "add", "-": "remove"}.get(sign, "")
            out += flow(
                line(("gutter", f"{self.pad}| "), (role, f"{sign} ")), text, role, width=width
            )
        for row in fix.patch.splitlines():
            role = {"+": "add", "-": "remove"}.get(row[:1], "")
            out.append(line(("gutter", f"{self.pad}| "), (role, clean(row).rstrip())))
        if verified:
            out += self._told("verified", _proof(fix), width)
        return out


def _rows(edit: Edit) -> list[tuple[str, str]]:
    """Return the signs and texts of an edit; its text may bring several lines with their signs."""
    sign = {"add": "+", "remove": "-"}.get(edit.op, "~")
    rows = [clean(row) for row in (edit.text or edit.pointer).split("\n")]
    return [(row[0], row[2:]) if row[:2] in {"+ ", "- "} else (sign, row) for row in rows]


def _proof(fix: Repair) -> str:
    """Say what was proved of a repair."""
    if fix.patch:
        return "the changed program was played again, with the same samples, and is SAFE"
    named = (
        "all nine models" if len(fix.models) == len(MODEL_NAMES) else listed(fix.models or ("",))
    )
    models = f", SAFE under {named}" if fix.models else ""
    smallest = "; no single change helps" if fix.smallest and "; then " in fix.text else ""
    return f"the changed plan was checked again{models}{smallest}"


def command(words: list[str], indent: str, width: int) -> list[Line]:
    """Return a command over several lines that can be pasted into a shell."""
    rows = [indent + words[0]]
    for word in words[1:]:
        if columns(rows[-1]) + columns(word) + 3 <= width:
            rows[-1] += f" {word}"
        else:
            rows[-1] += " \\"
            rows.append(f"{indent}  {word}")
    return [line(row) for row in rows]


def _note(note: str) -> tuple[str, str]:
    """Split a note into its key and text."""
    for key, begins in (("missing", "missing participant: "), ("may", "what may happen: ")):
        if note.startswith(begins):
            return {"may": "effect"}.get(key, key), note.removeprefix(begins)
    key, separator, text = note.partition(": ")
    return (key, text) if separator and key in OBSERVED else ("note", note)


def _named_code(number: str) -> str:
    code = find(number)
    return number if code is None else f"{number} {code.name}"


def condition(safe: SafeIff) -> str:
    """Return a condition under which the plan becomes safe."""
    if safe.kind == "send-buffering":
        if safe.bytes is None:
            return "sends whose size the plan does not say are buffered (mpi-eager may do so)"
        needed = safe.bytes
        limit = EAGER_BYTES if safe.eager_bytes is None else safe.eager_bytes
        if needed <= limit:
            return f"sends of {size(needed)} are buffered (mpi-eager may do so)"
        eager = f"mpi-eager buffers at most {size(limit)}"
        return f"sends of {size(needed)} are buffered ({eager}: too little)"
    if safe.kind == "launch-order":
        groups = ", ".join(cut(clean(name)) for name in safe.groups)
        return f"the calls of groups {groups} start in one order on all ranks"
    if safe.kind == "fusion-order":
        buffers = ", ".join(cut(clean(name)) for name in safe.buffers)
        return f"the fused buffers {buffers} are flushed in one order on all ranks"
    if safe.kind == "uniform-branch":
        names = [shown(name) for name in safe.branches]
        if len(names) == 1:
            return f"the branch {names[0]} is uniform: all ranks take the same one"
        return f"the branches {listed(names)} are uniform: all ranks take the same ones"
    ranks = name_ranks(rank for rank, _ in safe.actions)
    actions = ", ".join(f"r{rank}#{action}" for rank, action in safe.actions[:6])
    return f"{actions} are posted as one batch ({ranks})"
