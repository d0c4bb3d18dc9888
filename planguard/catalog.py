"""Every finding code: number, name, severity, certainty, evidence and what it does to the outcome.

One page per code is under ``docs/codes``; ``planguard explain PG001`` prints it. Numbers are never
reused and names never change: both are accepted wherever a code is.
"""

from __future__ import annotations

from dataclasses import dataclass

from planguard.errors import UsageError

SEVERITIES = ("error", "warning", "note")

CERTAINTY = {"A": "all-executions", "S": "some-execution", "H": "heuristic"}
"""Certainty class to JSON value: proved for all executions, witnessed in some, a threshold."""

EVIDENCE = {
    "P": "a static plan alone",
    "P~": "a plan plus a cost model: modeled, never measured",
    "T": "a dry-run trace; CPU and gloo are enough",
    "G": "real GPU timing or counters",
}

OUTCOME_RULES = {
    "stuck": "DEADLOCK when proved for all executions, POTENTIAL_DEADLOCK when only some get stuck",
    "orphan": "DEADLOCK; POTENTIAL_DEADLOCK when send buffering could complete the orphan",
    "mismatch": "MISMATCH",
    "witness": "how the witness ends: stuck is POTENTIAL_DEADLOCK, a bad match is MISMATCH",
    "by-model": "stuck where tags separate channels; else MISMATCH if the paired data differ",
    "membership": "DEADLOCK if the others then hang, MISMATCH if members disagree, else UNKNOWN",
    "unless-stuck": "unchanged, unless the execution also gets stuck: then that of the stuck state",
    "unchanged": "unchanged",
    "unknown": "UNKNOWN",
    "limits": "unchanged, but nothing is claimed about what is missing",
    "refused": "none: the input is refused with exit code 2",
    "internal": "none: the tool failed, exit code 4",
}

FAMILIES = {
    "0": "progress",
    "1": "potential",
    "2": "matching",
    "3": "handles",
    "4": "groups",
    "5": "runtime",
    "6": "performance",
    "9": "tool",
}

# Refused input first: nothing below it was looked at. Then causes before consequences: wrong groups
# and wrong matches make ranks hang, so they come before the hang itself.
PRECEDENCE = ("groups", "matching", "progress", "potential", "handles", "performance", "tool")

REFINES = {"PG004": ("PG002",), "PG012": ("PG001", "PG003")}
"""A refinement replaces the code it refines, which then stays under ``related``."""


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the catalog.

    Attributes:
        number: ``PG`` and three digits.
        name: Stable kebab-case name.
        severity: Default severity, one of ``SEVERITIES``.
        certainty: Keys of ``CERTAINTY`` that findings of this code can have.
        evidence: Keys of ``EVIDENCE`` that such a finding can rest on.
        outcome: Key of ``OUTCOME_RULES``.
        door: True if a plan file that shows the defect is refused with ``PlanError``.
        reserved: True if nothing reports it: the number and the name are kept for a later check.
        summary: One line, without the code.
    """

    number: str
    name: str
    severity: str
    certainty: tuple[str, ...]
    evidence: tuple[str, ...]
    outcome: str
    door: bool
    reserved: bool
    summary: str

    @property
    def family(self) -> str:
        """Family by the first digit: progress, potential, matching, ..."""
        return FAMILIES[self.number[2]]

    @property
    def refines(self) -> tuple[str, ...]:
        """Codes that this one replaces in a report."""
        return REFINES.get(self.number, ())

    @property
    def traits(self) -> str:
        """Severity, certainty, evidence and outcome in one line for people."""
        certainty = " or ".join(CERTAINTY[mark] for mark in self.certainty)
        door = "; refused at the door in a plan file" if self.door and self.family != "tool" else ""
        return (
            f"{self.severity} | {certainty} | evidence {'/'.join(self.evidence)} | "
            f"outcome: {OUTCOME_RULES[self.outcome]}{door}"
            f"{'; reserved: nothing reports it yet' if self.reserved else ''}"
        )


# number name severity certainty evidence outcome ["door"] ["reserved"], and the summary below.
_TABLE = """
PG001 p2p-deadlock error A P stuck
    cycle of sends and receives only: head-to-head sends, receive-receive, a ring
