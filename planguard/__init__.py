"""PlanGuard: reject deadlocking parallelization plans before they run.

Five nouns:

* a **Plan** is what every rank does, in which order, on which process groups;
* an **Action** is one entry of a rank's sequence: send, receive, collective, wait, compute, ...;
* a **Verdict** is SAFE, DEADLOCK, MISMATCH, POTENTIAL_DEADLOCK or UNKNOWN, with findings;
* a **Witness** is a short schedule that ends in a stuck state or in a bad match, and replays;
* a **Reporter** turns verdict and plan into text, JSON, SARIF or pictures.

Two ranks that send to each other before either receives:

>>> import planguard as pg
>>> plan = pg.PlanBuilder(world_size=2)
>>> for rank in (0, 1):
...     program = plan.program([rank])
...     _ = program.send(peer=1 - rank, bytes=4)
...     _ = program.recv(peer=1 - rank, bytes=4)
>>> verdict = pg.check(plan.build(), model="nccl")
>>> verdict.outcome.value
'DEADLOCK'
>>> verdict.findings[0].message
'point-to-point deadlock: ranks 0 and 1 wait in send() for each other'

A sixth word belongs to the engine room: an **execution model** is the named set of rules that
says when an action may start and complete (``nccl`` unless told otherwise).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from planguard.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.api import check, load, require
    from planguard.audit import audit
    from planguard.errors import PlanError, PlanGuardError, UnsafePlanError, UsageError
    from planguard.explain import explain
    from planguard.guard.guard import Guard
    from planguard.options import CheckOptions
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.groups import ProcessGroup
    from planguard.plan.plan import Plan
    from planguard.reordering.execution_graph import execution_graph
    from planguard.replay import replay
    from planguard.screen import screen
    from planguard.verdict import Approximation, Finding, Outcome, Verdict, Witness

__version__ = "0.2.0"

_HOMES = {
    "Approximation": "planguard.verdict",
    "CheckOptions": "planguard.options",
    "Finding": "planguard.verdict",
    "Guard": "planguard.guard.guard",
    "Outcome": "planguard.verdict",
    "Plan": "planguard.plan.plan",
    "PlanBuilder": "planguard.plan.building.builder",
    "PlanError": "planguard.errors",
    "PlanGuardError": "planguard.errors",
    "ProcessGroup": "planguard.plan.groups",
    "UnsafePlanError": "planguard.errors",
    "UsageError": "planguard.errors",
    "Verdict": "planguard.verdict",
    "Witness": "planguard.verdict",
    "check": "planguard.api",
    "execution_graph": "planguard.reordering.execution_graph",
    "load": "planguard.api",
    "require": "planguard.api",
}

_CALLABLE_MODULES = frozenset({"audit", "explain", "replay", "screen"})
"""Packages that are called by their own name as well (docs/adr/0018-callable-modules.md)."""

_MODULES = frozenset({"capture", "live"})
"""Packages whose functions are called through them: ``planguard.capture.start()``."""

_READERS = {
    "html": ("planguard.explain.html", "verdict_html"),
    "json": ("planguard.result", "verdict_to_json"),
    "matrix": ("planguard.report.page", "matrix_of"),
    "page": ("planguard.report.page", "page_of"),
    "repaired": ("planguard.repair.patch", "repaired"),
    "picture": ("planguard.report.pictures.matrix_image", "matrix_svg"),
    "text": ("planguard.explain", "explain"),
}
"""What the methods of a verdict call: module and function of each of ``views.VIEWS``."""

__all__ = [
    "Approximation",
    "CheckOptions",
    "Finding",
    "Guard",
    "Outcome",
    "Plan",
    "PlanBuilder",
    "PlanError",
    "PlanGuardError",
    "ProcessGroup",
    "UnsafePlanError",
    "UsageError",
    "Verdict",
    "Witness",
    "__version__",
    "audit",
    "check",
    "execution_graph",
    "explain",
    "load",
    "replay",
    "require",
    "screen",
]


def _reader(home: str, name: str) -> Callable[..., Any]:
    """Return a function of a part that is imported when it is called."""

    def read(*given: Any, **named: Any) -> Any:
        return getattr(import_module(home), name)(*given, **named)

    return read


VIEWS.update({view: _reader(*home) for view, home in _READERS.items()})


def __getattr__(name: str) -> Any:
    """Import a public name on first use: ``import planguard`` itself loads almost nothing."""
    if name in _CALLABLE_MODULES | _MODULES:
        return import_module(f"planguard.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'planguard' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
