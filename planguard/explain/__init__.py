"""Verdicts and codes in words: pages of codes, reasons as data, sentences.

The package is also the function of that name: ``planguard.explain(verdict)`` is the full
diagnostic, ``planguard.explain.codes`` the module with the pages.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from planguard.arguments import BUILT, COUNT, VERDICT, arguments

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict


@arguments(verdict=VERDICT, plan=BUILT, width=COUNT)
def explain(verdict: Verdict, plan: Plan | None = None, *, width: int = 80) -> str:
    """Return the full diagnostic of a verdict, as ``planguard check`` prints it, without colors.

    Args:
        verdict: What a check said.
        plan: The plan, or its builder; with it the actions around those of each finding are shown.
        width: Columns.
    """
    from planguard.explain.answer import explain_text
    from planguard.explain.lines import Style
    from planguard.verdict import built

    return explain_text(verdict, built(plan), Style(width=width))


class _CallableModule(ModuleType):
    """A module that is called like the function of its name (docs/adr/0018-callable-modules.md)."""

    def __call__(self, verdict: Verdict, plan: Plan | None = None, *, width: int = 80) -> str:
        return explain(verdict, plan, width=width)


sys.modules[__name__].__class__ = _CallableModule
