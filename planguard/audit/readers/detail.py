"""Mismatches that ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` sees: what each side says that it calls.

Format: ``CollectiveFingerPrint`` of ``ProcessGroupWrapper.cpp``, torch 1.9 to 2.14.
"""

from __future__ import annotations

import re

from planguard.audit.readers.names import element_type, operation
from planguard.recording import Call

_FINGERPRINT = re.compile(
    r"Rank (?P<place>\d{1,7}) is running collective: CollectiveFingerPrint\((?P<own>.*?)\)?, "
    r"but Rank (?P<other>\d{1,7}) is running collective(?:: CollectiveFingerPrint\("
    r"(?P<theirs>.*?)\)\.?(?:Collectives differ|$))?"
)
_PRINT_SEQ = re.compile(r"SequenceNumber=(\d{1,15})")
_PRINT_OP = re.compile(r"OpType=(\w{1,40})")
_PRINT_SHAPE = re.compile(r"TensorShape=\[([\d, ]*)\]")
_PRINT_TYPE = re.compile(r"TensorDtypes=(\w+)")
_BARE = ("ALLREDUCE_COALESCED", "REDUCE")
"""What torch prints of a call without tensors in place of its name: a description of length 2, and
of length 3 since it holds the number of the call (2.0)."""
BARE = (
    "torch prints no more of the call of rank {} than that it has no tensor: it is taken for a "
    "barrier"
)
Side = tuple[int, int, Call]
"""One side of a mismatch: place, round and call."""


def mismatch(text: str) -> tuple[Side, Side | None, str] | None:
    """Return what a line says of a mismatch: its speaker, and the other side if it can be trusted.

    Returns:
        Both sides, and what had to be assumed to read the other one so, or "".
    """
    said = _FINGERPRINT.search(text)
    if said is None:
        return None
    own = _side(said["place"], said["own"])
    return own, *_trusted(said, own)


def _trusted(said: re.Match[str], own: Side) -> tuple[Side | None, str]:
    """Return the other side of a mismatch as far as its text is its own, and what is doubtful.

    Before the descriptions of calls torch compares their lengths, and where these differ it prints
    the length as if it were a description: ``OpType(length)``, number 0, no tensor
    (``verify`` and ``verify_tensors`` of ``ProcessGroupWrapper.cpp``). A side with a tensor or a
    number is therefore real; torch 2.0 prints nobody's tensors but the speaker's
    (pytorch/pytorch#100207). Sides of other numbers do not say which of their calls meet.
    """
    if said["theirs"] is None:
        return None, ""
    other = _side(said["other"], said["theirs"])
    number = _PRINT_SEQ.search(said["theirs"])
    has_tensors, is_bare = own[2].shape is not None, other[2].shape is None
    if not is_bare or (number is not None and int(number[1])):
        is_real = own[1] == other[1] and (has_tensors or is_bare)
        return (other if is_real else None), ""
    # Number 0 of a speaker whose own is 0 may be that of torch 2.0, and its operation real.
    is_length = has_tensors and (number is None or own[1] > 1)
    if is_length and _PRINT_OP.findall(said["theirs"]) == [_BARE[number is not None]]:
        return (int(said["other"]), own[1], Call("barrier")), BARE.format(said["other"])
    return None, ""


def _side(place: str, own: str) -> Side:
    """Return one side of a mismatch."""
    seq, op = _PRINT_SEQ.search(own), _PRINT_OP.search(own)
    shape, dtype = _PRINT_SHAPE.search(own), _PRINT_TYPE.search(own)
    sizes = tuple(map(int, re.findall(r"\d{1,15}", shape[1]))) if shape is not None else None
    name = operation(op[1].lower()) if op is not None else "?"
    count: int | None = None
    if sizes is not None and len(sizes) <= 64:
        count = 1
        for size in sizes:
            count *= size
    call = Call(
        name,
        count=count if count is not None and count < 1 << 62 else None,
        dtype=element_type(dtype[1]) if dtype is not None else None,
        shape=sizes,
    )
    return int(place), int(seq[1]) + 1 if seq is not None else 1, call