PG002 collective-deadlock error A P stuck
    cycle of collectives only: overlapping groups entered in inverted order
PG003 hybrid-deadlock error A P stuck
    cycle with point-to-point and collective edges
PG004 cross-communicator-inversion error A,S P stuck
    two communicators over shared ranks, used in opposite orders by different ranks
PG005 stream-order-deadlock error A,S P stuck
    host order is fine; device-stream order or event waits close a cycle
PG006 premature-exit error A P,T stuck
    a rank ends or destroys a group while others still need it
PG007 missing-participant error A P,T stuck
    a member never issues the collective: starvation, no cycle
PG008 wait-cycle error A P stuck
    wait on a work handle that can complete only after an action behind that wait
PG009 barrier-divergence error A P,T stuck
    barrier counts or positions differ between members
PG010 self-communication-deadlock error A P stuck
    a message to the own rank that waits for itself, or that the backend refuses
PG011 batch-group-deadlock error A P stuck
    point-to-point batch incomplete, or split so that its halves wait for each other
PG012 pipeline-schedule-deadlock error A P stuck
    a pipeline schedule deadlocks; the stage, microbatch and slot are named
PG013 control-dependency-deadlock error A P stuck
    an operator dependency closes the cycle, not the communication order alone
PG101 relies-on-send-buffering error S P witness
    passes only if sends are buffered; names the bytes needed
PG102 out-of-round-async error S P witness
    an asynchronous action can be reordered into another round
PG103 out-of-round-fusion error S P witness
    a fused buffer can flush with different members or order on two ranks
PG104 fusion-layout-divergence error A,S P,T witness
    bucket composition or cap differs between ranks
PG105 buffer-exhaustion error S P witness reserved
    buffers in flight can exceed the limit and turn asynchronous into blocking
PG106 wildcard-race error S P witness
    an any-source receive can match the wrong send
PG107 concurrent-communicators error S P witness
    collectives of two communicators in flight together without an enforced device order
PG108 unordered-p2p-pair error S P witness
    unbatched isend/irecv of a pair in different orders, on a backend that serializes the pair
PG109 lazy-communicator-init error S P witness
    first use of a group or pair creates its communicator, in an order that differs
PG110 data-dependent-branch error S P,T witness
    communication under a condition not proved equal on all ranks
PG201 collective-kind-mismatch error A P mismatch
    members of one round issue different collectives
PG202 size-mismatch error A P mismatch
    counts or bytes disagree in one round or pair
PG203 dtype-mismatch error A P mismatch
    dtypes disagree; at equal bytes the backend may not notice
PG204 reduce-op-mismatch error A P mismatch
    reduce operations disagree: silent on the backends measured
PG205 root-mismatch error A P mismatch
    roots disagree: hang, or part of the ranks pass
PG206 split-sizes-mismatch error A P mismatch
    all-to-all or uneven gather split vectors disagree
PG207 tag-mismatch error A P by-model
    tags of an otherwise matching pair differ
PG208 orphan-send error A P orphan
    no matching receive exists
PG209 orphan-recv error A P orphan
    no matching send exists
PG210 orphan-async error A P orphan
    work handle whose partner never comes
PG211 collective-count-mismatch error A P orphan
    number of calls on a group differs between members
PG212 matched-out-of-round error A P mismatch
    completes, but mixes rounds: silent data corruption
PG213 semantic-pair-mismatch error A P mismatch
    send and receive match by position but carry different tensors
PG214 sync-async-mix warning A P unchanged
    one member synchronous, another asynchronous
PG215 device-or-backend-mismatch error A P mismatch reserved
    members of one round use different device kinds or backends
PG216 sequence-number-mismatch error A P mismatch
    members of one round made different numbers of calls on the group before
PG301 missing-wait error A P unchanged
    no wait on a work handle
PG302 wait-unknown-request error A P unchanged door
    wait on a work handle that was never started
