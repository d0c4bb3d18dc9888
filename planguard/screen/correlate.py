"""Which parameters tell the failing trials from the others: the shortest conjunction.

Exact first: a condition holds for all failing trials and for no other one. Only conditions that
hold for every failing trial can be part of it, and per parameter few of them matter: the bounds of
the failing values, the one value they share, the values they never have. A smallest subset of
those that excludes all other trials is the rule. Where none exists, the best conjunction is given
with its precision and recall.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from planguard.screen.values import typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_CONDITIONS = 4
"""Longest conjunction that is searched."""
MAX_VALUES = 24
"""Values of one parameter that are tried one by one where no exact rule exists."""
MAX_NAMES = 200
"""Parameters that are looked at."""
BEAM = 12
"""Conjunctions that are extended where no exact rule exists."""


@dataclass(frozen=True, order=True)
class Condition:
    """One comparison of a parameter with a value."""

    cost: int
    name: str
    op: str
    text: str
    value: Any = field(default=None, compare=False, repr=False)

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Whether a trial of these parameters has it."""
        if self.name not in params:
            return self.op == "!="
        value = _key(params[self.name])
        if self.op in {"=", "!="}:
            return (value == self.value) is (self.op == "=")
        if not _is_number(value):
            return False
        return bool(value >= self.value if self.op == ">=" else value <= self.value)

    def __str__(self) -> str:
        return f"{self.name}{self.op}{self.text}"


@dataclass(frozen=True)
class Rule:
    """A conjunction and how well it tells.

    Attributes:
        conditions: The comparisons, all of which have to hold.
        covered: Failing trials it holds for.
        failing: Failing trials.
        others: Other trials it holds for as well.
    """

    conditions: tuple[Condition, ...]
    covered: int
    failing: int
    others: int

    @property
    def is_exact(self) -> bool:
        """Whether it holds for all failing trials and for no other."""
        return self.covered == self.failing and not self.others

    @property
    def precision(self) -> float:
        """Share of failing trials among those it holds for, 0 to 1."""
        return self.covered / max(1, self.covered + self.others)

    @property
    def recall(self) -> float:
        """Share of the failing trials that it holds for, 0 to 1."""
        return self.covered / max(1, self.failing)

    def __str__(self) -> str:
        text = " and ".join(map(str, self.conditions))
        if self.is_exact:
            return f"all with {text}, and no other trial has that"
        return f"{text}: precision {self.precision:.2f}, recall {self.recall:.2f}"


