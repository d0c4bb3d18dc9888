"""Symbolic code -> columns: calls the kernel and turns its failures into ``PlanError``."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.errors import OrderError, PlanError
from planguard.plan.pointers import render
from planguard.plan.reading.lifecycle import in_open_order

if TYPE_CHECKING:
    from planguard.plan.code import Program
    from planguard.plan.plan import Plan

MAX_ENTRIES = 400_000_000
"""Largest number of actions that is expanded; about 9 bytes each."""

_FAILURES = {
    1: ("PG402", "the peer lies beyond the edge of the mesh", 'set "wrap": true for a ring'),
    2: ("PG403", "the peer is not a member of the group", "name a group that holds both ranks"),
    3: ("PG401", "the rank is not a member of the group", "select only the members of the group"),
    4: ("PG404", "the root is not a member of the group", "root is a global rank of the group"),
    5: ("PG901", "the plan has too many actions", "raise the limit or shrink the loops"),
    6: ("PG302", "the handle was never started", "start it before it is waited for"),
    7: ("PG901", "the compiled plan is malformed", "this is a bug of PlanGuard"),
    8: ("PG402", "the peer is outside 0..world_size-1", "peer is a global rank"),
}


def expand(plan: Plan, *, implementation: Any = None) -> Any:
    """Return the columns of a plan, one entry per action.

    Args:
        plan: The symbolic plan.
        implementation: Kernels to use; the default ones if None.

    Raises:
        PlanError: If a rank uses a peer, root or group it cannot use, with the action's path.
        OrderError: If a block of open order waits for a handle above the action that starts it.
    """
    code = plan.code
    chosen = implementation or kernels.current()
    columns = chosen.expand(
        code.world_size,
        code.mesh_sizes,
        code.group_kind,
        code.group_mask,
        code.group_off,
        code.group_members,
        code.refs,
        [program.code for program in code.programs],
        array("I", [program.n_slots for program in code.programs]),
        code.rank_program,
        code.sig_root,
        code.label_pool,
        code.aux,
        MAX_ENTRIES,
    )
    if columns.failure[0]:
        raise _door_error(plan, columns.failure)
    return columns


def _door_error(plan: Plan, failure: tuple[int, int, int, int, int]) -> PlanError:
    kind, rank, program_index, instruction, value = failure
    code, message, hint = _FAILURES[kind]
    program = plan.code.programs[program_index]
    path = instruction_path(program, instruction)
    # A handle may be waited for above the action that starts it: the order there is open.
    refused = OrderError if code == "PG302" and in_open_order(program, instruction) else PlanError
    return refused(
        f"rank {rank}: {message}", code=code, file=plan.file, path=path, value=value, hint=hint
    )


def instruction_path(program: Program, instruction: int) -> str:
    """Return the JSON path of an instruction of a program."""
    if instruction >= len(program.nodes):
        return program.path
    return render(program.steps_of(instruction))
