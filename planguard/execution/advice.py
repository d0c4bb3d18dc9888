"""Under which condition would the plan be safe, and what to change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.execution.findings.classify import Cause, make_finding
from planguard.execution.findings.help import with_advice
from planguard.execution.findings.locate import group_name
from planguard.options import EAGER_BYTES
from planguard.semantics.model import UNLIMITED, Family, buffered, lenient, strict
from planguard.verdict import Outcome, SafeIff
from planguard.words import listed, name_ranks, shown, size

if TYPE_CHECKING:
    from planguard.execution.decide import Decider, Decision


def with_help(cause: Cause) -> Cause:
    """Add the one-line advice of the finding."""
    advised = with_advice(cause.finding, cause.absent, apart=cause.apart)
    return replace(cause, finding=advised)


def name_potential(decider: Decider, decision: Decision) -> Decision:
    """Give causes that hold only at the strict end the code of what they depend on."""
    if not decision.potential:
        return decision
    needed = _least_buffering(decider) if decider.model.eager else None
    causes: list[Cause] = []
    for cause in decision.causes:
        causes.extend(_dependent(decider, decision, cause, needed))
    return replace(decision, causes=tuple(causes))


def _dependent(
    decider: Decider, decision: Decision, cause: Cause, needed: int | None
) -> list[Cause]:
    finding = cause.finding
    if finding.certainty == "some-execution" and decider.model.drops_kill:
        # Dropped handles and exits alone tell the two ends of these models apart.
        return [_left(cause) if _by_exit(decider) else _dropped(cause)]
    if finding.certainty != "some-execution" or not finding.cycle or finding.subkind != "cycle":
        return [cause]
    if decider.model.family is Family.DEVICE:
        return [cause, _launch_order(decision, cause)]
    if decider.model.eager and finding.code in {"PG001", "PG008", "PG011", "PG012"}:
        return [_buffering(cause, needed)]
    return [cause]


def _by_exit(decider: Decider) -> bool:
    """Whether an exit, without any dropped handle, takes away what a rank waits for."""
    return not decider.run(replace(strict(decider.model), poison_drops=False)).completes


def _dropped(cause: Cause) -> Cause:
    return _lost(
        cause,
        "PG308",
        "when a dropped work handle dies before its match",
        "on gloo a message is lost when its handle dies before both sides are there",
    )


def _left(cause: Cause) -> Cause:
    return _lost(
        cause,
        "PG006",
        "when its partner exits before their message has met",
        "on gloo an exiting process takes the messages with it that it did not wait for",
    )


def _lost(cause: Cause, code: str, when: str, note: str) -> Cause:
    entry = make_finding(code, "", severity="error", certainty="some-execution")
    hang = "hangs" if len(cause.finding.ranks) == 1 else "hang"
    finding = replace(
        cause.finding,
        code=entry.code,
        name=entry.name,
        severity="error",
        message=f"{name_ranks(cause.finding.ranks)} {hang} {when}",
        notes=(note,),
        related=tuple(other for other in (cause.finding.code,) if other != code),
    )
    return replace(cause, finding=finding, shape=(code, *cause.shape[1:]))


def _buffering(cause: Cause, needed: int | None) -> Cause:
    finding = cause.finding
    each = "" if needed is None or needed >= UNLIMITED else f" ({size(needed)} each)"
    renamed = make_finding(
        "PG101",
        f"relies on send buffering: {name_ranks(finding.ranks)} pass only if their sends are "
        f"buffered{each}",
        certainty="some-execution",
        severity="error",
    )
    kept = replace(
        finding,
        code=renamed.code,
        name=renamed.name,
        severity="error",
        message=renamed.message,
        related=tuple(sorted({*finding.related, finding.code})),
    )
    return replace(cause, finding=kept, shape=("PG101", *cause.shape[1:]))


def _launch_order(decision: Decision, cause: Cause) -> Cause:
    groups = listed([shown(name) for name in launch_groups(decision, cause)])
    finding = make_finding(
        "PG107",
        f"{name_ranks(cause.finding.ranks)} may have calls of {groups} in flight together, "
        "launched in different orders",
        severity="error",
        certainty="some-execution",
        ranks=cause.finding.ranks,
        primary=cause.finding.primary,
        related_actions=cause.finding.related_actions,
        subkind=cause.finding.subkind,
        related=(cause.finding.code,),
    )
    return replace(cause, finding=finding, shape=("PG107", *cause.shape[1:]))


def launch_groups(decision: Decision, cause: Cause) -> tuple[str, ...]:
    """Return the names of the groups a cause inverts."""
    from planguard.execution.findings.members import describe_match

    execution = cause.execution or decision.execution
    found = {describe_match(execution, number).ginst for number in cause.matches}
    return tuple(sorted(group_name(execution, ginst) for ginst in found if ginst is not None))


def safe_iff(decider: Decider, decision: Decision) -> tuple[SafeIff, ...]:
    """Return the conditions under which an unsafe plan becomes safe, each decided by runs."""
    if decision.outcome not in {Outcome.DEADLOCK, Outcome.POTENTIAL_DEADLOCK}:
        return ()
    if any(
        cause.finding.code.startswith("PG2") and cause.finding.code < "PG207"
        for cause in decision.causes
    ):
        return ()
    found: list[SafeIff] = []
    if decision.potential and decider.model.family is Family.DEVICE:
        names = {name for cause in decision.causes for name in launch_groups(decision, cause)}
        found.append(SafeIff("launch-order", groups=tuple(sorted(names))))
    buffering = _least_buffering(decider)
    if buffering is not None:
        eager = decider.options.eager_bytes
        usual = eager == EAGER_BYTES
        needed = None if buffering >= UNLIMITED else buffering
        found.append(SafeIff("send-buffering", bytes=needed, eager_bytes=None if usual else eager))
    return tuple(found)


def _least_buffering(decider: Decider) -> int | None:
    """Return the smallest message size whose buffering makes the strict end complete.

    Where sends do not say their size it is unlimited: no number of bytes is known to be enough.
    """
    model = decider.model
    worst = strict(model)
    if decider.run(worst).completes:
        return None
    base = worst if not model.free_launch else lenient(model, 0)
    if model.eager:
        base = worst
    if base is not worst and decider.run(base).completes:
        return None  # the launch order alone decides; no buffering is needed
    if not decider.run(buffered(base, UNLIMITED - 1)).completes:
        return None
    code = decider.plan.code
    if any(not s.kind and s.bytes is None for s in code.signatures[1:]):
        return UNLIMITED
    sizes = sorted({size for size in code.sig_bytes if size < UNLIMITED})
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        if decider.run(buffered(base, sizes[middle])).completes:
            high = middle
        else:
            low = middle + 1
    return sizes[low] if sizes else None
