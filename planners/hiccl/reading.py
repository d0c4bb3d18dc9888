"""The JSON ``planguard.hiccl/1`` to records; every defect is a PlanError with its path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError
from planguard.plan.vocabulary import ROOTED

from ..common.reading import At, load_json
from .model import Composition, Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "planguard.hiccl/1"
MAX_RANKS = 1 << 14
MAX_LEVELS = 32
MAX_TRANSFERS = 1 << 19
_TOO_MANY = f"more than {MAX_TRANSFERS:,} messages"
_OWN = ("levels", "collective", "compose", "bytes", "root", "stripe", "ring", "pipeline")
COLLECTIVES = (
    "broadcast", "reduce", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce",
    "all_to_all",
)  # fmt: skip


def read_composition(obj: object) -> tuple[str, str, list[Composition]]:
    """Read a description from a path, gzipped or not, or from the parsed object.

    Returns:
        The file, the name, and what every rank believes the collective to be.

    Raises:
        PlanError: It is malformed; the message has the JSON path, the value and a hint.
    """
    top = _document(obj)
    found = top.fields("schema", "name", "ranks", *_OWN)
    if "schema" not in found or found["schema"].value != SCHEMA:
        top.fail(f"expected the schema {SCHEMA!r}")
    own = {name: at for name, at in found.items() if name in _OWN}
    common = _composition(top, own)
    everyone, messages = [common] * common.ranks, common.messages
    for selector, at in found["ranks"].items() if "ranks" in found else ():
        if not (selector.isascii() and selector.isdigit() and int(selector) < common.ranks):
            at.fail(f"{selector!r} is no rank", hint=f"ranks are 0 to {common.ranks - 1}")
        other = _composition(at, own | at.fields(*_OWN))
        if other.ranks != common.ranks:
            at.fail("the levels of this rank make another number of ranks")
        messages += other.messages
        if messages > MAX_TRANSFERS:
            at.fail(_TOO_MANY, hint="let fewer ranks differ, or describe a smaller one")
        everyone[int(selector)] = other
    name = found["name"].text(200) if "name" in found else "hierarchical collective"
    return top.file or "collective.json", name, everyone


def _document(obj: object) -> At:
    if isinstance(obj, dict):
        return At(obj)
    if isinstance(obj, str | Path):
        return load_json(Path(obj))
    raise PlanError(
        "not a description of a collective",
        value=type(obj).__name__,
        hint="give its JSON file, or the parsed object",
    )


def _composition(at: At, found: dict[str, At]) -> Composition:
    if "levels" not in found:
        at.fail("'levels' is missing", hint="for example [2, 8]: 2 nodes of 8 GPUs")
    levels = tuple(found["levels"].integers(1, MAX_RANKS))
    ranks = Composition(levels[:MAX_LEVELS], ()).ranks
    if not 0 < len(levels) <= MAX_LEVELS or ranks > MAX_RANKS:
        found["levels"].fail(
            f"expected levels, at most {MAX_LEVELS}, that make at most {MAX_RANKS} ranks"
        )
    if ("collective" in found) == ("compose" in found):
        at.fail("give either 'collective' or 'compose'")
    stages = (
        tuple(_stages(found["compose"], ranks))
        if "compose" in found
        else _collective(at, found, ranks)
    )
    composition = Composition(
        levels,
        stages,
        stripe=found["stripe"].integer(1, levels[-1]) if "stripe" in found else 1,
        ring=found["ring"].flag() if "ring" in found else False,
        pipeline=found["pipeline"].integer(1, 1 << 10) if "pipeline" in found else 1,
    )
    if composition.messages > MAX_TRANSFERS:
        at.fail(_TOO_MANY, hint="describe a smaller one")
    return composition


def _stages(at: At, ranks: int) -> Iterator[tuple[Primitive, ...]]:
    """Yield the stages of ``compose``: a list of primitives, with ``"fence"`` between stages."""
    stage: list[Primitive] = []
    for element in at.each():
        if element.value == "fence":
            yield tuple(stage)
            stage = []
        else:
            stage.append(_primitive(element, ranks))
    yield tuple(stage)


def _primitive(at: At, ranks: int) -> Primitive:
    found = at.fields("op", "root", "ranks", "bytes")
    if found.keys() != {"op", "root", "ranks", "bytes"}:
        at.fail("a primitive has 'op', 'root', 'ranks' and 'bytes'")
    if found["op"].text(20) not in {"multicast", "reduction"}:
        found["op"].fail("expected 'multicast' or 'reduction', or the string \"fence\" instead")
    root = found["root"].integer(0, ranks - 1)
    others = found["ranks"].integers(0, ranks - 1)
    if len(set(others)) < len(others):
        found["ranks"].fail("a rank is there twice")
    named = tuple(one for one in others if one != root)
    return Primitive(found["op"].value, root, named, found["bytes"].integer(1), at.path)


def _collective(at: At, found: dict[str, At], ranks: int) -> tuple[tuple[Primitive, ...], ...]:
    name = found["collective"].text(40)
    if name not in COLLECTIVES:
        found["collective"].fail("unknown collective", hint=f"known: {', '.join(COLLECTIVES)}")
    if "bytes" not in found:
        at.fail("'bytes' is missing", hint="the whole buffer of a rank")
    if "root" in found and name not in ROOTED:
        found["root"].fail(f"{name} has no root", hint=f"only {', '.join(sorted(ROOTED))} do")
    root = found["root"].integer(0, ranks - 1) if "root" in found else 0
    size = found["bytes"].integer(1)
    if name not in {"broadcast", "reduce"} and size < ranks:
        found["bytes"].fail(f"fewer bytes than ranks ({ranks})")
    if name not in ROOTED and ranks * ranks > MAX_TRANSFERS:  # before they are made
        at.fail(_TOO_MANY, hint="describe a smaller one")
    return compose(name, root, size, ranks, found["collective"].path)


def compose(
    name: str, root: int, size: int, ranks: int, place: str
) -> tuple[tuple[Primitive, ...], ...]:
    """Return the stages that HiCCL composes a collective of.

    Args:
        name: One of ``COLLECTIVES``.
        root: Root of those that have one.
        size: Bytes of the whole buffer of a rank.
        ranks: Number of ranks.
        place: JSON path of the name.
    """
    everyone = tuple(range(ranks))
    part = size // ranks

    def others(rank: int) -> tuple[int, ...]:
        return everyone[:rank] + everyone[rank + 1 :]

    def multicast(src: int, dst: tuple[int, ...], bytes_: int = part) -> Primitive:
        return Primitive("multicast", src, dst, bytes_, place)

    def reduction(dst: int, bytes_: int = part) -> Primitive:
        return Primitive("reduction", dst, others(dst), bytes_, place)

    if name == "all_reduce":
        return tuple(map(reduction, everyone)), tuple(multicast(o, others(o)) for o in everyone)
    if name == "broadcast":
        return ((multicast(root, others(root), size),),)
    if name == "reduce":
        return ((reduction(root, size),),)
    if name == "scatter":
        return (tuple(multicast(root, (one,)) for one in others(root)),)
    if name == "gather":
        return (tuple(multicast(one, (root,)) for one in others(root)),)
    if name == "all_gather":
        return (tuple(multicast(one, others(one)) for one in everyone),)
    if name == "reduce_scatter":
        return (tuple(map(reduction, everyone)),)
    return (tuple(multicast(one, (other,)) for one in everyone for other in others(one)),)