PG303 double-wait note A P unchanged door
    the same work handle is waited twice
PG304 read-before-wait error A P unchanged
    buffer read before its wait
PG305 write-while-in-flight error A P unchanged
    buffer written while an action uses it
PG306 aliasing-in-flight warning A P unchanged
    two actions in flight use the same storage
PG307 unflushed-fusion-buffer error A P unless-stuck
    a fused buffer still holds members at program end
PG308 handle-dropped warning A P unless-stuck
    work handle overwritten or dropped before its wait
PG309 event-not-recorded error A P unchanged
    stream wait on an event that was never recorded
PG310 destroy-with-pending error A P unless-stuck
    group destroyed with pending work
PG401 rank-not-in-group error A P membership door
    a rank calls a collective on a group it is not a member of
PG402 peer-out-of-range error A P membership door
    peer outside 0..world_size-1
PG403 peer-not-in-group error A P membership door
    peer exists but is not in the group
PG404 root-not-in-group error A P membership door
    root of broadcast, reduce, gather or scatter is outside the group
PG405 membership-disagreement error A T membership
    ranks see different member lists or orders of one group
PG406 group-creation-order error A P membership
    ranks create groups in different orders
PG407 use-after-destroy error A P membership door
    a group is used after the rank destroyed it
PG408 use-before-create error A P membership door
    a group is used before the rank created it
PG409 duplicate-or-empty-group error A P membership door
    a group without ranks, or that lists a rank twice
PG410 global-vs-group-rank-confusion warning H P unchanged reserved
    a value is valid as a global rank and wrong as a group rank, or the other way round
PG411 mesh-inconsistent error A P membership door
    the device mesh does not tile the world
PG412 size-one-group note A P unchanged
    communication on a group of one rank
PG501 stuck error A T,G stuck
    all processes stuck for longer than the timeout
PG502 no-progress warning H T,G unchanged
    average time in the last call above the threshold
PG503 plan-trace-divergence error A T unchanged
    first action per rank that differs between plan and trace
PG504 nondeterministic-trace warning S T unchanged reserved
    two dry runs of one program differ
PG505 stub-affects-communication warning S T unknown
    mock tensors changed the control flow; the capture is not trusted
PG506 rank-crashed error A T,G unchanged
    a process ended with an error
PG507 version-skew warning A T,G unchanged
    library or schema versions differ between ranks
PG508 clock-skew note H T,G unchanged
    clock alignment offset above the threshold
PG601 slow-op-everywhere note H G,P~ unchanged
    an operator takes k times the median of its class on all ranks
PG602 straggler note H G,P~ unchanged
    one rank delays the operation
PG603 collective-wait note H G,P~ unchanged
    early ranks spend too much of a collective waiting
PG604 stage-wait note H G,P~ unchanged
    a pipeline stage idles longer than its schedule's bubble
PG605 slow-link note H G unchanged
    a link's bandwidth is below that of links of its type
PG606 link-traffic-imbalance note H P unchanged
    traffic of links with equal roles differs
PG610 stage-flops-imbalance note H P unchanged
    a stage computes more than 1.20 times the mean over stages
PG611 slow-device note H G unchanged
    a device reaches less than 0.80 times the mean FLOPS
PG612 rank-flops-imbalance note H P unchanged
    ranks inside one SPMD stage compute unequal amounts
PG613 memory-imbalance note H P~ unchanged
    peak memory differs between ranks
PG620 shard-too-small note H P unchanged
    local piece of a sharded tensor is below the threshold
PG621 large-unpartitioned-tensor note H P unchanged
    a large replicated parameter feeds a sharded operator
PG622 redundant-reshard note H P unchanged
    a redistribution followed by its inverse
PG623 small-operand-wide-communication note H P~ unchanged
    a small input spread over many devices; merging costs more than computing
PG630 self-traffic note H P unchanged
    a rank sends data to itself
PG631 one-way-duplex note H P unchanged
    a pair declared bidirectional carries one direction