def find_rule(
    failing: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> Rule | None:
    """Return the rule that tells failing trials from others by their parameters.

    Args:
        failing: Parameters of the failing trials.
        others: Parameters of the trials to tell them from.

    Returns:
        The shortest exact rule, else the best inexact one; None if parameters tell nothing.
    """
    if not failing or not others:
        return None
    table = _Table(failing, others)
    return table.exact() or table.best()


class _Table:
    """Conditions as bit sets over trials, failing ones first."""

    def __init__(
        self, failing: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
    ) -> None:
        self._trials = [*failing, *others]
        self._n = len(failing)
        self._failing = (1 << len(failing)) - 1
        self._others = ((1 << len(self._trials)) - 1) ^ self._failing
        self._names = sorted({name for trial in self._trials for name in trial})[:MAX_NAMES]
        self._columns = {name: _Column(self._trials, name) for name in self._names}

    def exact(self) -> Rule | None:
        """Return the shortest conjunction that holds for the failing trials and no others."""
        held = [
            (condition, bits)
            for condition, bits in self._conditions(self._failing)
            if bits & self._failing == self._failing and self._others & ~bits
        ]
        held.sort(key=lambda item: item[0])
        for length in range(1, MAX_CONDITIONS + 1):
            for chosen in combinations(held, length):
                rest = self._others
                for _, bits in chosen:
                    rest &= bits
                if not rest:
                    return self._rule(chosen)
        return None

    def best(self) -> Rule | None:
        """Return the conjunction of the best balance of precision and recall."""
        singles = sorted(self._conditions(None), key=lambda item: item[0])
        beam: list[tuple[Any, ...]] = [()]
        best: Rule | None = None
        for _ in range(3):
            grown = {
                frozenset(c for c, _ in (*chosen, single)): (*chosen, single)
                for chosen in beam
                for single in singles
                if all(single[0] != condition for condition, _ in chosen)
            }
            ranked = sorted(((self._rule(chosen), chosen) for chosen in grown.values()), key=_rank)
            if not ranked:
                break
            if best is None or _balance(ranked[0][0]) > _balance(best) + 1e-9:
                best = ranked[0][0]
            beam = [chosen for _, chosen in ranked[:BEAM]]
        if best is None:
            return None
        base = self._n / len(self._trials)
        return best if best.precision > max(base * 1.25, base + 0.05) else None

    def _rule(self, chosen: Sequence[tuple[Condition, int]]) -> Rule:
        bits = self._failing | self._others
        for _, one in chosen:
            bits &= one
        conditions = tuple(sorted((c for c, _ in chosen), key=lambda c: (c.name, c.op, c.text)))
        covered, others = (bits & self._failing).bit_count(), (bits & self._others).bit_count()
        return Rule(conditions, covered, self._n, others)

    def _conditions(self, inside: int | None) -> Iterator[tuple[Condition, int]]:
        """Yield conditions; with ``inside`` only those that may hold for all those trials."""
        for name in self._names:
            column = self._columns[name]
            yield from self._equal(name, column, inside)
            yield from _bounds(name, column, None if inside is None else self._n)

    def _equal(
        self, name: str, column: _Column, inside: int | None
    ) -> Iterator[tuple[Condition, int]]:
        values = sorted(column.values, key=_order)
        all_bits = self._failing | self._others
        if inside is None:
            for value in values[:MAX_VALUES]:
                yield Condition(0, name, "=", _show(value), value), column.bits(value)
            return
        failing = column.of(self._n)
        if len(failing) == 1:
            (value,) = failing
            yield Condition(0, name, "=", _show(value), value), column.bits(value)
        if len(values) <= MAX_VALUES:
            for value in values:
                if value not in failing:
                    yield (
                        Condition(2, name, "!=", _show(value), value),
                        all_bits & ~column.bits(value),
                    )


class _Column:
    """The values of one parameter; a bit set is made of a condition when it is asked for.

    One for every distinct value would grow with the square of the trials where a parameter is
    continuous: a million learning rates are a million sets of a million bits.
    """

    def __init__(self, trials: Sequence[Mapping[str, Any]], name: str) -> None:
        self._keys: list[Any] = [
            _key(trial[name]) if name in trial else _ABSENT for trial in trials
        ]
        self.values = set(self._keys) - {_ABSENT}
        self.numbers = sorted(value for value in self.values if _is_number(value))

    def of(self, count: int) -> set[Any]:
        """Return the values of the first trials."""
        return set(self._keys[:count]) - {_ABSENT}

    def bits(self, value: Any) -> int:
        """Return which trials have a value."""
        return _packed(key == value for key in self._keys)

    def at_least(self, least: Any) -> int:
        """Return which trials have a number that is not smaller."""
        return _packed(_is_number(key) and key >= least for key in self._keys)

    def at_most(self, most: Any) -> int:
        """Return which trials have a number that is not larger."""
        return _packed(_is_number(key) and key <= most for key in self._keys)


class _Absent:
    """What a trial has of a parameter that it lacks: equal to nothing else."""


_ABSENT = _Absent()


def _key(value: Any) -> Any:
    """Return a value as it is compared: ``True`` is not 1."""
    return _show(value) if isinstance(value, bool) or value is None else value


def _packed(marks: Iterator[bool]) -> int:
    """Return marks as the bits of one number, the first one lowest."""
    return int("".join("1" if mark else "0" for mark in marks)[::-1] or "0", 2)


def _bounds(name: str, column: _Column, failing: int | None) -> Iterator[tuple[Condition, int]]:
    """Yield ``>=`` and ``<=``: the bounds of the failing trials, or values at equal steps."""
    numbers = column.numbers
    if len(numbers) < 2:
        return
    if failing is not None:
        found = sorted(value for value in column.of(failing) if _is_number(value))
        thresholds = sorted({found[0], found[-1]}) if found else []
    else:
        thresholds = numbers[:: max(1, len(numbers) // MAX_VALUES)]
    for value in thresholds:
        if value != numbers[0]:
            yield Condition(1, name, ">=", _show(value), value), column.at_least(value)
        if value != numbers[-1]:
            yield Condition(1, name, "<=", _show(value), value), column.at_most(value)


def _rank(item: tuple[Rule, Any]) -> tuple[Any, ...]:
    rule = item[0]
    conditions = tuple((c.cost, c.name, c.op, c.text) for c in rule.conditions)
    return -_balance(rule), len(conditions), conditions


def _balance(rule: Rule) -> float:
    """Return the harmonic mean of precision and recall."""
    return 2 * rule.covered / (rule.covered + rule.others + rule.failing)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124


def _order(value: Any) -> tuple[bool, Any]:
    return (True, value) if _is_number(value) else (False, str(value))


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not isinstance(typed(value), (str, bool)):
        return f'"{value}"'  # a text that reads like a number
    return "none" if value is None else str(value)
