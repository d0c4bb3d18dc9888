"""Find planner adapters: by entry point, by name, and by what they recognize.

Adapters register under the entry-point group ``planguard.planners``. Discovery reads metadata only;
a module is imported when its adapter is asked for. ``PLANGUARD_NO_PLUGINS=1`` leaves out what other
distributions registered. A plug-in that cannot be used is kept as a ``PluginProblem``, which
``planguard doctor`` lists; it is never skipped in silence.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import os
import pkgutil
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from planguard.errors import PlanError, UsageError, shorten
from planguard.files.heads import one_look
from planguard.sources import beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

GROUP = "planguard.planners"
NO_PLUGINS = "PLANGUARD_NO_PLUGINS"
_OWN = "planguard"
_NOT_ADAPTERS = frozenset({"common"})


class PlannerAdapter(Protocol):
    """What turns the output of one planner into a plan.

    ``sniff`` recognizes an input without running it. ``adapt`` gets the ``PlanBuilder`` class and
    not an instance, because the world size is known only after reading. Options are keyword
    arguments; one that does not exist is a ``UsageError``.
    """

    name: str

    def sniff(self, obj: object) -> bool:
        """Tell whether an input (a path, bytes or an object) is one of this planner's."""
        ...

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn the input into a plan, or raise ``PlanError`` with the place of the defect."""
        ...


@dataclass(frozen=True)
class AdapterEntry:
    """One registered adapter, not imported yet.

    Attributes:
        name: Name under which it is found.
        target: ``module:attribute``.
        distribution: Distribution that registered it.
    """

    name: str
    target: str
    distribution: str

    @property
    def built_in(self) -> bool:
        """True for the adapters of PlanGuard itself."""
        return self.distribution == _OWN


@dataclass(frozen=True)
class PluginProblem:
    """An adapter that is registered and cannot be used.

    Attributes:
        entry: What was registered.
        reason: Why it cannot be used.
    """

    entry: AdapterEntry
    reason: str

    def __str__(self) -> str:
        return f"planner {self.entry.name} of {self.entry.distribution}: {self.reason}"


_loaded: dict[AdapterEntry, PlannerAdapter] = {}
_problems: dict[AdapterEntry, PluginProblem] = {}
_seen: tuple[object, list[AdapterEntry]] | None = None
"""The state of the import path, and what was registered there then: reading it takes 6 ms."""
_listed: tuple[object, tuple[AdapterEntry, ...]] | None = None
"""That state and whether plug-ins are off, and the adapters that are used then."""


def entries() -> tuple[AdapterEntry, ...]:
    """List the registered adapters, PlanGuard's own first, each part by name. Imports nothing."""
    global _listed  # noqa: PLW0603  a cache of one
    state, found = _registered()
    state = (state, _plugins_off())
    if _listed is None or _listed[0] != state:
        _listed = state, _named_once(found)
    return _listed[1]


def _named_once(found: list[AdapterEntry]) -> tuple[AdapterEntry, ...]:
    """Return the adapters by name; a name that is taken stays with who has it."""
    own = [entry for entry in found if entry.built_in] or _from_source_tree()
    foreign = [] if _plugins_off() else [entry for entry in found if not entry.built_in]
    kept: dict[str, AdapterEntry] = {}
    for entry in sorted(set(own), key=_by_name) + sorted(set(foreign), key=_by_name):
        first = kept.setdefault(entry.name, entry)
        if first != entry:
            _report(entry, f"the name is taken by {first.target} of {first.distribution}")
    return tuple(kept.values())


def find(name: str) -> PlannerAdapter:
    """Give the adapter of a name.

    Raises:
        UsageError: No adapter has that name, or it cannot be used.
    """
    known = {entry.name: entry for entry in entries()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        wanted = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"no planner adapter is called {shorten(name)!r}", hint=wanted)
    adapter = _load(known[name])
    if adapter is None:
        raise UsageError(
            f"the planner adapter {name!r} cannot be used: {_problems[known[name]].reason}",
            hint="planguard doctor lists every adapter and what it lacks",
        )
    return adapter


def sniff(obj: object) -> PlannerAdapter:
    """Find the one adapter that recognizes an input: a path, bytes or an object.

    Raises:
        PlanError: The path does not exist, or no adapter recognizes the input.
        UsageError: Several do, so that the choice is the caller's.
    """
    from planguard.plan.reading.missing import no_such_file, not_one_plan

    if isinstance(obj, str | Path) and not Path(obj).exists():
        raise no_such_file(str(obj))
    found = recognize(obj)
    if found is not None:
        return found
    if isinstance(obj, str | Path) and (folder := not_one_plan(str(obj))) is not None:
        raise folder
    broken = "".join(f"; {problem}" for problem in problems())
    known = ", ".join(entry.name for entry in entries())
    raise PlanError(
        f"no planner adapter recognizes the input{broken}",
        file=str(obj) if isinstance(obj, str | Path) else None,
        path="input",
        value=obj if isinstance(obj, str | Path) else type(obj).__name__,
        hint=f"name one (--planner, planner=); known: {known}",
    )


def recognize(obj: object) -> PlannerAdapter | None:
    """Find the one adapter that recognizes an input, None where none does.

    Raises:
        UsageError: Several do, so that the choice is the caller's.
    """
    with one_look(obj) if isinstance(obj, str | Path) else nullcontext():
        asked = (_recognizing(entry, obj) for entry in entries())
        matches = [adapter for adapter in asked if adapter is not None]
    if len(matches) > 1:
        names = " and ".join(adapter.name for adapter in matches)
        raise UsageError(f"{names} all recognize the input", hint="name one (--planner, planner=)")
    return matches[0] if matches else None


