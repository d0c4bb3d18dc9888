"""Branches that one rank takes alone: agree on the flag, or do what rank 0 decides."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from planguard.repair.source.proposal import (
    SourceProposal,
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

_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def of_if(source: SourceText, node: ast.If, decision: Decision) -> Iterator[SourceProposal]:
    """Propose edits of an ``if``."""
    if source.indent(node) is None:  # an elif, or behind a semicolon
        return
    group = group_of(source, [*node.body, *node.orelse])
    yield from _groups(source, node)
    first = list(_first_rank(source, node, group))
    is_host = is_of_host(source, node.test, node.lineno)
    if is_host:
        yield from first
    enters = _is_wanted(node, decision)
    if gives_up(node):  # nobody is to hide it from the others
        yield _agreed(source, node, group, is_any=True)
        return
    if enters:
        yield from _along(source, node, group)
    yield _agreed(source, node, group, is_any=enters)
    if enters:
        yield from _stands_in(source, node, decision)
    yield from () if is_host else first
    yield _agreed(source, node, group, is_any=not enters)


def _is_wanted(node: ast.If, decision: Decision) -> bool:
    """Tell whether the rank that enters the body is the one that issues more."""
    inside = [
        line is not None and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
        for line in decision.goes_on
    ]
    if inside[0] == inside[1]:
        return True
    body, rest = decision.issues if inside[0] else decision.issues[::-1]
    return body >= rest


def gives_up(node: ast.stmt) -> bool:
    """Tell whether a statement is an ``if`` whose body ends the rank."""
    if not isinstance(node, ast.If):
        return False
    last = node.body[-1]
    if isinstance(last, ast.Raise):
        return True
    called = getattr(getattr(last, "value", None), "func", None)
    return getattr(called, "attr", getattr(called, "id", "")) in ("exit", "_exit", "abort")


def _agreed(source: SourceText, node: ast.If, group: str, *, is_any: bool) -> SourceProposal:
    said = source.fresh("said")
    word = "any" if is_any else "all"
    cuts = (
        source.before(node, *gathered(source, said, as_flag(source, node.test), group)),
        source.instead(node.test, f"{word}({said})"),
    )
    way = "when any rank does" if is_any else "only when all ranks do"
    effect = (
        "a rank whose own condition is false runs the branch too, and what it gives counts"
        if is_any
        else "a rank whose own condition is true leaves the branch out where another's is false"
    )
    sentence = f"agree on the flag: every rank takes the branch {way}"
    return SourceProposal("agree-flag", source.edited(*cuts), sentence, effect)


def _along(source: SourceText, node: ast.If, group: str) -> Iterator[SourceProposal]:
    """Run the branch on all ranks; who did not want it keeps its own values."""
    plain = {
        target.id
        for one in ast.walk(ast.Module(node.body, []))
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    function = source.function(node)
    known = _bound_before(function, node) if function is not None else set()
    kept = sorted(plain & known)
    leaves = any(isinstance(one, _LEAVES) for one in ast.walk(ast.Module(node.body, [])))
    if not kept or leaves or node.orelse or source.indent(node.body[0]) is None:
        return
    said, mine, before = (source.fresh(name) for name in ("said", "mine", "before"))
    names = ", ".join(kept)
    cuts = (
        source.before(
            node,
            f"{mine} = {as_flag(source, node.test)}",
            *gathered(source, said, mine, group),
        ),
        source.instead(node.test, f"any({said})"),
        source.before(node.body[0], f"{before} = {names}"),
        source.after(node.body[-1], f"if not {mine}:", f"    {names} = {before}"),
    )
    sentence = (
        "run a dummy: every rank runs the branch when any does, and one that would not have "
        f"keeps its own {names}"
    )
    yield SourceProposal("dummy", source.edited(*cuts), sentence)


def _stands_in(source: SourceText, node: ast.If, decision: Decision) -> Iterator[SourceProposal]:
    """Give what adds nothing where the branch is not taken: the calls of the branch, with zeros."""
    calls = decision.neutral[0 if decision.issues[0] > decision.issues[1] else 1]
    has_torch = any(
        isinstance(one, ast.Import) and any(n.name == "torch" and not n.asname for n in one.names)
        for one in source.tree.body
    )
    if not calls or min(decision.issues) or node.orelse or not has_torch:
        return
    inner = (source.indent(node.body[0]) or "")[len(source.indent(node) or "") :]
    if not inner:
        return
    rows = [f"{inner}{one.format(dist=source.dist)}" for one in calls]
    cut = source.after(node.body[-1], *rows)
    outer = source.indent(node) or ""
    lines = "".join(f"{outer}{row}\n" for row in ("else:", *rows))
    is_open = cut.text.startswith("\n")
    yield SourceProposal(
        "dummy",
        source.edited(type(cut)(cut.first, cut.last, "\n" * is_open + lines)),
        "run a dummy: a rank that leaves the branch out gives zeros to its calls",
        "their sizes are those of these samples; where the data lies on a device, so must they",
    )


def _bound_before(function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.stmt) -> set[str]:
    """Return names that the statements before a statement of a function surely bind."""
    arguments = function.args
    found = {one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}

    def walk(body: list[ast.stmt]) -> bool:
        for one in body:
            if one is node:
                return True
            for block in ("body", "orelse", "finalbody"):
                inner = getattr(one, block, None)
                if isinstance(inner, list) and any(n is node for i in inner for n in ast.walk(i)):
                    return walk(inner)
            targets = one.targets if isinstance(one, ast.Assign) else []
            found.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        return False

    walk(function.body)
    return found


def _first_rank(source: SourceText, node: ast.If, group: str) -> Iterator[SourceProposal]:
    if group:  # rank 0 need not be a member
        return
    said = source.fresh("said")
    cuts = (
        source.before(node, *from_first(source, said, as_flag(source, node.test))),
        source.instead(node.test, f"{said}[0]"),
    )
    sentence = "do what rank 0 decides: its flag is broadcast"
    effect = "what the other ranks find for themselves no longer counts"
    yield SourceProposal("broadcast", source.edited(*cuts), sentence, effect)


def _groups(source: SourceText, node: ast.If) -> Iterator[SourceProposal]:
    """Create groups on all ranks, before the branch that uses them."""
    made = [
        one
        for one in node.body
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and getattr(one.value.func, "attr", "") == "new_group"
        and source.indent(one) is not None
    ]
    if not made or len(made) == len(node.body):
        return
    cuts = [source.before(node, *(source.of(one) for one in made)), *map(source.without, made)]
    sentence = "create the group on all ranks: new_group is a call of every rank of the job"
    yield SourceProposal("new-group", source.edited(*cuts), sentence)


def of_try(source: SourceText, node: ast.stmt, decision: Decision) -> Iterator[SourceProposal]:
    """Propose to agree whether any rank failed, where one catches an exception alone."""
    for around in (node, *source.around(node)):
        if not isinstance(around, ast.Try) or len(around.handlers) != 1:
            continue
        handler = around.handlers[0]
        lines = {decision.line, *decision.goes_on}
        is_meant = bool(lines & {handler.lineno, handler.body[0].lineno})
        named = any(isinstance(n, ast.Name) and n.id == handler.name for n in ast.walk(handler))
        shaped = not around.orelse and not around.finalbody and not named
        if not is_meant or not shaped or source.indent(around) is None:
            continue
        if source.indent(handler.body[0]) is None:
            continue
        said, failed = source.fresh("said"), source.fresh("failed")
        outer, inner = source.indent(around) or "", source.indent(handler.body[0]) or ""
        lines_ = [f"{failed} = True"]
        cut = source.before(handler.body[0], *lines_)
        agreed = "".join(f"{outer}{row}\n" for row in gathered(source, said, failed))
        text = f"{cut.text}{agreed}{outer}if any({said}):\n"
        assert inner  # noqa: S101  a handler's block is indented
        yield SourceProposal(
            "agree-flag",
            source.edited(
                source.before(around, f"{failed} = False"), type(cut)(cut.first, cut.last, text)
            ),
            "agree on the flag: every rank does what the handler does when any rank caught it",
            "a rank that caught nothing leaves its own result out where another rank failed",
        )
        return
