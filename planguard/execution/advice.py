"""Under which condition would the plan be safe, and what to change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.execution.classify import Cause, make_finding
from planguard.execution.locate import group_name
from planguard.semantics.model import UNLIMITED, Family, buffered, lenient, strict
from planguard.verdict import Outcome, SafeIff
from planguard.words import name_ranks

if TYPE_CHECKING:
    from planguard.execution.decide import Decider, Decision

HELP = {
    "PG001": "post both directions as one batch, or make one side receive first",
    "PG002": "let all ranks enter the collectives of a group in one order",
    "PG003": "move the point-to-point action to the same side of the collective on all ranks",
    "PG004": "use the groups in the same order on every rank they share",
    "PG005": "remove one of the stream edges, or record the event before it is waited for",
    "PG006": "let every rank take part until the last action that needs it, then leave",
    "PG007": "add the missing call, or leave the rank out of the group",
    "PG008": "move the wait behind the action that its partner needs",
    "PG009": "give every rank the same number of barriers",
    "PG011": "put sends and receives that wait for each other into one batch",
    "PG012": "post receive and send of neighboring stages as one batch, or swap them on one stage",
    "PG013": "issue the communication that the dependency needs before the action that waits for it",
    "PG101": "do not rely on buffering: post both directions as one batch",
    "PG107": "issue collectives of overlapping groups in one order on all ranks, or chain them",
    "PG109": "create communicators eagerly, or first use them in one order on all ranks",
    "PG201": "make all members of the group issue the same collective in this round",
    "PG202": "use one size on both sides",
    "PG203": "use one dtype on all members",
    "PG204": "use one reduce operation on all members",
    "PG205": "use one root on all members",
    "PG206": "make what each rank sends equal to what its peer expects",
    "PG207": "use one tag on both sides",
    "PG208": "add the matching receive, or remove the send",
    "PG209": "add the matching send, or remove the receive",
    "PG210": "add the partner of the asynchronous action, or remove it",
    "PG212": "issue the collectives of this group in the same order on all members",
    "PG213": "send and receive the tensors of this channel in the same order on both sides",
    "PG308": "keep the work handle and wait for it",
    "PG406": "create the groups in the same order on every rank",
}


def with_help(cause: Cause) -> Cause:
    """Add the one-line advice of the finding's code."""
    return replace(cause, finding=replace(cause.finding, help=HELP.get(cause.finding.code, "")))


def name_potential(decider: Decider, decision: Decision) -> Decision:
    """Give causes that hold only at the strict end the code of what they depend on."""
    if not decision.potential:
        return decision
    causes: list[Cause] = []
    for cause in decision.causes:
        causes.extend(_dependent(decider, decision, cause))
    return replace(decision, causes=tuple(causes))


def _dependent(decider: Decider, decision: Decision, cause: Cause) -> list[Cause]:
    finding = cause.finding
    if finding.certainty == "some-execution" and decider.model.drops_kill:
        # Only dropped handles tell the two ends of these models apart.
        return [_dropped(cause)]
    if finding.certainty != "some-execution" or not finding.cycle or finding.subkind != "cycle":
        return [cause]
    if decider.model.family is Family.DEVICE:
        return [cause, _launch_order(decision, cause)]
    if decider.model.eager and finding.code in {"PG001", "PG008", "PG011", "PG012"}:
        return [_buffering(cause)]
    return [cause]


def _dropped(cause: Cause) -> Cause:
    entry = make_finding("PG308", "", severity="error", certainty="some-execution")
    finding = replace(
        cause.finding,
        code=entry.code,
        name=entry.name,
        severity="error",
        message=f"{name_ranks(cause.finding.ranks)} hang when a dropped work handle dies before its match",
        related=(cause.finding.code,),
    )
    return replace(cause, finding=finding, shape=("PG308", *cause.shape[1:]))


def _buffering(cause: Cause) -> Cause:
    finding = cause.finding
    renamed = make_finding(
        "PG101",
        f"{name_ranks(finding.ranks)} pass only if their sends are buffered",
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
    names = launch_groups(decision, cause)
    finding = make_finding(
        "PG107",
        f"{name_ranks(cause.finding.ranks)} may have communication of {' and '.join(names)} in flight "
        "together, launched in different orders",
        severity="error",
        certainty="some-execution",
        ranks=cause.finding.ranks,
        primary=cause.finding.primary,
        related_actions=cause.finding.related_actions,
        related=(cause.finding.code,),
    )
    return replace(cause, finding=finding, shape=("PG107", *cause.shape[1:]))


def launch_groups(decision: Decision, cause: Cause) -> tuple[str, ...]:
    """Return the names of the groups a cause inverts."""
    from planguard.execution.members import describe_match

    execution = cause.execution or decision.execution
    found = {describe_match(execution, number).ginst for number in cause.matches}
    return tuple(sorted(group_name(execution, ginst) for ginst in found if ginst is not None))


def safe_iff(decider: Decider, decision: Decision) -> tuple[SafeIff, ...]:
    """Return the conditions under which an unsafe plan becomes safe, each decided by runs."""
    if decision.outcome not in {Outcome.DEADLOCK, Outcome.POTENTIAL_DEADLOCK}:
        return ()
    if any(cause.finding.code.startswith("PG2") and cause.finding.code < "PG207" for cause in decision.causes):
        return ()
    found: list[SafeIff] = []
    if decision.potential and decider.model.family is Family.DEVICE:
        names = {name for cause in decision.causes for name in launch_groups(decision, cause)}
        found.append(SafeIff("launch-order", groups=tuple(sorted(names))))
    buffering = _least_buffering(decider)
    if buffering is not None:
        found.append(SafeIff("send-buffering", bytes=buffering))
    return tuple(found)


def _least_buffering(decider: Decider) -> int | None:
    """Return the smallest message size whose buffering makes the strict end complete."""
    model = decider.model
    worst = strict(model)
    if decider.run(worst).completes:
        return None
    base = worst if not model.free_launch else lenient(model, 0)
    if model.eager:
        base = worst
    if not decider.run(buffered(base, UNLIMITED - 1)).completes:
        return None
    sizes = sorted({size for size in decider.plan.code.sig_bytes if size < UNLIMITED})
    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        if decider.run(buffered(base, sizes[middle])).completes:
            high = middle
        else:
            low = middle + 1
    return sizes[low] if sizes else None
