"""``planguard replay``: show a verdict on real torch.distributed processes."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from planguard.cli.outputs import targets_of
from planguard.errors import ReplayError, UsageError, shorten
from planguard.files import write
from planguard.options import MODEL_NAMES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from planguard.files import Target
    from planguard.plan.plan import Plan
    from planguard.replay import ReplayResult
    from planguard.verdict import Verdict, Witness

COMPLETED, SEEN, DIFFERENT = 0, 1, 3

_EPILOG = """\
examples:
  planguard replay plan.json                     the first witness, on gloo
  planguard replay plan.json --schedule 7301     the witness of that id, as a finding prints it
  planguard replay plan.json --script hang.py    write the script instead of running it

exit codes:
  0 a plan judged SAFE ran to its end   1 a hang or mismatch was seen
  2 usage, unreadable input             3 the prediction did not come true on this backend
"""


class Replay:
    """The command; see ``planguard replay --help``."""

    name = "replay"
    help = "Run a plan, or the witness of a finding, with one real process per rank."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        parser.add_argument("plan", metavar="PLAN", help="a plan file")
        parser.add_argument(
            "--schedule",
            metavar="ID|SCHEDULE",
            help="id of a witness, or RANK.ACTION items such as 5.1284/6.1283; default: the first",
        )
        parser.add_argument(
            "--model", choices=MODEL_NAMES, metavar="NAME", help="execution model of the verdict"
        )
        parser.add_argument(
            "--backend",
            choices=("gloo", "nccl"),
            default="gloo",
            help="nccl needs one GPU per rank (default gloo)",
        )
        parser.add_argument(
            "--timeout",
            type=float,
            default=10.0,
            metavar="SECONDS",
            help="without progress of any rank (default 10)",
        )
        parser.add_argument(
            "--delay-seed",
            type=int,
            metavar="N",
            help="random delays before the actions, and other picks of what the plan leaves open",
        )
        parser.add_argument(
            "--script", metavar="FILE", help="write the standalone script and run nothing"
        )
        parser.add_argument("--force", action="store_true", help="overwrite FILE")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Check the plan, play it, and compare.

        Raises:
            PlanError: The plan cannot be read.
            ReplayError: The schedule does not fit the plan, or the processes do not start.
            UsageError: A wrong option value, or too few GPUs.
        """
        import planguard
        from planguard.replay import play, playable_of, require_torch, transcript, write_script

        if not 0.1 <= args.timeout <= 3600:
            raise UsageError(f"--timeout {args.timeout}: choose 0.1 to 3600 seconds")
        target = None
        if args.script is not None:
            target = targets_of(args, [args.plan]).claim(args.script, "--script")
        plan = planguard.load(args.plan)
        verdict = planguard.check(plan, model=args.model)
        witness = _witness(args.schedule, verdict, plan)
        way = playable_of(plan, witness, verdict.model, args.delay_seed)
        if target is not None:
            script = write_script(
                way.flat,
                way.witness,
                places=way.places,
                backend=args.backend,
                model=verdict.model,
            )
            _write(target, script.text)
            return 0
        require_torch()  # before a line that says that something is replayed
        print(_announce(verdict, witness, args.backend), file=sys.stderr)
        with _sigterm_exits():
            result = play(way, args.backend, args.timeout, args.delay_seed, model=verdict.model)
        code, conclusion = conclude(verdict, witness, result)
        if args.format == "json":
            print(json.dumps({**result.to_json(), "conclusion": conclusion}, sort_keys=True))
        else:
            print(transcript(result, conclusion))
        return code


def conclude(verdict: Verdict, witness: Witness | None, result: ReplayResult) -> tuple[int, str]:
    """Return the exit code and the last line: what the run says about the verdict.

    Args:
        verdict: The verdict on the plan.
        witness: What was played; None for the whole plan.
        result: What was seen.
    """
    took = f"in {result.seconds:.1f} s"
    if not result.ranks:
        return DIFFERENT, result.reason
    if witness is not None and (witness.blocked or witness.end == "mismatch"):
        return (SEEN if result.reproduced else DIFFERENT), result.reason
    if witness is not None:
        if result.reproduced:
            return SEEN, result.reason
        return DIFFERENT, f"the schedule finished {took}; it shows neither a hang nor wrong data"
    if verdict.safe:
        return _conclude_safe(verdict.model, result, took)
    outcome = f"{verdict.outcome.value} under model {verdict.model}"
    if result.reproduced:
        return SEEN, f"{result.reason} ({outcome})"
    return DIFFERENT, (
        f"not reproducible on this backend: the plan is {outcome}, one run on "
        f"{result.backend} finished "
        f"{took}; that does not refute the verdict"
    )


def _conclude_safe(model: str, result: ReplayResult, took: str) -> tuple[int, str]:
    if result.completed:
        return COMPLETED, f"finished {took}: every rank came to its end with the data it should get"
    if model == "gloo" and result.backend == "gloo":
        return SEEN, (
            f"{result.reason}; this CONTRADICTS the verdict SAFE under model gloo: "
            "please report it with the plan"
        )
    return DIFFERENT, (
        f"not reproducible on this backend: SAFE is about model {model}; on {result.backend} "
        f"{result.reason}. `planguard check --model gloo` judges the plan for gloo"
    )


def _witness(schedule: str | None, verdict: Verdict, plan: Plan) -> Witness | None:
    """Choose what to play: the schedule asked for, else the first witness of the verdict.

    Raises:
        ReplayError: No such witness, or a schedule that does not fit the plan.
    """
    from planguard.plan.flatten import flatten
    from planguard.replay import decode_witness
    from planguard.replay.settle import is_open

    known = [f.witness for f in verdict.findings if f.witness is not None]
    if schedule is None:
        return known[0] if known else None
    for witness in known:
        if schedule in (witness.id, witness.encoded):
            return witness
    if "." in schedule:
        return decode_witness(schedule, None if is_open(plan) else flatten(plan))
    ids = ", ".join(witness.id for witness in known)
    raise ReplayError(
        f"no witness {shorten(schedule)} in the verdict {verdict.outcome.value}",
        hint=f"witnesses: {ids}" if ids else "this verdict has no witness; leave --schedule out",
    )


def _announce(verdict: Verdict, witness: Witness | None, backend: str) -> str:
    what = "the whole plan" if witness is None else f"witness {witness.id}"
    outcome = f"verdict {verdict.outcome.value} under model {verdict.model}"
    return f"{outcome}; replaying {what} on {backend}"


def _write(target: Target, text: str) -> None:
    write(target, text)
    path = target.path
    print(f"wrote {path}; run it with: {Path(sys.executable).name} {path} --timeout 10")


@contextlib.contextmanager
def _sigterm_exits() -> Iterator[None]:
    """Turn SIGTERM into an ordinary exit, so that every process is stopped first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
