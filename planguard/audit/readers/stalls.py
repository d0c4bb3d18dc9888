"""Reports of who did not come, made by what watches a job: Horovod, HCCL, XLA and its service.

A report shows one moment: a slow job looks like one that hangs. It is a word about others, so what
follows from it is medium evidence at most; where it names nobody, nobody is blamed.

Formats: Horovod's ``stall_inspector.cc`` (``Missing ranks:``, ``Stalled ranks:``) and its
predecessor in ``operations.cc`` (``Stalled ops:`` with missing or ready ranks); HCCL's EI0002
(``Communication_Error_Timeout``, CANN 6 to 8); XLA's ``rendezvous.cc`` and ``hang_watchdog.cc``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.audit.readers.coordination import told_by_service
from planguard.audit.readers.part import Part
from planguard.audit.readers.text_log import GOES_ON
from planguard.plan.vocabulary import NCCL
from planguard.recording import Absence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.audit.readers.text_log import Line, Log

MAX_RANK = 1_000_000
MAX_NAME = 80
_REPORT = re.compile(
    r"remainder of ranks|EI0002|may be stuck|avoid infinite| ranks:|Stalled |"
    r"Barrier timed out|heartbeats?\b"
)
_STALL = re.compile(r"waiting for remainder of ranks for more than")
_MISSING = re.compile(r"\s*(?P<rank>\d{1,7})!?: \[(?P<what>.{1,4000}?)\]?$")
_OPS = re.compile(r"(?P<what>[^\[\]]{1,300}?) \[(?P<side>missing|ready) ranks:(?P<ranks>[\d, ]*)\]")
_HEADLINE = re.compile(r"\s*(?:Missing ranks:|Stalled (?:ranks|ops):|This may indicate|$)")
_REMOTE = re.compile(
    r"EI0002: .{0,300}?Notify record from remote rank:? ?\[(?P<rank>\d{1,7}|unknown)\]"
)
_TAG = re.compile(r"tag\[(?:Hcom)?(?P<op>[A-Za-z]{1,40})(?P<tag>[^\]]{0,200})\]")
_GROUP = re.compile(r"group:\[(?P<group>[^\]]{0,200})\]")
_PLACE = re.compile(r"rankSize\[\d{1,7}\], rankId\[(?P<place>\d{1,7})\]")
_OWN_RANK = re.compile(r"\(PID:\d{1,10}, Device:-?\d{1,5}, RankID:(?P<rank>\d{1,7})\)")
_WORLD_GROUP = "hccl_world_group"
_WAITING = re.compile(
    r"This thread has been waiting for (?:`(?P<what>[^`]{1,400})` for )?\d{1,9} ?s(?:econds)? and "
    r"may be stuck"
)
_EXPECTED = re.compile(r"Expected (?P<all>\d{1,7}) threads to join the rendezvous")
_PARTICIPANT = re.compile(  # collective_ops_utils.h, up to 2022
    r"may be stuck: participant .{0,80}?device ordinal (?P<place>\d{1,7}), .{0,80}?waiting for all "
    r"participants to arrive at rendezvous RendezvousKey\{(?:run_id=RunId: -?\d+, )?"
    r"(?P<what>global_devices=\[(?P<all>[\d,]{1,4000})\], num_local_participants=(?P<local>\d{1,7})"
    r"[^}]{0,200})\}"
)
_JOINED = re.compile(r"All \d{1,7} threads joined the rendezvous")
_UNSTUCK = re.compile(r"Thread is unstuck!")
_RUN = re.compile(r";? ?(?:run_id=-?\d+|is_p2p=\d)")
_CLIQUE = re.compile(r"for rank (?P<place>\d{1,7}); clique=devices=\[(?P<all>[\d,]{1,4000})\]")
_ENDLESS = re.compile(r"(?P<what>\S.{0,300}?): (?:prepare to )?abort the process to avoid infinite")
_GLOG = re.compile(r"^[EFW]\d{4} \S+ +\d+ \S+:\d+\] ")


def read_stalls(log: Log, file: str) -> list[Part]:
    """Return one part for every speaker that reports who did not come."""
    parts: list[Part] = []
    for who, lines in log.speakers():
        rank = who if isinstance(who, int) else None
        for own, absences in (
            # Horovod's coordinator is rank 0.
            (rank if rank is not None else 0, _horovod(lines)),
            *_hccl(lines, rank),
            (rank, _xla(lines)),
            (rank, told_by_service(lines)),
        ):
            if absences:
                part = Part("stderr", file, rank=own, absences=tuple(absences))
                # Barriers of the service have no other members than all tasks, as a rule.
                part.world_size = (
                    max((one.due for one in absences if not one.of), default=0) or None
                )
                parts.append(part)
    if parts and _went_on(log):
        for part in parts:
            part.absences = tuple(replace(one, went_on=True) for one in part.absences)
    return parts


def _went_on(log: Log) -> bool:
    """Tell whether somebody printed progress behind the last report of who was late."""
    for line in reversed(log.lines):
        if _REPORT.search(line.text):
            return False
        if GOES_ON.search(line.text):
            return True
    return False


def _numbers(text: str) -> list[int]:
    found = (int(number) for number in re.findall(r"\d{1,7}", text)[:100_000])
    return [number for number in found if number < MAX_RANK]


# --- Horovod -------------------------------------------------------------------------------------


def _horovod(lines: Sequence[Line]) -> list[Absence]:
    """Return the last report of the stall inspector: what was late before may have come."""
    late: dict[int, list[str]] = {}
    came: dict[str, tuple[int, ...]] = {}
    is_inside = False
    for line in lines:
        text = line.text
        if "remainder of ranks" in text and _STALL.search(text):
            is_inside, late, came = True, {}, {}
        if not is_inside:
            continue
        if (row := _MISSING.match(text)) is not None and int(row["rank"]) < MAX_RANK:
            late.setdefault(int(row["rank"]), []).extend(row["what"].split(", "))
            continue
        rows = list(_OPS.finditer(text))
        for row in rows:
            what = row["what"].rpartition("Stalled ops:")[2].strip(" ,")
            for rank in _numbers(row["ranks"]) if row["side"] == "missing" else ():
                late.setdefault(rank, []).append(what)
            if row["side"] == "ready":
                came[what] = tuple(_numbers(row["ranks"]))
        is_inside = bool(rows or _HEADLINE.match(text) or _STALL.search(text))
    return [*_by_tensors(late), *_by_ready(came)]


def _by_tensors(late: dict[int, list[str]]) -> Iterable[Absence]:
    """Yield one absence for every set of tensors: ranks that lack the same are one cause."""
    sets: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, names in late.items():
        sets[tuple(sorted(set(names)))].append(rank)
    for tensors, ranks in sets.items():
        yield Absence(_tensors(tensors), tuple(sorted(ranks)), by="Horovod's stall inspector")


def _by_ready(came: dict[str, tuple[int, ...]]) -> Iterable[Absence]:
    """Yield what the oldest form tells, which names those that came."""
    for what, here in came.items():
        yield Absence(_tensors((what,)), here=here, by="Horovod's stall check")


def _tensors(names: Sequence[str]) -> str:
    shown = ", ".join(name[:MAX_NAME] for name in names[:2])
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"the tensor{'s' if len(names) > 1 else ''} {shown}{more}"


# --- HCCL ----------------------------------------------------------------------------------------


def _hccl(lines: Sequence[Line], rank: int | None) -> list[tuple[int | None, list[Absence]]]:
    """Return for every rank that speaks whom it did not hear from."""
    found: dict[int | None, list[Absence]] = defaultdict(list)
    own = rank
    for line in lines:
        text = line.text
        if "RankID:" in text and (said := _OWN_RANK.search(text)) is not None:
            own = int(said["rank"])
        if "EI0002" not in text or (remote := _REMOTE.search(text)) is None:
            continue
        tag, group = _TAG.search(text), _GROUP.search(text)
        op = NCCL.get(tag["op"].partition("_")[0], tag["op"]) if tag is not None else "collective"
        named = (group["group"] if group is not None else "") + (tag["tag"] if tag else "")
        is_named = remote["rank"] != "unknown"
        # The group information has the speaker's place; RankID is its rank in the job.
        where = _PLACE.search(text)
        place = int(where["place"]) if where is not None else None
        are_places = _WORLD_GROUP not in named
        who = place if own is None and not are_places else own
        came = place if are_places else who
        one = Absence(
            f"{op} of HCCL",
            (int(remote["rank"]),) if is_named else (),
            here=() if came is None else (came,),
            by="HCCL (EI0002)",
            are_places=are_places,
        )
        if one not in found[who]:
            found[who].append(one)
    return list(found.items())


# --- XLA -----------------------------------------------------------------------------------------


def _xla(lines: Sequence[Line]) -> list[Absence]:
    """Return the rendezvous that threads wait at, and what XLA's watchdog gave up."""
    waits: dict[str, Absence] = {}
    here: dict[str, set[int]] = defaultdict(set)
    all_of: dict[str, set[int]] = {}
    expected: dict[str, int] = {}
    unstuck = 0
    for line in lines:
        text = line.text
        if "unstuck" in text:
            unstuck += _UNSTUCK.search(text) is not None
        elif "been waiting" in text and (said := _WAITING.search(text)) is not None:
            what = said["what"] or "a rendezvous"
            clique = _CLIQUE.search(what)
            name = _RUN.sub("", _CLIQUE.sub(r"of devices [\g<all>]", what))
            if clique is not None:
                here[name].add(int(clique["place"]))
                all_of[name] = set(range(len(_numbers(clique["all"]))))
                if (count := _EXPECTED.search(text)) is not None:
                    expected[name] = int(count["all"])
            came = _JOINED.search(text) is not None
            by = "XLA's rendezvous"
            waits[name] = Absence(f"XLA's `{name}`", by=by, all_came=came, are_places=True)
        elif "participant" in text and (said := _PARTICIPANT.search(text)) is not None:
            name = f"rendezvous of {said['what']}"
            here[name].add(int(said["place"]))
            all_of[name], expected[name] = set(_numbers(said["all"])), int(said["local"])
            waits[name] = Absence(f"XLA's `{name}`", by="XLA's rendezvous", are_places=True)
        elif "infinite" in text and (gave := _ENDLESS.search(_GLOG.sub("", text))) is not None:
            what = f"XLA's `{gave['what'][:200]}`"
            waits[what] = Absence(what, by="XLA's hang watchdog", was_aborted=True)
    if unstuck >= len(waits):
        return []
    for name, places in here.items():
        every = tuple(sorted(all_of[name]))
        one = replace(waits[name], of=every, due=expected.get(name, len(every)))
        waits[name] = one.with_here(places)
    return list(waits.values())
