"""Headlines and notes of wait-for cycles: the kind, the ranks, and what each of them waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.execution.findings.locate import group_name
from planguard.execution.findings.members import describe_match, round_entry
from planguard.plan.vocabulary import BLOCKING, CREATIONS, MESSAGES, RECEIVES, SENDS, WHY_OF_OP
from planguard.semantics.model import Family
from planguard.words import listed, name_ranks, shown

if TYPE_CHECKING:
    from planguard.execution.findings.edges import Link
    from planguard.execution.running.executor import Execution

KINDS = {
    "PG001": "point-to-point deadlock",
    "PG002": "collective deadlock",
    "PG003": "hybrid deadlock",
    "PG004": "cross-communicator deadlock",
    "PG005": "stream-order deadlock",
    "PG008": "wait cycle",
    "PG010": "self-communication deadlock",
    "PG011": "batch deadlock",
    "PG012": "pipeline schedule deadlock",
    "PG013": "dependency deadlock",
    "PG109": "communicator creation deadlock",
}
CHAIN = 3
"""Longest cycle whose every edge is told in the headline."""
SHARED = 64
"""Most ranks of which the headline says in which order they use two groups."""
ONE_WAY = {name: f"{name} {'to' if name in SENDS else 'from'}" for name in MESSAGES}


def headline(execution: Execution, code: str, links: tuple[Link, ...]) -> str:
    """Return the headline of a cycle."""
    return f"{KINDS[code]}: {_what(execution, code, links)}"


def _what(execution: Execution, code: str, links: tuple[Link, ...]) -> str:
    ranks = sorted({link.at.rank for link in links})
    ops = {link.at.op for link in links}
    if code == "PG010":
        own = links[0].own
        way = "from" if own is not None and own.op in RECEIVES else "to"
        end = f"a message {way} itself, whose other end is behind it"
        return f"rank {ranks[0]} waits in {links[0].at.op} for {end}"
    if len(ranks) == 1:
        first = links[0]
        return f"rank {ranks[0]} waits in {first.at.op} for an action of its own behind it"
    if code in {"PG002", "PG004"}:
        return _orders(execution, links)
    if code == "PG109":
        return _creations(execution, links)
    if code in {"PG001", "PG012"} and len(ops) == 1:
        where = _slots(links) if code == "PG012" else ""
        ring = "" if len(ranks) == 2 else f" in a ring{_around(links)}"
        (op,) = ops
        if op in BLOCKING:
            owed = links[0].edge.waits_for
            needed = "the other needs" if len(ranks) == 2 else "the next one needs"
            return (
                f"{name_ranks(ranks)} each have an {op} in front of the "
                f"{owed.op if owed else 'call'} that {needed}{ring}{where}"
            )
        return f"{name_ranks(ranks)} wait in {op}() for each other{ring}{where}"
    if len(links) > CHAIN:
        return f"{name_ranks(ranks)} wait for each other in a ring{_around(links)}"
    told = [f"waits {_phrase(execution, link)}" for link in links]
    return f"rank {links[0].at.rank} " + ", which ".join(told)


def _around(links: tuple[Link, ...]) -> str:
    """Write the way around a cycle, when it is short."""
    if len(links) > 2 * CHAIN:
        return ""
    way = [link.at.rank for link in links]
    return f" ({' -> '.join(map(str, [*way, way[0]]))})"


def _slots(links: tuple[Link, ...]) -> str:
    """Write stage, phase and microbatch of every rank of a pipeline."""
    slots = []
    for link in links[: 2 * CHAIN]:
        fields = slot_fields(link)
        phase = f" {shown(str(fields['phase']))}" if "phase" in fields else ""
        slots.append(f"stage {fields['stage']}{phase} mb {fields['mb']}")
    return f" ({', '.join(slots)})"


def slot_fields(link: Link) -> dict[str, Any]:
    """Return stage and microbatch of a stuck action; a batch has those of its members."""
    return {} if link.own is None else link.own.fields


def _phrase(execution: Execution, link: Link) -> str:
    """Return what a rank waits in, and for which rank: ``in send to rank 1``."""
    step, at = link.step, link.at
    peer = step.owed.rank
    own = at.op if link.own is None else _own(execution, link, peer)
    if at.op == "wait":
        return f"for its {own}"
    if at.op in WHY_OF_OP or at.op == "batch":
        return f"in {at.op} for its {own}"
    if link.is_queued or at.op in BLOCKING:
        return f"in its queue at {own}"
    return f"in {own}"


def is_serialized(link: Link) -> bool:
    """Tell whether only a queue makes an action wait: on its own it would hold up nobody."""
    return link.own is not None and link.is_queued


def _creations(execution: Execution, links: tuple[Link, ...]) -> str:
    """Tell who waits for whom to create which communicator."""
    if len(links) > 2:
        ranks = name_ranks(link.at.rank for link in links)
        return f"{ranks} wait for each other to create communicators, in a ring{_around(links)}"
    told = []
    for link in links:
        waits = f"rank {link.at.rank} waits in {link.at.op}"
        if link.step.match.type in CREATIONS | {"pair-init"}:
            peer = link.step.owed.rank
            told.append(f"{waits} for rank {peer} to join the {_creation(execution, link)}")
        else:
            told.append(f"rank {link.at.rank} waits {_phrase(execution, link)}")
    return ", ".join(told)


def _creation(execution: Execution, link: Link) -> str:
    match = link.step.match
    if match.type == "pair-init":
        return f"communicator of {name_ranks(match.ranks)}"
    return f"communicator of {shown(group_name(execution, match.ginst))}"


def _own(execution: Execution, link: Link, peer: int) -> str:
    """Name the rank's own member of the match and the rank that is missing there."""
    assert link.own is not None  # noqa: S101  callers look first
    op, match = link.own.op, link.step.match
    if match.type == "pair":
        return f"{ONE_WAY.get(op, op)} rank {peer}"
    joined = "for" if link.at.op == op else "with"
    return f"{op} on {shown(group_name(execution, match.ginst))} {joined} rank {peer}"


