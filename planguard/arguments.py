"""Arguments of public functions: what each has to be, said once where the function stands.

A wrong one is refused at the call, with the function, the argument and what to give instead. Else
it would be an error of our insides, far from the line that is wrong.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import repeat
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar

from planguard.errors import UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    P = ParamSpec("P")
    R = TypeVar("R")

MOST = 100_000_000
"""Actions of a plan, ``Limits.actions``: no rank, place or number of a call is greater."""


@dataclass(frozen=True)
class Wanted:
    """What an argument has to be.

    Attributes:
        fits: Tells whether a value is that.
        what: What a value is that does not fit, after "is".
        hint: What to give.
    """

    fits: Callable[[Any], bool]
    what: str
    hint: str


def a(name: str, hint: str, *others: str) -> Wanted:
    """Want an object of a class of ours, by its name: nothing is imported to refuse another."""
    names = {name, *others}

    def fits(value: Any) -> bool:
        return any(one.__name__ in names for one in type(value).__mro__)

    return Wanted(fits, f"no {name}", hint)


def one_of(*names: str) -> Wanted:
    """Want one of some names."""
    fits = frozenset(names).__contains__
    known = " or ".join(f'"{name}"' for name in names)
    return Wanted(lambda value: isinstance(value, str) and fits(value), "no choice", known)


def _is_whole(value: Any) -> bool:
    return _is_integer(value) and 0 <= value <= MOST


def _is_integer(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return False
    try:
        operator.index(value)  # a tensor has the method, and more elements than one
    except (TypeError, ValueError):
        return False
    return True


def _is_duration(value: Any) -> bool:
    is_number = not isinstance(value, bool) and isinstance(value, Real)
    return is_number and 0 < float(value) < math.inf


def _is_path(value: Any) -> bool:
    if not isinstance(value, str | PathLike):
        return False
    try:
        return bool(str(value).encode())
    except UnicodeEncodeError:
        return False


def _is_list(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str | bytes)


def _is_mesh(value: Any) -> bool:
    try:
        pairs = [*value.items()] if isinstance(value, Mapping) else [(n, s) for n, s in value]
    except (TypeError, ValueError):
        return False
    return all(isinstance(name, str) and _is_whole(size) and size for name, size in pairs)


def _is_ranks(value: Any) -> bool:
    if isinstance(value, str):
        return value == "all"
    return isinstance(value, Sequence | AbstractSet | range) and all(map(_is_whole, value))


def _or(*others: type) -> Callable[[Any], bool]:
    return lambda value: _is_list(value) or isinstance(value, others)


BUILT = a("Plan", "give a Plan, or its PlanBuilder", "PlanBuilder")
PLAN = a("Plan", "planguard.load(...) or PlanBuilder.build() gives one")
VERDICT = a("Verdict", "planguard.check(...) gives one")
OPTIONS = a("CheckOptions", "planguard.CheckOptions(model=..., budget=...)")
RECORDING = a("Recording", "planguard.recording.recording_of(plan), or a reader of recordings")
LIMITS = a("Limits", "planguard.plan.limits.Limits(...)")
WITNESS = a("Witness", "verdict.witness is one")
FLAG = Wanted(lambda value: isinstance(value, bool), "neither True nor False", "give a bool")
WHOLE = Wanted(_is_whole, "no whole number from 0 on", "give an int")
COUNT = Wanted(lambda value: _is_whole(value) and value > 0, "no number of them", "1 or more")
NAME = Wanted(lambda value: isinstance(value, str), "no name", "give a str")
PATH = Wanted(_is_path, "no path", "give a str or a pathlib.Path")
LIST = Wanted(_is_list, "no list", "give a list")
NAMES = Wanted(_or(str), "neither a name nor a list of names", "give a str, or a list of them")
PLANS = Wanted(_or(str, PathLike), "no plans", "give a path, or a list of plans")
MESH = Wanted(_is_mesh, "no mesh", 'give the sizes of its dimensions: {"dp": 2, "tp": 4}')
RANKS = Wanted(_is_ranks, 'neither a list of ranks nor "all"', "ranks=[0, 4]")
MAPPING = Wanted(lambda value: isinstance(value, Mapping), "no mapping", "give a dict")
RULES = Wanted(
    lambda value: isinstance(value, bool | Mapping),
    "neither a bool nor thresholds by code",
    'rules=True, or {"PG610": {"threshold": 0.3}}',
)
DURATION = Wanted(_is_duration, "no number of seconds above 0", "give a number, such as 10.0")
BUDGET = Wanted(
    lambda value: type(value) in (int, float) and 0 <= value < math.inf,
    "no number of seconds",
    "give a number, such as 10.0",
)
INTEGER = Wanted(_is_integer, "no whole number", "give an int")
SIZE = Wanted(lambda value: _is_integer(value) and value >= 0, "no number of bytes", "give an int")
APPENDED = Wanted(lambda value: hasattr(value, "append"), "no list to add to", "give a list")
SEED = Wanted(lambda value: isinstance(value, int), "no seed", "give an int")
CALLABLES = Wanted(
    lambda value: _is_list(value) and all(map(callable, value)),
    "no list of functions",
    "give the passes in their order",
)
CALLABLE = Wanted(callable, "no function", "give what can be called")


def arguments(**wanted: Wanted) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse values of a function's arguments that are not what each has to be.

    None is one where it is the default, as every default is. What Python itself refuses, a name
    that is not there or one too many, is left to it.
    """

    def around(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters
        names = tuple(parameters)
        owner = function.__qualname__.removesuffix(".__init__")
        called_as = owner.rpartition(".")[2]
        if called_as == "__call__":  # a module that is called, as `capture.fx` is
            called_as = function.__module__.rpartition(".")[2]
        rest = parameters[names[0]].kind is inspect.Parameter.VAR_POSITIONAL

        @functools.wraps(function)
        def called(*given: P.args, **named: P.kwargs) -> R:
            in_order = repeat(names[0]) if rest else names
            for name, value in (*zip(in_order, given, strict=False), *named.items()):
                want = wanted.get(name)
                if want is None or value is parameters[name].default or want.fits(value):
                    continue
                raise refused(f"{called_as}({name}=...)", value, want)
            return function(*given, **named)

        return called

    return around


def refused(where: str, value: object, want: Wanted) -> UsageError:
    """Return the error of a value that is not what it has to be."""
    return UsageError(f"{where}: {_shown(value)} is {want.what}", hint=want.hint)


def _shown(value: object) -> str:
    """Return a value in a few words; a verdict's own text would be the whole diagnostic."""
    plain = isinstance(value, str | bytes | int | float | list | tuple | dict | set | type(None))
    return shorten(repr(value)) if plain else f"a {type(value).__name__}"