def adapted(adapter: PlannerAdapter, obj: object, options: Mapping[str, object]) -> Plan:
    """Let an adapter read an input, with options that it takes and all that it needs.

    Python would refuse the call of another one with a ``TypeError``, as it does within a defect.

    Raises:
        PlanError: The input cannot be read as a plan.
        UsageError: An option is none of the adapter's, or one that it needs is not given.
    """
    from planguard.plan.building.builder import PlanBuilder

    ours, own, takes_any = _options_of(adapter)
    for name in options:
        if name in ours or not (takes_any or name in own):
            near = difflib.get_close_matches(name, own, n=1)
            known = f"options: {', '.join(own)}" if own else "it lists no options"
            raise UsageError(
                f"the {adapter.name} adapter has no option {shorten(name)!r}",
                hint=f"did you mean {near[0]!r}?" if near else known,
            )
    for name, is_needed in own.items():
        if is_needed and name not in options:
            raise UsageError(
                f"the {adapter.name} adapter needs the option {name!r}",
                hint=f"--option {name}=VALUE, in Python {name}=VALUE",
            )
    return adapter.adapt(obj, PlanBuilder, **options)


def _options_of(adapter: PlannerAdapter) -> tuple[set[str], dict[str, bool], bool]:
    """Return what ``adapt`` gets from us, its options and which it needs, and if it takes others.

    The built-in adapters take any option, and refuse by themselves what is none of theirs.
    """
    bound = adapter.adapt
    function = getattr(bound, "__func__", bound)
    count = 2 if function is bound else 3  # the adapter itself, the input, the builder
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # compiled code that does not say: the call itself finds out
        return set(), {}, True
    places = [one.name for one in parameters if one.kind <= one.POSITIONAL_OR_KEYWORD]
    ours = set(places[:count])
    own = {
        one.name: one.default is one.empty
        for one in parameters
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name not in ours
    }
    return ours, own, any(one.kind is one.VAR_KEYWORD for one in parameters)


def problems() -> tuple[PluginProblem, ...]:
    """Try every registered adapter and list those that cannot be used."""
    current = entries()
    for entry in current:
        _load(entry)
    return seen_problems()


def seen_problems() -> tuple[PluginProblem, ...]:
    """List the problems met so far, without importing anything."""
    return tuple(sorted(_problems.values(), key=str))


def _registered() -> tuple[object, list[AdapterEntry]]:
    """Return what distributions registered; read again when a folder of the path has changed.

    The first of the two is the state that it was read in.
    """
    global _seen  # noqa: PLW0603  a cache of one
    state = (metadata.entry_points, tuple((entry, _changed(entry)) for entry in sys.path))
    if _seen is None or _seen[0] != state:
        found = [
            AdapterEntry(point.name, point.value, point.dist.name if point.dist else "unknown")
            for point in metadata.entry_points(group=GROUP)
        ]
        _seen = state, found
    return _seen


def _changed(entry: str) -> int:
    try:
        return os.stat(entry or ".").st_mtime_ns  # noqa: PTH116  asked for every file of a folder
    except OSError:
        return 0


def _by_name(entry: AdapterEntry) -> tuple[str, str, str]:
    return entry.name, entry.distribution, entry.target


def _plugins_off() -> bool:
    return os.environ.get(NO_PLUGINS, "") not in ("", "0")


def _report(entry: AdapterEntry, reason: str) -> None:
    _problems[entry] = PluginProblem(entry, reason)


def _recognizing(entry: AdapterEntry, obj: object) -> PlannerAdapter | None:
    adapter = _load(entry)
    if adapter is None:
        return None
    try:
        return adapter if adapter.sniff(obj) else None
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is reported
        _report(entry, f"its sniff raised {type(error).__name__}: {error}")
        return None


def _load(entry: AdapterEntry) -> PlannerAdapter | None:
    """Import an adapter once; a failure of any kind becomes a problem."""
    known = _loaded.get(entry)
    if known is not None:
        return known
    module, _, attribute = entry.target.partition(":")
    try:
        _mount_planners()
        adapter = getattr(import_module(module), attribute or "adapter")
    except Exception as error:  # noqa: BLE001 - importing foreign code may raise anything
        _report(entry, f"import of {entry.target} raised {type(error).__name__}: {error}")
        return None
    missing = [name for name in ("name", "sniff", "adapt") if not hasattr(adapter, name)]
    if missing:
        _report(entry, f"{entry.target} has no {', '.join(missing)}")
        return None
    if adapter.name != entry.name:
        _report(entry, f"it calls itself {adapter.name!r}")
        return None
    _problems.pop(entry, None)
    _loaded[entry] = adapter
    return _loaded[entry]


def _from_source_tree() -> list[AdapterEntry]:
    """List the adapters beside a source tree that was never installed, so has no entry points."""
    _mount_planners()
    spec = importlib.util.find_spec(GROUP)
    locations = spec.submodule_search_locations if spec is not None else None
    return [
        AdapterEntry(module.name, f"{GROUP}.{module.name}:adapter", _OWN)
        for module in pkgutil.iter_modules(locations or [])
        if module.name not in _NOT_ADAPTERS and not module.name.startswith("_")
    ]


def _mount_planners() -> None:
    """Make ``planguard.planners`` importable from a source tree, where it lies beside the package.

    An installed package has the folder in its place and this does nothing.
    """
    if GROUP in sys.modules or importlib.util.find_spec(GROUP) is not None:
        return
    folder = beside("planners")
    if folder is None:
        return
    spec = importlib.util.spec_from_file_location(
        GROUP, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").is_file():
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[GROUP] = module
    spec.loader.exec_module(module)
