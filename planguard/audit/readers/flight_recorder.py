"""PyTorch Flight Recorder dumps, versions 2.x: pickles and JSON, of NCCL and of gloo.

What a gloo dump does not say, and what is done about it:

* sends and receives are counted in ``op_id`` and not written down: a placeholder stands for each;
* ``state`` stays ``scheduled``: an operation has completed when it is ``retired``. An operation
  that ended with an error is retired as well; ``rounds`` finds those;
* ``reduce_scatter`` is written as ``all_reduce``: the call stack tells them apart;
* ``pg_config`` names no members; ``assemble`` concludes them from who took part.

What ``pg_status`` counts beyond the entries is ``flight_status``'s to tell.

In JSON, tuples are lists, None is 0 and numbers of ``pg_status`` are strings.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from planguard.audit.readers.flight_calls import known_calls, text
from planguard.audit.readers.flight_entries import Entries
from planguard.audit.readers.flight_stale import complete_stale
from planguard.audit.readers.flight_status import compare_status
from planguard.audit.readers.part import Part, PartGroup
from planguard.audit.readers.safe import decode_json, dump_columns, load_pickle
from planguard.errors import PlanError

HEAD = ("version", "comm_lib_version", "pg_config", "rank")
MAX_ENTRIES = 20_000_000
MAX_MEMBERS = 1_000_000
_VERSION = re.compile(r"2\.\d{1,4}")
_MEMBERS = re.compile(r"\s*\[\s*(?:\d{1,9}(?:\s*,\s*\d{1,9})*)?\s*\]\s*")


def read_flight_recorder(data: bytes, file: str) -> Part:
    """Return what a dump says.

    Raises:
        PlanError: Not a dump, of an unsupported version (PG913), or not safe to read (PG905).
    """
    is_json = data.lstrip()[:1] == b"{"
    columns = None if is_json else dump_columns(data, known_calls())
    if columns is not None:
        return _plain(columns, file)
    dump = decode_json(data, dict[str, Any], file) if is_json else load_pickle(data, file)
    if not isinstance(dump, dict):
        raise PlanError("not a Flight Recorder dump: no table at its top", file=file)
    entries = dump.get("entries", [])
    part = _part(tuple(map(dump.get, HEAD)), file)
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise PlanError("entries are no list", file=file, path="$.entries")
    found = Entries(part)
    found.read(entries)
    return _whole(found, dump.get("pg_status"))


def _plain(columns: tuple[Any, ...], file: str) -> Part:
    """Return what the columns of a dump say that was not unpickled."""
    (*head, status, rank), *rest = columns
    part = _part((*head, rank), file)
    found = Entries(part)
    found.read_columns(*rest)
    return _whole(found, status)


def _whole(found: Entries, status: Any) -> Part:
    """Return the part of all entries, with what the rest of the dump says of them."""
    # Threads of gloo end calls in any order, and its status counts messages, which have no entries.
    if not found.calls.is_gloo:
        complete_stale(found.part.track)
        compare_status(status, found)
    return found.part


def _part(head: tuple[Any, ...], file: str) -> Part:
    """Return a part without its entries, of the values of ``HEAD``.

    Raises:
        PlanError: An unsupported version (PG913), or groups that are none.
    """
    version, library, groups, rank = head
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise PlanError(
            "version of the dump is not supported",
            code="PG913",
            file=file,
            path="$.version",
            value=version if isinstance(version, str) else type(version).__name__,
            hint="supported: 2.x",
        )
    part = Part("flight-recorder", file, version=version)
    part.library = library[:80] if isinstance(library, str) and library else None
    part.groups |= _configuration(groups, file)
    part.rank = rank if type(rank) is int and 0 <= rank < MAX_MEMBERS else None
    return part


def _configuration(config: Any, file: str) -> dict[str, PartGroup]:
    """Return the groups of ``pg_config``, under the names that entries use.

    Raises:
        PlanError: The members of a group are no list of ranks.
    """
    groups: dict[str, PartGroup] = {}
    if not isinstance(config, dict):
        return groups
    for name, spec in config.items():
        if not isinstance(spec, dict) or not isinstance(name, str):
            continue
        ranks = _members(spec.get("ranks"))
        if ranks is None:
            raise PlanError(
                "members of a group are no list of ranks",
                file=file,
                path="$.pg_config",
                hint=f"at most {MAX_MEMBERS:,} ranks, each below that",
            )
        if not ranks:
            continue  # gloo writes '' and no members
        description = _description(spec.get("desc", ""))
        key = "world" if description == "default_pg" else name[:200]
        groups[key] = PartGroup(ranks, description if key != "world" else "", len(ranks))
    return groups


def _members(ranks: Any) -> tuple[int, ...] | None:
    """Return members written as a list, or as the text of one; the text is never evaluated."""
    if isinstance(ranks, str):
        return _members_text(ranks)
    if ranks is None:
        return ()
    if not isinstance(ranks, list) or len(ranks) > MAX_MEMBERS:
        return None
    if not all(type(rank) is int and 0 <= rank < MAX_MEMBERS for rank in ranks):
        return None
    return tuple(ranks)


@lru_cache(maxsize=256)
def _members_text(text: str) -> tuple[int, ...] | None:
    """Return members written as text: every dump of a run repeats those of the default group."""
    if len(text) > 11 * MAX_MEMBERS or not _MEMBERS.fullmatch(text):
        return None
    ranks = tuple(map(int, re.findall(r"\d+", text)))
    return ranks if len(ranks) <= MAX_MEMBERS and max(ranks, default=0) < MAX_MEMBERS else None


def _description(value: Any) -> str:
    try:
        return text(value, 200)
    except (TypeError, ValueError):
        return ""
