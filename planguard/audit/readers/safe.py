"""Decoding bytes that come from somebody else's incident: nothing runs, nothing grows.

Flight Recorder dumps are pickles. A real one holds no global and no reduction at all, so this
reader refuses every one of them and loses nothing. What a pickle may still do is ask for memory: a
memo index of four billion makes the standard unpickler allocate a table of that length. It is
therefore read under a limit of the address space. Or for time: a key of nested tuples that share
their parts is hashed for ever, and no signal ends that. Keys other than short text, and sets, which
no recording holds, are therefore refused before the unpickler sees them.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from planguard import kernels
from planguard.errors import PlanError, shorten
from planguard.garbage import no_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_BYTES = 512 << 20
"""Largest input, compressed or not."""
SLACK = 256 << 20
"""Address space that reading may take beyond a multiple of the input's size."""
SMALL = 1 << 20
"""Bytes of a pickle below which the kernel that follows it needs no limit of its memory."""
GROWTH = 48
"""Largest ratio of objects in memory to bytes of a pickle; real dumps need about 8."""

JSON_FORM = "use the JSON form of the recording"
"""What to do about a refused dump of the Flight Recorder."""

_SETS = b"\x8f\x90\x91"
_SETS_AND_KEYS = _SETS + b"dsu"
_limit_lock = threading.Lock()


class _NoGlobals(pickle.Unpickler):
    """An unpickler that knows no class, no function and no persistent object."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise _Refused(f"it needs the global {shorten(f'{module_name}.{global_name}')}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _Refused("it refers to an object outside of the file")


class _Refused(pickle.UnpicklingError):
    """A pickle that asks for code."""


def load_pickle(data: bytes, file: str, hint: str = JSON_FORM) -> Any:
    """Return what a pickle holds: dicts, lists, tuples, strings, numbers, nothing else.

    Args:
        data: The pickle.
        file: Where it is, for errors.
        hint: What to do where it is refused.

    Raises:
        PlanError: The pickle needs code or endless time (PG905), or cannot be read.
    """
    _expect_plain_keys(data, file, hint)
    try:
        with _address_space(len(data) * GROWTH + SLACK), no_collection():
            # With a peek method the unpickler reads ahead instead of calling once per opcode.
            return _NoGlobals(io.BufferedReader(io.BytesIO(data), 1 << 17)).load()
    except _Refused as error:
        raise PlanError(
            f"pickle refused before anything in it was executed: {error}",
            code="PG905",
            file=file,
            hint=hint,
        ) from None
    except MemoryError:
        raise PlanError(
            "pickle refused: it asks for more memory than a recording of its size needs",
            code="PG905",
            file=file,
            hint=f"record again, or {hint}",
        ) from None
    except Exception as error:  # noqa: BLE001  the unpickler raises nearly every exception there is
        raise PlanError(
            f"not a readable pickle: {type(error).__name__}",
            file=file,
            hint="is the file complete?",
        ) from None


def dump_columns(data: bytes, known: dict[bytes, Any]) -> tuple[Any, ...] | None:
    """Return the columns of a plain Flight Recorder dump; None where ``load_pickle`` has to say.

    No pickle is loaded: the kernel that follows it refuses what recorders do not write.
    """
    # What the kernel keeps grows with the bytes, so a small dump cannot ask for much: to say so to
    # the system takes longer than to read one.
    read: Callable[..., tuple[Any, ...] | None] = kernels.current().dump_columns
    if len(data) <= SMALL:
        return read(data, known)
    try:
        with _address_space(len(data) * GROWTH + SLACK), no_collection():
            return read(data, known)
    except MemoryError:
        return None


def _expect_plain_keys(data: bytes, file: str, hint: str) -> None:
    place = kernels.current().refused_opcode(data)
    if place < 0:
        return
    if data[place] in _SETS_AND_KEYS:
        what = "a set" if data[place] in _SETS else "a dictionary key that is no short text"
        before = "pickle refused before anything in it was executed"
        raise PlanError(
            f"{before}: it makes {what}, at byte {place:,}",
            code="PG905",
            file=file,
            hint=f"no recording holds one; {hint}",
        )
    raise PlanError(
        f"not a readable pickle: malformed at byte {place:,}", file=file, hint="is it complete?"
    )


@contextlib.contextmanager
def _address_space(more: int) -> Iterator[None]:
    """Let the process grow by so many bytes at most, where the system can limit that."""
    try:
        import resource

        size = int(_statm().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        yield
        return
    with _limit_lock:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = size + more
        for known in (soft, hard):
            if known != resource.RLIM_INFINITY:
                limit = min(limit, known)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _statm() -> bytes:
    # Not through a file object: this is asked for each of thousands of files.
    file = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return os.read(file, 200)
    finally:
        os.close(file)


def decode_json(data: bytes, kind: Any, file: str) -> Any:
    """Return JSON as a typed object; what the type does not name is skipped.

    Raises:
        PlanError: Not JSON, nested too deep, or a value of a wrong type.
    """
    import msgspec

    from planguard.records import decoder_of

    try:
        decoder_of(kind)  # its fields are known from here on, to every thread
        return msgspec.json.decode(data, type=kind, strict=False)
    except RecursionError:
        raise PlanError("JSON nested too deep", file=file) from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise PlanError(
            f"not a readable recording: {shorten(str(error), 200)}", file=file
        ) from None