PG632 master-worker-pattern note H P unchanged
    all traffic goes through one device or the host
PG633 host-staged-peer-copy note H P,G unchanged
    a copy between devices goes through the host
PG640 tiny-collectives note H P unchanged
    many small collectives where a fused one would do
PG901 schema-error error A P refused door
    the file does not follow the schema
PG902 unsupported-op warning A P unknown
    the plan uses something the check does not decide; it is named
PG903 budget-exhausted warning A P unknown
    time, memory or state budget used up
PG904 undecidable-match warning A P,T unknown
    the partner of an action cannot be determined
PG905 unsafe-pickle error A T refused
    a pickle needs code or a global that is not allowed: refused before execution
PG906 unknown-field error A P refused door
    a field that is not in the schema
PG907 unknown-model error A P refused door
    execution-model name not known
PG908 suppressed-finding note A P,T unchanged
    findings suppressed by configuration or baseline, counted
PG909 stale-baseline-entry note A P,T unchanged
    a baseline entry that no longer occurs
PG910 nothing-to-check warning A P unknown
    no action, or nothing that matches anything, in a plan of several ranks
PG911 missing-rank-dump warning A T limits
    no dump from a rank: its progress is unknown
PG912 truncated-ring-buffer warning A T limits
    a recorder dropped its oldest entries; they are counted
PG913 dump-version-unsupported error A T refused
    a recording of a version that is not supported
PG914 group-name-unresolved warning A T limits
    a recording names a group that cannot be resolved
PG999 internal-error error A P internal
    PlanGuard failed; nothing is said about the plan
"""


def _parse(table: str) -> dict[str, Code]:
    lines = table.strip().splitlines()
    codes = {}
    for row, summary in zip(lines[::2], lines[1::2], strict=True):
        number, name, severity, certainty, evidence, outcome, *marks = row.split()
        codes[number] = Code(
            number=number,
            name=name,
            severity=severity,
            certainty=tuple(certainty.split(",")),
            evidence=tuple(evidence.split(",")),
            outcome=outcome,
            door="door" in marks,
            reserved="reserved" in marks,
            summary=summary.strip(),
        )
    return codes


CATALOG: dict[str, Code] = _parse(_TABLE)
"""Every code by its number, in ascending order."""

_BY_NAME = {code.name: code for code in CATALOG.values()}


def find(key: str) -> Code | None:
    """Return the code with this number or name, or None; case does not matter.

    Args:
        key: ``PG001`` or ``p2p-deadlock``.
    """
    return CATALOG.get(key.upper()) or _BY_NAME.get(key.lower())


def lookup(key: str) -> Code:
    """Return the code with this number or name.

    Raises:
        UsageError: No such code; the hint names the nearest ones.
    """
    code = find(key)
    if code is not None:
        return code
    import difflib  # only on this path: difflib imports re

    known = [*CATALOG, *_BY_NAME]
    near = difflib.get_close_matches(key.upper(), known[: len(CATALOG)], 3, 0.75)
    near += difflib.get_close_matches(key.lower(), known[len(CATALOG) :], 3, 0.5)
    nearest = ", ".join(f"{c.number} {c.name}" for c in dict.fromkeys(map(lookup, near)))
    hint = f"nearest: {nearest}" if nearest else "`planguard explain --list` prints all codes"
    raise UsageError(f"unknown finding code {key[:40]!r}", hint=hint)


def precedence(number: str) -> int:
    """Return the place of a code in a report: 0 is refused input, then groups, matching, ..."""
    code = CATALOG[number]
    if code.outcome in ("refused", "internal"):
        return 0
    # Run-time evidence of its own sorts with the deadlock it shows.
    family = "progress" if code.family == "runtime" else code.family
    return 1 + PRECEDENCE.index(family)


def report_order(severity: str, number: str) -> tuple[int, int, str]:
    """Return the sort key of a finding: severity first, then precedence, then number.

    A note on groups must not stand before a deadlock; among equals a cause comes before what it
    implies.
    """
    return (SEVERITIES.index(severity), precedence(number), number)
