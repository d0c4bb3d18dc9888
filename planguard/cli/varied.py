"""What ``planguard precheck`` is asked for: read, refused where it cannot be, by rank, and told."""

from __future__ import annotations

import argparse
import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError, shorten
from planguard.options import seconds
from planguard.words import plural

if TYPE_CHECKING:
    from planguard.capture.play.ranks import Play
    from planguard.capture.play.script import Variation
    from planguard.verdict import Verdict


def settle(args: argparse.Namespace) -> None:
    """Refuse what cannot be before anything runs.

    Raises:
        UsageError: An option that cannot be.
    """
    if not args.module and not Path(args.script).is_file():
        raise UsageError(f"{shorten(args.script, 200)}: no such script", hint="is the path right?")
    if args.ranks < 1 or not 1 <= args.nodes <= args.ranks:
        raise UsageError(f"{args.ranks} ranks on {plural(args.nodes, 'node')}", hint="--ranks 4")
    if args.samples is not None and args.samples < 1:
        raise UsageError(f"--samples {args.samples}: at least one", hint="--samples 3")
    if args.vary and (args.samples or args.set or args.lengths or args.steps_per_rank):
        raise UsageError(
            "--vary makes batches up, and goes with no other option of what ranks have",
            hint="one run with --vary, another one with --samples or --lengths",
        )
    if args.most_assignments < 1:
        raise UsageError("--most-assignments is at least one")
    if args.patch is not None and not args.fix:
        raise UsageError("--patch is where --fix writes", hint="--fix --patch fix.diff")
    if args.patch is not None and os.path.lexists(args.patch):
        raise UsageError(
            f"--patch {shorten(args.patch, 200)}: exists and is not written over, --force or not",
            hint="name another file, or remove that one first",
        )
    if args.steps_per_rank and args.lengths:
        raise UsageError(
            "--steps-per-rank and --lengths exclude each other",
            hint="--steps-per-rank 10,9 is rank 0's and rank 1's; --lengths 10,9 any rank's",
        )
    for at, lengths in args.steps_per_rank:
        if len(lengths) != args.ranks:
            where = f"{at}=" if at else ""
            raise UsageError(
                f"--steps-per-rank {where}{','.join(map(str, lengths))}: "
                f"{plural(len(lengths), 'length')} for {plural(args.ranks, 'rank')}",
                hint="one length a rank; --lengths lets any rank have any of them",
            )
    for rows in (args.steps_per_rank, args.lengths, args.set):
        names = [name for name, _ in rows]
        if len(set(names)) < len(names):
            raise UsageError("an option is given twice for one loader or one variable")


def variations(args: argparse.Namespace) -> list[list[Variation]]:
    """Return what each rank may have, by rank and number."""
    from planguard.capture.play.script import Variation

    numbers = [None, *range(args.samples or 0)]
    variables = [[(name, value) for value in dict.fromkeys(values)] for name, values in args.set]
    lengths = [[(at, one) for one in dict.fromkeys(row)] for at, row in args.lengths]
    return [
        [
            Variation(number, env, steps or tuple((at, row[rank]) for at, row in by_rank))
            for number, env, steps in itertools.product(
                numbers, itertools.product(*variables), itertools.product(*lengths)
            )
        ]
        for by_rank in [args.steps_per_rank]
        for rank in range(args.ranks)
    ]


def steps(text: str) -> tuple[str, tuple[int, ...]]:
    """Read ``10,9`` or ``train.py:31=10,9``."""
    at, _, numbers = text.rpartition("=")
    try:
        found = tuple(int(one) for one in numbers.split(","))
    except ValueError:
        found = (-1,)
    if min(found) < 0 or (at and not at.rpartition(":")[2].isdigit()):
        raise argparse.ArgumentTypeError(f"{shorten(text, 40)!r} is no list such as 10,9")
    return at, found


def variable(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``NAME=A,B``."""
    name, found, values = text.partition("=")
    if not name or not found:
        raise argparse.ArgumentTypeError(f"{shorten(text, 40)!r} is not NAME=A,B")
    return name, tuple(values.split(","))


def duration(text: str) -> Any:
    """Read seconds.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def told(
    verdict: Verdict,
    args: argparse.Namespace,
    rows: list[list[Variation]],
    named: tuple[str, str] | None,
) -> Verdict:
    """Say in the ledger what ranks had, and what was not varied."""
    from planguard.capture.play.named_backends import words_of
    from planguard.verdict import Approximation

    kinds = [row.words for row in rows[0]]
    had = f"each rank had one of: {'; '.join(kinds)}"
    if args.steps_per_rank:
        had = "; ".join(f"rank {rank}: {' or '.join(v.words for v in row)}"
                        for rank, row in enumerate(rows[:64]))  # fmt: skip
    elif len(kinds) == 1:
        had = f"each rank had {kinds[0]}"
    said = (
        f"{had}; beyond what own-answers names, other data, files, clocks and environments are not "
        "decided; "
        "where this machine has no CUDA, cuda is the CPU"
    )
    entry = Approximation("script", said, "exact", scope="plan")
    entries = [*verdict.approximations, entry]
    if named is not None:
        entries.append(Approximation("model", words_of(named), "exact", scope="plan"))
    return replace(verdict, approximations=tuple(entries))


def refuse_without_effect(play: Play, args: argparse.Namespace) -> None:
    """Refuse an option that varied nothing: its SAFE would say more than was seen.

    Raises:
        UsageError: No loader was walked, or none was made at a place that was named.
    """
    from planguard.capture.play.script import is_at

    made = [row["made"] for log in play.logs.values() for row in log.passes]
    declared = [*args.steps_per_rank, *args.lengths]
    if not made and (args.samples or args.vary or declared):
        given = "--vary" if args.vary else "a number of batches"
        option = "--samples" if args.samples else given
        raise UsageError(
            f"the script walks no torch DataLoader, so that {option} varies nothing",
            hint="--set NAME=A,B varies an environment variable; precheck(samples=...) a function",
        )
    for at, _ in declared:
        if at and not any(is_at(one, at) for one in made):
            known = ", ".join(sorted({one for one in made if one})[:8])
            raise UsageError(f"no DataLoader was made at {at}", hint=f"those walked: {known}")
