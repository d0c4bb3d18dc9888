"""Loops that are longer on one rank: agree on the count, or turn by turn; and their order."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from planguard.repair.source.proposal import (
    SourceProposal,
    as_count,
    as_flag,
    from_first,
    gathered,
    group_of,
    is_of_host,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.source.proposal import Decision
    from planguard.repair.source.text import SourceText

_LEFT_OUT = "what a rank has beyond the shortest is left out"


def of_for(source: SourceText, node: ast.For, decision: Decision) -> Iterator[SourceProposal]:
    """Propose edits of a ``for``."""
    if source.indent(node) is None or node.orelse or source.indent(node.body[0]) is None:
        return
    group = group_of(source, node.body)
    if decision.why == "value":
        yield from _order(source, node)
    if isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "range":
        yield from _range(source, node, node.iter, group)
    else:
        yield from _sized(source, node, group)
        yield _turns(source, node, group)
    if decision.why != "value":
        yield from _order(source, node)


def of_while(source: SourceText, node: ast.While) -> Iterator[SourceProposal]:
    """Propose edits of a ``while``."""
    if source.indent(node) is None or node.orelse or source.indent(node.body[0]) is None:
        return
    group = group_of(source, node.body)
    said = source.fresh("said")
    test = as_flag(source, node.test)
    inner = (source.indent(node.body[0]) or "")[len(source.indent(node) or "") :]

    def changed(lines: tuple[str, str], ends: str, sentence: str, effect: str) -> SourceProposal:
        block = source.before(node.body[0], *lines, f"if not {ends}:", f"{inner}break")
        cuts = source.instead(node.test, "True"), block
        kind = "broadcast" if "rank 0" in sentence else "agree-flag"
        return SourceProposal(kind, source.edited(*cuts), sentence, effect)

    if is_of_host(source, node.test, node.lineno):
        yield changed(
            from_first(source, said, test),
            f"{said}[0]",
            "do what rank 0 decides: whether the loop goes on is broadcast each turn",
            "what the other ranks find for themselves no longer counts",
        )
    yield changed(
        gathered(source, said, test, group),
        f"any({said})",
        "agree on the flag each turn: the loop goes on as long as any rank has to",
        "a rank that is done runs further turns, and what it gives counts",
    )
    yield changed(
        gathered(source, said, test, group),
        f"all({said})",
        "agree on the flag each turn: the loop ends with the first rank that is done",
        _LEFT_OUT,
    )


def _range(
    source: SourceText, node: ast.For, call: ast.Call, group: str
) -> Iterator[SourceProposal]:
    if len(call.args) != 1 or call.keywords:
        return
    said = source.fresh("said")
    count = as_count(source, call.args[0])
    for word, way, effect in (
        ("max", "largest", "a rank that has less runs further turns, and what it gives counts"),
        ("min", "smallest", _LEFT_OUT),
    ):
        cuts = (
            source.before(node, *gathered(source, said, count, group)),
            source.instead(call.args[0], f"{word}({said})"),
        )
        sentence = f"agree on the count: every rank runs the {way} number of turns of all"
        yield SourceProposal("agree-count", source.edited(*cuts), sentence, effect)


def _sized(source: SourceText, node: ast.For, group: str) -> Iterator[SourceProposal]:
    said, turn = source.fresh("said"), source.fresh("turn")
    items, lines = source.of(node.iter), []
    if not isinstance(node.iter, ast.Name):
        name = source.fresh("items")
        lines.append(f"{name} = {items}")
        items = name
    lines += gathered(source, said, f"len({items})", group)
    target = _target(source, node)
    head = f"for {turn}, {target} in zip(range(min({said})), {items}):"
    cuts = source.before(node, *lines), source.head(node, node.iter, head)
    sentence = "agree on the count: every rank runs the smallest number of turns of all"
    yield SourceProposal("agree-count", source.edited(*cuts), sentence, _LEFT_OUT)


def _turns(source: SourceText, node: ast.For, group: str) -> SourceProposal:
    """Agree each turn, for what has no length."""
    said, items, end, got = (source.fresh(name) for name in ("said", "items", "end", "got"))
    inner = (source.indent(node.body[0]) or "")[len(source.indent(node) or "") :]
    cuts = (
        source.before(node, f"{items}, {end} = iter({source.of(node.iter)}), object()"),
        source.head(node, node.iter, "while True:"),
        source.before(
            node.body[0],
            f"{got} = next({items}, {end})",
            *gathered(source, said, f"{got} is {end}", group),
            f"if any({said}):",
            f"{inner}break",
            f"{source.of(node.target)} = {got}",
        ),
    )
    sentence = "agree on the flag each turn: the loop ends with the first rank that has no more"
    return SourceProposal("agree-count", source.edited(*cuts), sentence, _LEFT_OUT)


def _target(source: SourceText, node: ast.For) -> str:
    text = source.of(node.target)
    is_bare = isinstance(node.target, ast.Tuple) and not text.startswith("(")
    return f"({text})" if is_bare else text


def _order(source: SourceText, node: ast.For) -> Iterator[SourceProposal]:
    """Walk over one order on all ranks."""
    if isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") in (
        "range",
        "sorted",
        "zip",
        "enumerate",
    ):
        return
    items = source.of(node.iter)
    yield SourceProposal(
        "sort",
        source.edited(source.instead(node.iter, f"sorted({items})")),
        "sort before communicating: every rank walks over the same order",
    )
    said = source.fresh("said")
    cuts = (
        source.before(node, *from_first(source, said, f"list({items})")),
        source.instead(node.iter, f"{said}[0]"),
    )
    sentence = "do what rank 0 decides: every rank walks over what rank 0 has, in its order"
    effect = "what only another rank has is left out"
    yield SourceProposal("broadcast", source.edited(*cuts), sentence, effect)
