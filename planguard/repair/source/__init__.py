"""Patches of a program's source for ranks that part: proposals, none of them proved here.

Six patterns cover nearly all mends of such programs: agree on a count or a flag, run along as a
dummy, do what rank 0 decides, sort before communicating, a group of one's own, create groups on all
ranks. Each is an edit at the line of the decision; whether it helps is for the caller to prove
(``capture.patches`` plays the edited step again, with all samples).
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from planguard.repair.source.counts import of_for, of_while
from planguard.repair.source.flags import gives_up, of_if, of_try
from planguard.repair.source.proposal import Decision, SourceProposal
from planguard.repair.source.text import SourceText, unified
from planguard.repair.source.values import of_thread, of_value

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Decision", "SourceProposal", "SourceText", "proposals", "unified"]


def proposals(source: SourceText, decision: Decision) -> Iterator[SourceProposal]:
    """Return edits at the line of a decision, those first that change least.

    Args:
        source: The file of the decision.
        decision: Where two ranks part, and how.
    """
    known = {source.text}
    for proposal in _all(source, decision):
        if proposal.text not in known:
            known.add(proposal.text)
            yield proposal


def _all(source: SourceText, decision: Decision) -> Iterator[SourceProposal]:
    node = source.statement(decision.line)
    if node is None:
        return
    if decision.why == "thread":
        yield from of_thread(source, node)
        return
    found: list[Iterator[SourceProposal]] = [of_try(source, node, decision)]
    if isinstance(node, ast.If):
        found.append(of_if(source, node, decision))
    elif isinstance(node, ast.While):
        found.append(of_while(source, node))
    elif isinstance(node, ast.For):
        found.append(of_for(source, node, decision))
    if not gives_up(node):  # what rank 0 has would hide what another rank gives up for
        found.append(of_value(source, node))
    yield from itertools.chain.from_iterable(found)
