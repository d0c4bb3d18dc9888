"""The Python twin of ``native/src/dump.cpp``: it leaves every dump to the general reader."""

from __future__ import annotations

from typing import Any


def dump_columns(data: bytes, known: dict[bytes, Any]) -> tuple[object, ...] | None:
    """Return the entries of a Flight Recorder dump as columns; None: unpickle it.

    The native kernel walks over the pickle and makes objects of what is distinct only: a dump of
    2,000 entries has some ten different calls. It answers None for all but the plain case, and
    what it answers is what the general reader finds by unpickling, which in Python is the fastest
    way there is. So this twin always answers None.

    The parts of an answer: version, library, ``pg_config``, ``pg_status`` and ``rank`` of the dump;
    the distinct calls; then for each entry, by record number, as bytes of native integers: which
    call (32 bits), ``record_id``, ``time_created_ns``, ``collective_seq_id``, ``p2p_seq_id``,
    ``op_id``, ``pg_id`` or -1 (64 bits), and as single bytes the state (0 scheduled, 1 started,
    2 completed, 3 another), ``retired``, ``is_p2p``.

    A distinct call is its ``process_group``, then what ``known`` holds of it, or None, the values
    of ``flight_calls.SAID`` and the key under which ``known`` may hold what they say; of a very
    long one that key is None. Ranks of a job make the same calls, and so each is read once.
    """
    del data, known
    return None
