"""LazyVerdict: a verdict whose outcome is known and whose explanation is made when it is asked for.

The cache knows the outcome of a plan that is the same as one decided before, but the sentences of
the findings name ranks, labels and source lines. They are never translated: the first look at a
field that is not known runs the full check of the asking plan, so what is shown is what that check
says.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from planguard.errors import InternalError
from planguard.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = tuple(field.name for field in fields(Verdict))


class LazyVerdict(Verdict):
    """A verdict of which some fields are made by the full check on first use.

    It compares equal to the ``Verdict`` with the same fields, ``dataclasses.replace`` and pickling
    give a plain ``Verdict``, and everything that takes a verdict takes it.
    """

    def __new__(cls, *args: Any, **known: Any) -> Any:
        """Return a plain verdict: ``dataclasses.replace`` calls the class with every field."""
        return Verdict(*args, **known)

    @classmethod
    def of(cls, complete: Callable[[], Verdict], /, **known: Any) -> LazyVerdict:
        """Return a verdict with the known fields; ``complete`` makes all of them.

        Args:
            complete: The full check of the asking plan.
            known: Fields of the verdict, or ``is_unsafe`` where only that much is known.
        """
        verdict: LazyVerdict = object.__new__(cls)
        verdict.__dict__.update(known)
        verdict.__dict__["complete_check"] = complete
        return verdict

    @property
    def is_complete(self) -> bool:
        """Whether the full check was run."""
        return "complete_check" not in self.__dict__

    def resolve(self) -> Verdict:
        """Run the full check if it has not been run, and return this verdict.

        Raises:
            InternalError: The full check contradicts what was known; no verdict is given then.
        """
        complete = self.__dict__.get("complete_check")
        if complete is None:
            return self
        full = complete()
        known = {**self.__dict__}
        said = known.get("outcome")
        if (said is not None and said is not full.outcome) or known.get(
            "is_unsafe", full.unsafe
        ) is not full.unsafe:
            raise InternalError(
                f"a cached answer contradicts the full check: {said}, {full.outcome}",
                hint="please report the plan: no verdict is given",
            )
        for name in _NAMES:
            self.__dict__[name] = getattr(full, name)
        self.__dict__.pop("complete_check", None)
        return self

    @property
    def safe(self) -> bool:
        """True only for SAFE."""
        if "outcome" not in self.__dict__ and self.__dict__.get("is_unsafe"):
            return False
        return self.outcome is Outcome.SAFE

    @property
    def unsafe(self) -> bool:
        """True for DEADLOCK, MISMATCH and POTENTIAL_DEADLOCK."""
        if "outcome" not in self.__dict__ and self.__dict__.get("is_unsafe"):
            return True
        return self.outcome.severity >= Outcome.POTENTIAL_DEADLOCK.severity

    @property
    def unknown(self) -> bool:
        """True when the plan was not decided."""
        if "outcome" not in self.__dict__ and self.__dict__.get("is_unsafe"):
            return False
        return self.outcome is Outcome.UNKNOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verdict):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _NAMES)

    __hash__ = None  # type: ignore[assignment]  # like Verdict: its fields are not hashable

    def __reduce__(self) -> tuple[type[Verdict], tuple[Any, ...]]:
        return Verdict, tuple(getattr(self, name) for name in _NAMES)


class _Field:
    """One field: what is known, else what the full check says."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, verdict: LazyVerdict | None, owner: type) -> Any:
        if verdict is None:
            return self
        known = verdict.__dict__
        if self._name not in known:
            verdict.resolve()
        return known[self._name]

    def __set__(self, verdict: LazyVerdict, value: Any) -> None:
        raise AttributeError(f"a verdict is frozen: {self._name}")


for _name in _NAMES:
    setattr(LazyVerdict, _name, _Field(_name))
