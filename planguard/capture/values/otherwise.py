"""What a file or a host could be instead: of another size, time, name.

Of two ranks whose numbers differ in one bit, one has a file later and larger, the other earlier and
empty: which of them a program would notice depends on what the file is.
"""

from __future__ import annotations

import os
import re
from typing import Any

YEARS = 1000 * 86_400 + 1
"""Seconds by which a file is written at another time: by more than clocks run ahead. Odd, as are
the others: programs take remainders of what they are told."""
_MIRROR = 2 * 4_102_444_800 + 1
"""Twice the year 2100, seconds since the epoch. A later time is as far behind that year as the
file's is before it: what was written last comes first, as disks of ranks are written in any order.
"""
_MORE = 86_401
_LARGE, _AMOUNT = 1 << 16, 1 << 20
_MOST_PERCENT = 100.0


def other_time(seconds: float, *, is_later: bool) -> float:
    """Return another time of a file, seconds since the epoch."""
    return _MIRROR - seconds if is_later else seconds - YEARS


def other_size(size: int, *, is_later: bool) -> int:
    """Return another size of a file, bytes."""
    return size + _MORE if is_later or not size else 0


def other_state(found: os.stat_result, *, is_later: bool) -> os.stat_result:
    """Return what a file was on another disk: of another size, number and time."""
    # Whole seconds come by place, the rest by name: st_size, st_atime, st_mtime, st_ctime.
    times = (int(other_time(second, is_later=is_later)) for second in found[7:10])
    more: dict[str, float] = {}
    for name in ("st_atime", "st_mtime", "st_ctime"):
        more[name] = other_time(getattr(found, name), is_later=is_later)
        ns = getattr(found, f"{name}_ns")
        more[f"{name}_ns"] = 1 + (_MIRROR * 10**9 - ns if is_later else ns - YEARS * 10**9)
    size = other_size(found.st_size, is_later=is_later)
    mode, node, device, *rest = found[:6]
    return os.stat_result([mode, node + 1, device + 1, *rest, size, *times], more)


def other_disk(found: Any, *, is_full: bool) -> Any:
    """Return what ``shutil.disk_usage`` says of a disk that is full, or empty."""
    total = found.total
    return type(found)(total, total, 0) if is_full else type(found)(total, 0, total)


def other_host(found: Any, name: str | None) -> Any:
    """Return what another host is called, or has as its address, or what ``os.uname`` says."""
    if isinstance(found, os.uname_result):
        words = (other_host(one, name) for one in found[1:4])  # its name, release and version
        return os.uname_result((found[0], *words, found[4]))
    if isinstance(found, tuple):  # an address: a host, and a port
        return tuple(other_host(one, name) if isinstance(one, str) else one + 1 for one in found)
    return f"{found}-other" if name is None else name


def other_fact(found: Any, *, is_more: bool, named: object = None) -> Any:
    """Return what a machine with more, or with less, says of itself: a number, or several.

    Args:
        found: What this one says.
        is_more: Whether it is to be more.
        named: What a test names; a number is what the other machine says then.
    """
    if isinstance(found, bool):
        return not found
    number = named if isinstance(named, int | float) else None
    if isinstance(found, int | float):
        if number is not None:
            return type(found)(number)
        # Amounts of memory differ by more than counts, of which a program may start as many.
        factor = _AMOUNT if found >= _LARGE else 2
        more = factor * found + 1
        return more if is_more or found <= 1 else type(found)(found / factor)
    if isinstance(found, list | dict | set):
        return _other_collection(found, is_more=is_more, named=named)
    if isinstance(found, tuple):
        values = [other_fact(one, is_more=is_more, named=number) for one in found]
        if not hasattr(found, "_fields"):
            return type(found)(values)
        if "percent" in found._fields and number is None:
            values[found._fields.index("percent")] = _MOST_PERCENT if is_more else 0.0
        return type(found)(*values)
    return found


def _other_collection(found: Any, *, is_more: bool, named: object) -> Any:
    """Return more, or less, of what a machine has several of; as many as a test names."""
    count = None if not isinstance(named, int | float) else min(max(int(named), 0), _LARGE)
    if isinstance(found, set):
        if count is not None:
            return set(range(count))
        kept = sorted(found)
        return {*kept, max(kept, default=0) + 1} if is_more or len(kept) < 2 else set(kept[:-1])
    if isinstance(found, dict):
        name = named if isinstance(named, str) else "other"
        if is_more:
            return {**found, name: next(iter(found.values()), [])}
        return dict(list(found.items())[: len(found) // 2])
    more = found + _one_more(found, named)
    if count is not None:
        return [more[at % len(more)] for at in range(count)]
    return more if is_more else found[: len(found) // 2]


def _one_more(found: list[Any], named: object) -> list[Any]:
    """Return what a machine with more has behind a list: as much, under the name of a test."""
    if not isinstance(named, str):
        return found or [0]
    last = found[-1] if found else named
    if isinstance(last, tuple):
        return [tuple(named if isinstance(one, str) else one for one in last)]
    return [named]


def other_text(found: str, *, is_more: bool, named: object = None) -> str:
    """Return what the system says of another machine in a file of numbers and words."""
    if isinstance(named, str):
        return found.replace(named, "") if named in found else found + named

    def other(one: re.Match[str]) -> str:
        number = float(one[0]) if "." in one[0] else int(one[0])
        return str(other_fact(number, is_more=is_more, named=named))

    return re.sub(r"\b\d+(\.\d+)?\b", other, found)


def other_version(found: str, *, is_later: bool) -> str:
    """Return a later version of a package, or one of before its first."""
    return re.sub(r"\d+", lambda one: str(int(one[0]) + 1) if is_later else "0", found, count=1)


def other_words(found: Any, named: object = None) -> Any:
    """Return what a program could print instead: its numbers one higher, else another word.

    Args:
        found: What it prints here.
        named: What a test names: the word, or what each number is.
    """
    if isinstance(found, bytes):
        return os.fsencode(other_words(os.fsdecode(found), named))
    if not isinstance(found, str):
        return found
    end = found[len(found.rstrip()) :]
    if isinstance(named, str):
        return named + end
    other = re.sub(r"\d+", lambda one: str(int(one[0]) + 1 if named is None else named), found)
    return other if other != found else f"{found.rstrip()}-other{end}"
