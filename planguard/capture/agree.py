"""An assertion for users' own suites: a step communicates alike whatever data its ranks get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.arguments import CALLABLE, COUNT, LIST, arguments
from planguard.capture.precheck import Precheck

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.verdict import Verdict


@arguments(step=CALLABLE, samples=LIST, world_size=COUNT)
def assert_collectives_agree(
    step: Callable[[Any], object], samples: Sequence[Any], world_size: int, **options: Any
) -> Verdict:
    """Require that a step ends with agreeing communication, whichever rank gets which sample.

    Args:
        step: Takes one sample; it runs on every rank, and must end on each.
        samples: What a rank may get, independently of the others.
        world_size: Number of ranks.
        options: Further options of ``precheck``: ``model``, ``allow_unknown``,
            ``most_assignments``, ``budget``, ``timeout``.

    Returns:
        The verdict, SAFE; or UNKNOWN with ``allow_unknown``.

    Raises:
        AssertionError: It does not, or it is not decided; the text is the full diagnostic.
        UsageError: A rank raises for some assignment and nobody waits for it, or cannot be played.
    """
    allow_unknown = bool(options.pop("allow_unknown", False))
    check = Precheck(world_size, samples=samples, on_unsafe="return", **options)
    verdict = check.run(step)
    if verdict.unsafe or verdict.errors or (verdict.unknown and not allow_unknown):
        said = "undecided whether the collectives of all ranks agree"
        if not verdict.unknown:
            said = "the collectives of the ranks do not agree"
        if verdict.safe:
            said = "the collectives of all ranks agree, but the step has errors"
        raise AssertionError(f"{said}\n\n{verdict}")
    return verdict
