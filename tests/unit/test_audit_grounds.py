"""A fact has the kind of file that told it; a finding is as strong as the weakest it needs."""

from __future__ import annotations

import copy
import os
import re

import pytest
from audit_dumps import START, entry, write
from test_audit_logs import behind, caught, status
from test_audit_reading import LOADING, spy
from test_audit_stalls import HOROVOD

from planguard.audit.answer import AuditOptions
from planguard.audit.findings.ground import DUMPS, TOLD_BY
from planguard.audit.judging import audit_parts
from planguard.audit.readers.files import collect
from planguard.audit.readers.reading import Reading
from planguard.errors import PlanError, UsageError

RAISED = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 9, in step
[rank1]: ValueError: loss is nan
"""
CLASSES = ("weak", "medium", "strong")
SENDING = "    send (torch/distributed/distributed_c10d.py:2735)\n    step (train.py:30)\n"


def stuck(folder, waiting, absent=(), *, age_s=600, world=3, op="all_reduce", **more):
    """Dumps of ranks that wait in a second round to which others did not come."""
    for rank in (*waiting, *absent):
        rows = [entry(number=0, seq=1)]
        if rank in waiting:
            rows.append(entry(op, number=1, seq=2, state="started", **more))
        write(folder, rank, rows, world=world)
        os.utime(folder / f"rank_{rank}", ns=(START + age_s * 10**9,) * 2)


def crash_beside_dumps(folder):
    """Rank 1 raised, by its log; the dumps show that the others wait for it."""
    stuck(folder, (0, 2), (1,))
    (folder / "log.rank1.err").write_text(RAISED)


def crash_that_nobody_waits_for(folder):
    """Rank 1 raised, by its log; all dumps are of finished calls."""
    stuck(folder, (), (0, 1, 2))
    (folder / "log.rank1.err").write_text(RAISED)


def time_limits_beside_copied_dumps(folder):
    """Nothing but the logs says for how long ranks 0 and 1 wait for rank 2."""
    stuck(folder, (0, 1), (2,), age_s=10**6)
    (folder / "log.err").write_text("\n".join(caught(rank, 2) for rank in (0, 1)) + "\n")


def time_limits_of_what_all_came_to(folder):
    """All are in one call, and only the logs say that it came to its time limit."""
    stuck(folder, (0, 1, 2), age_s=10**6)
    (folder / "log.err").write_text("\n".join(caught(rank, 2) for rank in (0, 1)) + "\n")


def stack_of_who_is_missing(folder):
    """The dumps show who waits, a stack where the rank is that did not come."""
    stuck(folder, (0, 1))
    (folder / "stack.rank2.txt").write_text(spy(7, LOADING))


def word_of_a_log_beside_dumps(folder):
    """Horovod says who is late, and the dumps are of finished calls."""
    stuck(folder, (), (0, 1), world=2)
    (folder / "log.rank0.err").write_text(f"{HOROVOD}\nMissing ranks:\n1: [grad.3]\n")
    return 2


def one_of_the_others_by_a_log(folder):
    """A call of another kind; of one of the others only a log tells, and the rest do without."""
    stuck(folder, (0, 1, 3), world=5)
    stuck(folder, (2,), world=5, op="broadcast")
    (folder / "log.err").write_text(f"{caught(4, 2)}\n{status(4, 2, 2, 1)}\n")
    return 5


def logs_and_stacks(folder):
    """The log counts rounds, and stacks show where ranks stand."""
    (folder / "log.err").write_text("\n".join(behind()) + "\n")
    (folder / "stack.rank2.txt").write_text(spy(7, LOADING))
    return 4


def sends_by_stacks(folder):
    """Gloo's dumps count sends; only the stacks show that both ranks stand in one."""
    for rank in (0, 1):
        rows = [entry(number=0, seq=1, profiling_name="gloo:all_reduce", retired=True)]
        write(folder, rank, rows, world=2)
        (folder / f"stack.rank{rank}.txt").write_text(spy(7 + rank, SENDING))
    return 2


CASES = (
    crash_beside_dumps,
    crash_that_nobody_waits_for,
    time_limits_beside_copied_dumps,
    time_limits_of_what_all_came_to,
    stack_of_who_is_missing,
    word_of_a_log_beside_dumps,
    one_of_the_others_by_a_log,
    logs_and_stacks,
    sends_by_stacks,
)


def named(part):
    """What files of a part's kind are called."""
    return TOLD_BY.get(part.kind, DUMPS)[0]


def told(parts, world):
    """Class and kinds of files of each graded finding, by code and ranks."""
    found = {}
    try:
        verdict = audit_parts(copy.deepcopy(parts), AuditOptions(world_size=world, name="x"))
    except (PlanError, UsageError):
        return found
    for one in verdict.findings:
        for note in one.notes:
            if said := re.match(r"evidence: (weak|medium|strong)\b.*?rests on (.*)", note):
                kinds = {kind for kind, _ in (*TOLD_BY.values(), DUMPS) if f"{kind} of " in said[2]}
                found[one.code, one.ranks] = CLASSES.index(said[1]), kinds
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_finding_stands_and_falls_with_the_files_that_its_grade_names(case, tmp_path):
    """Without all others it stays as strong; without those that it names it goes, or is weaker."""
    world = case(tmp_path) or 3
    parts = Reading(collect([str(tmp_path)], None), 1).parts()
    whole = told(parts, world)
    assert whole
    for which, (level, kinds) in whole.items():
        assert kinds, which
        alone = told([part for part in parts if named(part) in kinds], world)
        assert alone[which][0] >= level, (which, alone)
        for kind in kinds:
            rest = told([part for part in parts if named(part) != kind], world)
            assert which not in rest or rest[which][0] < level, (which, kind, rest)
