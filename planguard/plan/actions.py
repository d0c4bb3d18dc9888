"""The numbers of a plan's words: instruction kinds, element types, reduce operations.

What an operation is stands in ``vocabulary``.
"""

from __future__ import annotations

import enum

KIND_MASK = 63
"""Mask of the kind in an op word."""

MEMBER = 64
"""Flag of an op word: the instruction is a member of the batch launched just before it."""

ASYNC = 128
"""Flag of an op word: issuing the action does not wait for it."""

NONE = 0xFFFFFFFF
"""The absent value of an unsigned 32-bit word."""

UNKNOWN_BYTES = 0xFFFFFFFFFFFFFFFF
"""The size of an action whose plan does not say it."""


class Kind(enum.IntEnum):
    """What an instruction does; the low six bits of its op word.

    ``REPEAT`` and ``BIND`` steer the expansion and never reach the columns. The kinds 49 to 58 are
    markers: they delimit the blocks whose order, interleaving or branch is not fixed by the plan.
    ``OPERATION_1`` to ``OPERATION_7`` are given to operations that other packages register.
    """

    NOP = 0
    SEND = 1
    RECV = 2
    SSEND = 3
    BSEND = 4
    PROBE = 5
    ALL_REDUCE = 8
    ALL_GATHER = 9
    ALL_GATHER_INTO_TENSOR = 10
    REDUCE_SCATTER = 11
    REDUCE_SCATTER_TENSOR = 12
    BROADCAST = 13
    REDUCE = 14
    GATHER = 15
    SCATTER = 16
    ALL_TO_ALL = 17
    ALL_TO_ALL_SINGLE = 18
    BARRIER = 19
    SCAN = 20
    EXSCAN = 21
    COALESCED_ALL_REDUCE = 22
    COALESCED_ALL_GATHER = 23
    COALESCED_REDUCE_SCATTER = 24
    OPERATION_1 = 25
    OPERATION_2 = 26
    OPERATION_3 = 27
    OPERATION_4 = 28
    OPERATION_5 = 29
    OPERATION_6 = 30
    OPERATION_7 = 31
    WAIT = 32
    WAIT_MANY = 33
    TEST = 34
    DROP = 35
    BATCH = 36
    COMPUTE = 37
    HOST_SYNC = 38
    EVENT_RECORD = 39
    EVENT_WAIT = 40
    INIT = 41
    NEW_GROUP = 42
    DESTROY = 43
    COPY = 44
    EXIT = 45
    REPEAT = 48
    UNORDERED_BEGIN = 49
    UNORDERED_END = 50
    CHAIN_BEGIN = 51
    CHAIN_END = 52
    THREADS_BEGIN = 53
    THREADS_END = 54
    CHOICE_BEGIN = 55
    BRANCH_BEGIN = 56
    CHOICE_END = 57
    AFTER = 58
    BIND = 59


class RefType(enum.IntEnum):
    """What a communication reference names: a collective group, or one side of a channel."""

    GROUP = 0
    SEND = 1
    RECV = 2


class PeerMode(enum.IntEnum):
    """How a reference names its peer: a global rank, a step along a mesh dimension, any rank."""

    ABSOLUTE = 0
    RELATIVE = 1
    ANY = 2


class WaitMode(enum.IntEnum):
    """How many of its handles a ``wait`` needs."""

    all = 0
    any = 1
    some = 2


ITEM_BYTES: dict[str, int] = {
    "f64": 8,
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "f8": 1,
    "i64": 8,
    "i32": 4,
    "i16": 2,
    "i8": 1,
    "u8": 1,
    "bool": 1,
}
"""Bytes per element of every element type a plan may name."""

DTYPE_CODE: dict[str, int] = {name: code for code, name in enumerate(ITEM_BYTES, start=1)}
"""Element type to its code in ``CompiledPlan.sig_dtype``; 0 means that the plan does not say."""

DTYPE_NAME: tuple[str, ...] = ("", *ITEM_BYTES)
"""The inverse of ``DTYPE_CODE``."""


class ReduceOp(enum.IntEnum):
    """Reduce operations in torch spelling, and those that only MPI has.

    An operation that reduces and names none means ``sum``, torch's default argument.
    """

    none = 0
    sum = 1
    avg = 2
    product = 3
    min = 4
    max = 5
    band = 6
    bor = 7
    bxor = 8
    premul_sum = 9
    land = 10
    lor = 11
    lxor = 12
    minloc = 13
    maxloc = 14


REDUCE_NAMES: tuple[str, ...] = ("", *(op.name for op in ReduceOp if op))
"""Name of every reduce operation by its code; empty where there is none."""


OPERATION_KINDS = tuple(kind for kind in Kind if kind.name.startswith("OPERATION_"))
"""The kinds for operations that other packages register."""

REGISTERED_NAME: dict[int, str] = {}
"""Name of the operation that has one of the ``OPERATION_KINDS``; ``operations`` keeps it."""

# A block of numbers, so that the kernels tell a collective by two comparisons.
_FIRST_COLLECTIVE, _LAST_COLLECTIVE = 8, 31
_FIRST_MESSAGE, _LAST_MESSAGE = int(Kind.SEND), int(Kind.PROBE)

SEND_KINDS = frozenset({Kind.SEND, Kind.SSEND, Kind.BSEND})
"""Kinds that send; the other point-to-point kinds receive or look."""

MARKERS = frozenset(Kind(code) for code in range(Kind.UNORDERED_BEGIN, Kind.AFTER + 1))
"""Instructions that delimit undecided order; they occupy an entry but do nothing."""


def is_collective(kind: int) -> bool:
    """Return whether an instruction kind (flags removed) is a collective, coalesced or not."""
    return _FIRST_COLLECTIVE <= kind <= _LAST_COLLECTIVE


def is_point_to_point(kind: int) -> bool:
    """Return whether an instruction kind (flags removed) is a send, a receive or a probe."""
    return _FIRST_MESSAGE <= kind <= _LAST_MESSAGE


COMMUNICATIONS = frozenset(
    int(kind) for kind in Kind if is_point_to_point(kind) or is_collective(kind)
)
"""Kinds that exchange data, as numbers: asked of every word, a set is faster than a function."""
ON_GROUPS = COMMUNICATIONS | {int(Kind.INIT)}
"""Kinds whose first word is the reference of a group."""
LAUNCHES = COMMUNICATIONS | {int(Kind.BATCH)}
"""Kinds that can be in flight."""


def kind_name(kind: int) -> str:
    """Return the name of an instruction kind (flags removed), in the words of plan files."""
    return REGISTERED_NAME.get(kind) or Kind(kind).name.lower()
