"""The flat program an oracle run starts from, and what it refuses to judge."""

from __future__ import annotations

from dataclasses import dataclass

COLLECTIVES = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "scan",
        "exscan",
    }
)
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
PREFIXES = frozenset({"scan", "exscan"})
REDUCING = PREFIXES | {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"}
SENDS = frozenset({"send", "isend"})
RECVS = frozenset({"recv", "irecv"})
POINT_TO_POINT = SENDS | RECVS
ANY = "any"


@dataclass(frozen=True)
class Registered:
    """An operation that a library adds, as the documentation lets it be described.

    Attributes:
        degree: `all`, or `root`: the others wait for the root only.
        agree: what its members must state alike.
        spelling: the collective of which it is another name.
    """

    degree: str = "all"
    agree: frozenset[str] = frozenset({"bytes", "dtype", "root", "reduce_op", "splits"})
    spelling: str = ""


# Operations of random plans: whoever compares verdicts has to register the same.
REGISTERED = {
    "oracle_shift": Registered(agree=frozenset({"dtype"})),
    "oracle_deal": Registered("root"),
    "oracle_collect": Registered(spelling="all_gather"),
}


class OracleUnsupported(Exception):  # noqa: N818  # the name says what happened, as KeyError does
    """The plan holds something this enumerator does not judge."""


@dataclass(frozen=True)
class Size:
    """What a plan says of the data of one operation; None is "the plan does not say"."""

    bytes: int | None = None
    dtype: str | None = None
    count: int | None = None


@dataclass(frozen=True)
class Action:
    """One action of one rank after expansion.

    Attributes:
        index: position in the rank's flat program; items of a block count as they are written.
        kind: the spelling of the plan file (`isend`, `all_reduce`, `wait`, ...).
        group: name of the concrete group; a family member is `name[0,1]`.
        sync: whether the rank waits for it at once.
        targets: flat indices of the actions a `wait`, `test` or `drop` speaks of.
        parts: the inner operations of a batch, or the tensors of a coalesced collective.
        place: where the action is written, if a reordering block holds it: program, then path.
        before: flat indices that must be issued first (the rank's partial order, not closed).
        thread: block and place of each host thread on the way down to the one that issues it; empty
            is the main program.
        mode: how MPI sends it.
        moves: whether it may change places with another call of its rank on the same communicator.
    """

    index: int
    kind: str
    group: str = "world"
    peer: int | str | None = None
    tag: int | str = 0
    root: int | None = None
    reduce_op: str | None = None
    size: Size = Size()
    in_splits: tuple[int, ...] | None = None
    out_splits: tuple[int, ...] | None = None
    label: str | None = None
    sync: bool = True
    targets: tuple[int, ...] = ()
    wait_mode: str = "all"
    stream: str | None = None
    event: str | None = None
    deps: tuple[int, ...] = ()
    parts: tuple[Action, ...] = ()
    coalesced: bool = False
    place: tuple[object, ...] | None = None
    before: frozenset[int] = frozenset()
    thread: tuple[int, ...] = ()
    mode: str = "standard"
    moves: bool = False

    @property
    def degree(self) -> str:
        """Give the built-in kind whose members wait for each other as those of this one do."""
        own = REGISTERED.get(self.kind)
        return "scatter" if own is not None and own.degree == "root" else self.kind


@dataclass(frozen=True)
class Program:
    """Every rank's flat actions and the groups they use.

    Attributes:
        groups: ordered global ranks of each concrete group.
        ranks: the actions of each rank, in order of writing.
        reorderable: whether some rank may issue its actions in more than one order.
    """

    groups: dict[str, tuple[int, ...]]
    ranks: tuple[tuple[Action, ...], ...]
    reorderable: bool = False

    @property
    def world_size(self) -> int:
        """Count the ranks."""
        return len(self.ranks)
