"""Every example of msccl-tools, over sizes, protocols, replication policies and slots."""

from __future__ import annotations

import itertools
import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import planguard

from .cases import Case, RefusedError
from .scripts import printed, revision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZES: dict[str, list[tuple[str, ...]]] = {
    "allgather_a100_pcie": [("8", "1")],
    "allgather_allpairs": [("2", "1"), ("4", "1"), ("8", "2")],
    "allgather_recursive_doubling": [("2", "1"), ("4", "1"), ("8", "2")],
    "allgather_ring": [("2", "1", "1"), ("4", "2", "1"), ("8", "4", "2")],
    "allreduce_1step": [("2", "1"), ("4", "1"), ("8", "2")],
    "allreduce_a100_allpairs": [("2", "1"), ("4", "1"), ("8", "2")],
    "allreduce_a100_allpairs_v2": [("2", "1"), ("4", "1"), ("8", "2")],
    "allreduce_a100_multinode_allpairs": [("8", "1"), ("16", "1")],
    "allreduce_a100_ncv4": [("4", "1"), ("8", "1"), ("8", "2")],
    "allreduce_a100_ncv4_v2": [("4", "1"), ("8", "1")],
    "allreduce_a100_pcie_hierarchical": [("8", "1"), ("8", "2")],
    "allreduce_a100_recursive_doubling_halving": [("1", "1"), ("2", "1")],
    "allreduce_a100_ring": [("2", "1", "1"), ("4", "2", "1"), ("8", "4", "2")],
    "allreduce_binomial_tree": [("4", "1", "1"), ("8", "2", "1")],
    "allreduce_dgx1": [("1", "1"), ("2", "1")],
    "allreduce_ndv2": [("1",), ("2",)],
    "allreduce_recursive_doubling_halving": [("2", "1"), ("4", "1"), ("8", "2")],
    "alltoall_a100_three_step": [("2", "2", "1"), ("2", "4", "1"), ("3", "2", "1")],
    "alltoall_a100_two_step": [("2", "2"), ("2", "4"), ("3", "2")],
    "alltoall_allpairs": [("2", "1"), ("4", "1"), ("8", "2")],
    "alltonext_backward": [("2", "1"), ("3", "1")],
    "alltonext_forward": [("2", "1"), ("3", "1")],
    "hierarchical_allreduce": [
        (gpus, nodes, copies, "--schedule", schedule)
        for schedule in ("auto", "manual")
        for gpus, nodes, copies in (("2", "2", "1"), ("4", "2", "1"), ("8", "2", "1"),
                                    ("4", "3", "1"), ("4", "4", "2"))
    ],
    "pipeline_a100_allpairs": [("2", "1"), ("4", "1"), ("8", "1")],
    "pipeline_a100_ring": [("2", "1", "1"), ("4", "2", "1"), ("8", "4", "1")],
    "reducegather": [("4", "2"), ("8", "2"), ("8", "4")],
    "simple/allgather_ring": [()],
    "simple/allreduce_ring": [("4", "1"), ("8", "1")],
    "simple/custom_collective": [()],
}  # fmt: skip
"""Script to positional arguments, as its own parser names them."""
PROTOCOLS = ("Simple", "LL", "LL128")
SLOTS = (1, 2, 4, 8, None)
OWN = "own policy"


def settings(folder: Path, *, quick: bool) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield script, arguments and replication policy."""
    for script, sizes in SIZES.items():
        text = (folder / f"{script}.py").read_text(encoding="utf-8")
        protocols = PROTOCOLS[:1] if quick or "--protocol" not in text else PROTOCOLS
        policies = (OWN,) if quick else (OWN, "interleaved", "batched")
        for size, protocol, policy in itertools.product(sizes, protocols, policies):
            given = (*size, "--protocol", protocol) if "--protocol" in text else size
            yield script, given, policy


@cache
def algorithm(source: Path, script: str, given: tuple[str, ...], policy: str) -> str | RefusedError:
    """Run a script and return the algorithm that it prints."""
    from msccl.language import MSCCLProgram  # type: ignore[import-not-found]

    made = MSCCLProgram.__init__

    def init(this: Any, *arguments: Any, **named: Any) -> None:
        made(this, *arguments, **named)
        if policy != OWN:
            this.interleaved_replication = policy == "interleaved"

    try:
        with mock.patch.object(MSCCLProgram, "__init__", init):
            text = printed(source / "examples" / "mscclang" / f"{script}.py", given)
    except RefusedError as error:
        return error
    begin = text.find("<algo")
    return (
        text[begin : text.find("</algo>", begin) + 7]
        if begin >= 0
        else RefusedError("prints no algorithm")
    )


def made(source: Path, script: str, given: tuple[str, ...], policy: str, slots: int | None) -> Any:
    """Return the plan of an algorithm with so many slots a connection."""
    text = algorithm(source, script, given, policy)
    if isinstance(text, RefusedError):
        raise text
    return planguard.load(text.encode(), planner="msccl", slots=slots)


def cases(*, source: Path, quick: bool) -> Iterator[Case]:
    """Yield every example, size, policy, protocol and number of slots."""
    sys.path.insert(0, str(source))
    folder = source / "examples" / "mscclang"
    for script, given, policy in settings(folder, quick=quick):
        for slots in SLOTS:
            open_ = "mpi-eager" if slots is None else "gloo"
            yield Case(
                f"{script}, {'open' if slots is None else slots} slots",
                f"{' '.join(given)} ({policy})",
                partial(made, source, script, given, policy, slots), (open_,),
            )  # fmt: skip
    _REVISION[:] = [revision(source)]


_REVISION: list[str] = []


def version() -> str:
    """Name the planner and its revision."""
    return f"msccl-tools {' '.join(_REVISION)}"
