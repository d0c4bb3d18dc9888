"""Values that differ where no line does: sizes, splits, shapes, and the group of a thread."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from planguard.repair.source.proposal import SourceProposal, from_first, is_communication

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.source.text import SourceText

_MOST = 4  # names of a statement that are tried


def of_value(source: SourceText, node: ast.stmt) -> Iterator[SourceProposal]:
    """Propose edits of a statement that sets what a call is given."""
    yield from _splits(source, node)
    function = source.function(node)
    if function is None:
        return
    around = [node, *source.around(node)]
    top = next(one for one in function.body if one in around)
    if source.indent(top) is None:
        return
    for name in _read(node, function, top)[:_MOST]:
        yield _of_first(source, top, name, is_behind=False)
    # What is set comes last: it may be data, where what it was made of is a size.
    if node in function.body and isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Name) and source.indent(node) is not None:
            yield _of_first(source, node, target.id, is_behind=True)


def _of_first(source: SourceText, at: ast.stmt, name: str, *, is_behind: bool) -> SourceProposal:
    said = source.fresh("said")
    lines = (*from_first(source, said, name), f"{name} = {said}[0]")
    cut = source.after(at, *lines) if is_behind else source.before(at, *lines)
    sentence = f"do what rank 0 decides: its {name} is broadcast"
    effect = f"what the other ranks have as {name} no longer counts"
    return SourceProposal("broadcast", source.edited(cut), sentence, effect)


def _read(
    node: ast.stmt,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    top: ast.stmt,
) -> list[str]:
    """Return what a statement reads that the function had before another statement."""
    known = {one.arg for one in function.args.args}
    for one in function.body[: function.body.index(top)]:
        targets = one.targets if isinstance(one, ast.Assign) else []
        known.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
    head = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    names = [
        n.id
        for child in head
        for n in ast.walk(child)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    ]
    return [name for name in dict.fromkeys(names) if name in known]


def _splits(source: SourceText, node: ast.stmt) -> Iterator[SourceProposal]:
    """Exchange the splits of an uneven exchange before it."""
    for call in (one for one in ast.walk(node) if isinstance(one, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if "all_to_all_single" not in name:
            continue
        roots = [_root(one) for one in call.args[2:4]] or [
            _root(key.value)
            for word in ("output_split_sizes", "input_split_sizes")
            for key in call.keywords
            if key.arg == word
        ]
        function = source.function(call)
        if len(roots) != 2 or None in roots or function is None:
            continue
        expected, sent = roots
        sets = [
            one
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and one.lineno < call.lineno
            and any(isinstance(t, ast.Name) and t.id == expected for t in one.targets)
        ]
        if not sets or expected == sent or source.indent(sets[-1]) is None:
            continue
        cuts = (
            source.instead(sets[-1].value, f"{sent}.new_empty({sent}.shape)"),
            source.after(sets[-1], f"{source.dist}.all_to_all_single({expected}, {sent})"),
        )
        sentence = "agree on the counts: what each rank sends is exchanged before the data"
        yield SourceProposal("agree-count", source.edited(*cuts), sentence)


def _root(node: ast.expr) -> str | None:
    """Return the name that an expression such as ``recv.tolist()`` begins with."""
    while not isinstance(node, ast.Name):
        inner = getattr(node, "func", None) or getattr(node, "value", None)
        if not isinstance(inner, ast.expr):
            return None
        node = inner
    return node.id


# --- threads -------------------------------------------------------------------------------------


def of_thread(source: SourceText, node: ast.stmt) -> Iterator[SourceProposal]:
    """Propose a group of its own for a thread that communicates."""
    function = source.function(node)
    for call in ast.walk(function if function is not None else source.tree):
        is_thread = isinstance(call, ast.Call) and (
            getattr(call.func, "attr", getattr(call.func, "id", "")) == "Thread"
        )
        if is_thread and isinstance(call, ast.Call):
            yield from _passed(source, call)
            yield from _given(source, call)


_SENTENCE = "a group of its own: the thread no longer meets the calls of the main thread"


def _passed(source: SourceText, thread: ast.Call) -> Iterator[SourceProposal]:
    """Make a group where the thread is handed the default one."""
    function = source.function(thread)
    given = next((key.value for key in thread.keywords if key.arg == "args"), None)
    if given is None or function is None:
        return
    names = {one.id for one in ast.walk(given) if isinstance(one, ast.Name)}
    values = [one for one in ast.walk(given) if isinstance(one, ast.Attribute)]
    values += [
        one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Attribute)
        and any(isinstance(t, ast.Name) and t.id in names for t in one.targets)
    ]
    for value in values:
        if source.of(value) == f"{source.dist}.group.WORLD":
            cut = source.instead(value, f"{source.dist}.new_group()")
            yield SourceProposal("group", source.edited(cut), _SENTENCE)


def _given(source: SourceText, thread: ast.Call) -> Iterator[SourceProposal]:
    """Hand a new group to a function of the file whose calls name none."""
    target = next((key.value for key in thread.keywords if key.arg == "target"), None)
    started = next(
        (one for one in [thread, *source.around(thread)] if isinstance(one, ast.stmt)), None
    )
    run = next(
        (
            one
            for one in ast.walk(source.tree)
            if isinstance(one, ast.FunctionDef)
            and isinstance(target, ast.Name)
            and one.name == target.id
        ),
        None,
    )
    if run is None or started is None or source.indent(started) is None:
        return
    calls = [
        one
        for one in ast.walk(run)
        if isinstance(one, ast.Call)
        and is_communication(source, one)
        and not any(key.arg == "group" for key in one.keywords)
    ]
    if not calls or run.args.kwarg or run.args.kwonlyargs or run.args.vararg:
        return
    if any(key.arg == "kwargs" for key in thread.keywords):
        return
    group, own = source.fresh("group"), source.fresh("own")
    cuts = [source.before(started, f"{own} = {source.dist}.new_group()")]
    for call in (*calls, thread):
        last = source.span(call)[1] - 1
        more = f'kwargs={{"{group}": {own}}}' if call is thread else f"group={group}"
        comma = ", " if call.args or call.keywords else ""
        cuts.append(type(cuts[0])(last, last, comma + more))
    arguments = run.args.args
    if arguments:
        end = source.span(run.args.defaults[-1] if run.args.defaults else arguments[-1])[1]
        cuts.append(type(cuts[0])(end, end, f", {group}=None"))
    else:
        head = source.span(run)[0]
        at = head + source.of(run).encode().index(b"(") + 1
        cuts.append(type(cuts[0])(at, at, f"{group}=None"))
    yield SourceProposal("group", source.edited(*cuts), _SENTENCE)