# --- the order of groups -------------------------------------------------------------------------


def _orders(execution: Execution, links: tuple[Link, ...]) -> str:
    if len(links) != 2:
        groups = _group_names(execution, links)
        of = f"groups {listed(groups)}" if len(groups) > 1 else f"group {groups[0]}"
        ranks = name_ranks(link.at.rank for link in links)
        return f"{ranks} enter collectives of {of} in a ring{_around(links)}"
    one, two = links
    verb = "wait for" if one.at.op == "wait" else "enter"
    same, other = _rank_orders(execution, one, two)
    first, second = _call(execution, one), _call(execution, two)
    if one.step.match.ginst == two.step.match.ginst:
        first = first.partition(" on ")[0]
    those = name_ranks(same)
    verb = verb if len(same) > 1 else {"enter": "enters", "wait for": "waits for"}[verb]
    return f"{those} {verb} {first} before {second}, {name_ranks(other)} the other way round"


def _call(execution: Execution, link: Link) -> str:
    op = link.at.op if link.own is None else link.own.op
    return f"{op} on {shown(group_name(execution, link.step.match.ginst))}"


def _group_names(execution: Execution, links: tuple[Link, ...]) -> list[str]:
    ginsts = dict.fromkeys(link.step.match.ginst for link in links)
    return [shown(group_name(execution, ginst)) for ginst in ginsts]


def _rank_orders(execution: Execution, one: Link, two: Link) -> tuple[list[int], list[int]]:
    """Split the ranks that both rounds share by which of the two they issue first."""
    rounds = [describe_match(execution, link.step.match.number) for link in (one, two)]
    shared = sorted(set(rounds[0].ranks) & set(rounds[1].ranks))
    split: tuple[list[int], list[int]] = ([], [])
    for rank in shared if len(shared) <= SHARED else ():
        first, second = (round_entry(execution, rank, round_) for round_ in rounds)
        if first is not None and second is not None:
            split[first > second].append(rank)
    if one.at.rank in split[0] and two.at.rank in split[1]:
        return split
    return [one.at.rank], [two.at.rank]


# --- notes ---------------------------------------------------------------------------------------


def notes(execution: Execution, code: str, links: tuple[Link, ...]) -> tuple[str, ...]:
    """Return further sentences of a cycle: what somebody may not know about the backend."""
    model = execution.model
    said = []
    if code == "PG002" and len(links) > 2:
        for link, before in zip(links[: 2 * CHAIN], [links[-1], *links], strict=False):
            said.append(
                f"rank {link.at.rank} enters {_call(execution, link)} before "
                f"{_call(execution, before)}"
            )
    if any(is_serialized(link) for link in links):
        queue = "one communicator" if model.family is Family.DEVICE else "all communicators"
        if execution.scenario.single_queue:
            queue = "all communicators of a device"
        said.append(
            f"an asynchronous call lets the host go on, but under {model.name} the calls of a "
            f"rank on {queue} run one after the other, in the order in which they were issued"
        )
    if code == "PG109" and model.lazy_init:
        said.append(
            f"under {model.name} the first use of a communicator blocks the host until every "
            "member uses it"
        )
    if code == "PG005":
        said.append("no host is blocked: the streams of the devices wait for each other")
    return tuple(said)
