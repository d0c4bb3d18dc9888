"""Every schedule of Megatron-core: recorded from ``schedules.py``, one run per rank."""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard

from .cases import Case, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
MESSAGES: dict[str, dict[str, Any]] = {
    "batched": {},
    "batched, no device sync": {"batch_p2p_sync": False},
    "even-odd": {"batch_p2p_comm": False},
    "ring": {"use_ring_exchange_p2p": True},
    "overlap": {"batch_p2p_comm": False, "overlap_p2p_comm": True},
    "overlap warmup": {
        "batch_p2p_comm": False, "overlap_p2p_comm": True, "overlap_p2p_comm_warmup_flush": True,
    },
}  # fmt: skip
"""Ways in which messages are sent, and the fields of ``TransformerConfig`` that select them."""
VARIABLE = {"variable_seq_lengths": True, "moe_token_dispatcher_type": "alltoall"}


def settings(*, quick: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every kind of schedule with what the recorder is given."""
    ranks = (2, 4) if quick else (2, 3, 4, 5, 8)
    for (sends, flags), pipeline, virtual, variable, forward in itertools.product(
        MESSAGES.items(), ranks, (1, 2) if quick else (1, 2, 3), (False, True), (False, True)
    ):
        schedule = "interleaved" if virtual > 1 else "1f1b"
        kind = f"{schedule}{' forward only' if forward else ''}, {sends}"
        kind += ", variable lengths" if variable else ""
        given = {"pipeline": pipeline, "virtual": virtual, "forward_only": forward, **flags,
                 **(VARIABLE if variable else {})}  # fmt: skip
        for times in (1, 2) if quick else (1, 2, 3):
            yield kind, {**given, "microbatches": pipeline * times}
        if virtual == 1 and not quick:
            for microbatches in (1, pipeline - 1, 2 * pipeline + 1):
                yield kind, {**given, "microbatches": microbatches}
        for group in {max(pipeline, 2) + 1, 2 * pipeline} if virtual > 1 else ():
            grouped = {"microbatch_group_size_per_vp_stage": group}
            for microbatches in (group, 2 * group, 2 * group + pipeline):
                yield f"{kind}, grouped", {**given, **grouped, "microbatches": microbatches}


def made(recorder: Any, given: dict[str, Any]) -> Any:
    """Record a schedule and read the recording."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sweep.megatron.json")
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                recorder.record(str(path), **given)
        except (AssertionError, ValueError, RuntimeError, TypeError) as error:
            raise RefusedError(f"{type(error).__name__}: {str(error)[:160]}") from error
        return planguard.load(path)


def cases(*, quick: bool) -> Iterator[Case]:
    """Yield every schedule, size and way of sending."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT / "planners" / "megatron"))
    import recorder  # type: ignore[import-not-found]

    for kind, given in settings(quick=quick):
        text = " ".join(f"{name}={value}" for name, value in given.items())
        yield Case(kind, text, partial(made, recorder, given))


def version() -> str:
    """Name the planner and its version."""
    import megatron.core  # type: ignore[import-not-found]

    return f"megatron-core {megatron.core.__version__}"
