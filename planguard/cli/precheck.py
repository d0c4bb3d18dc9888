"""``planguard precheck``: a training script as it stands, on any data of its ranks.

Above 400 lines: a script is started over for every play, and each has what the one before settled.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.cli import EXIT_INTERRUPTED
from planguard.cli.check import add_gate, add_output
from planguard.cli.job import Job
from planguard.cli.outputs import outputs_of, targets_of
from planguard.cli.varied import (
    duration,
    refuse_without_effect,
    settle,
    steps,
    told,
    variable,
    variations,
)
from planguard.config import load_settings
from planguard.errors import UsageError
from planguard.files import write
from planguard.report import Result
from planguard.report.policy import apply_policy
from planguard.sources import is_own

if TYPE_CHECKING:
    import argparse

    from planguard.capture.batches.patches import Patch
    from planguard.capture.batches.sampled import Answer, Door, Supply
    from planguard.capture.batches.samples import Chosen
    from planguard.capture.play.journal import Journal
    from planguard.capture.play.ranks import Play, PlayedRank
    from planguard.capture.play.script import Variation
    from planguard.capture.values.own_answers import Site
    from planguard.config import Settings
    from planguard.files import Target
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

_EPILOG = """\
examples:
  planguard precheck train.py --ranks 4                        as it is
  planguard precheck train.py --ranks 4 -- --lr 0.1            with arguments of its own
  planguard precheck train.py --ranks 4 --samples 3            three batches, any on each
  planguard precheck train.py --ranks 2 --steps-per-rank 10,9  rank 1's data ends first
  planguard precheck train.py --ranks 2 --lengths 10,9         any rank's data ends first
  planguard precheck train.py --ranks 2 --lengths train.py:31=3,2   of one loader only
  planguard precheck train.py --ranks 2 --set MODE=text,image  one of two environments
  planguard precheck train.py --ranks 2 --fix --patch fix.diff   a proved edit, as a diff

what is varied, and nothing else:
  --samples N          every torch DataLoader of a rank gives its own batches,
                       or its batch k in the place of each of them; k is any
                       of 0 to N-1, on each rank
  --vary               batches like the first of each loader but for one thing
  --steps-per-rank     every torch DataLoader (or the one made at FILE:LINE)
                       gives rank r so many batches: cut, or begun again
  --lengths            the same, any of them on each rank
  --set NAME=A,B       the environment variable NAME is A or B, on each rank
The script runs: what it writes it writes. Its output is not shown.
--fix edits a copy in memory, plays it with all that is varied, and shows only an
edit that is SAFE: no file of yours is changed; git apply FILE does that.

exit codes:
  0 safe   1 findings   2 usage, or the script fails   3 undecided   4 internal error
  130 interrupted
"""
_TELL_EVERY = 2.0
"""Seconds between two lines of progress."""


class PrecheckScript:
    """The command; see ``planguard precheck --help``."""

    name = "precheck"
    help = "Play all ranks of a training script here, and decide whether their collectives agree."
    takes_rest = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = "planguard precheck SCRIPT --ranks N [options] [-- ARGS]"
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("script", metavar="SCRIPT", help="file that every rank runs as the main program")
        add("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
        add("--ranks", type=int, required=True, metavar="N", help="ranks of the job")
        add("--nodes", type=int, default=1, metavar="K", help="nodes the ranks are spread over")
        vary = parser.add_argument_group("what ranks may have of their own")
        vary.add_argument("--samples", type=int, metavar="N", help="batches any rank may meet")
        vary.add_argument(
            "--vary", action="store_true", help="batches made up, like the first of each loader"
        )
        for option, text in (
            ("--steps-per-rank", "batches of the loaders, by rank"),
            ("--lengths", "batches of the loaders, any on each rank"),
        ):
            vary.add_argument(
                option,
                action="append",
                default=[],
                type=steps,
                metavar="[FILE:LINE=]10,9",
                help=text,
            )
        vary.add_argument(
            "--set",
            action="append",
            default=[],
            type=variable,
            metavar="NAME=A,B",
            help="environment variable, any of these values on each rank",
        )
        play = parser.add_argument_group("play")
        play.add_argument("--model", metavar="NAME", help="execution model, or all")
        play.add_argument(
            "--budget",
            type=duration,
            default=60.0,
            metavar="S",
            help="time after which no further assignment is played (60)",
        )
        play.add_argument(
            "--timeout", type=duration, default=300.0, metavar="S", help="time of one rank (300)"
        )
        play.add_argument(
            "--most-assignments",
            type=int,
            default=64,
            metavar="N",
            help="all are played up to so many, else a cover (64)",
        )
        play.add_argument(
            "--compute",
            choices=("real", "stub"),
            default="real",
            help="all computation, or none that is large",
        )
        repair = parser.add_argument_group("repair")
        repair.add_argument(
            "--fix", action="store_true", help="search an edit of the source that is SAFE"
        )
        repair.add_argument(
            "--patch", metavar="FILE", help="with --fix, write it as a diff to a new file"
        )
        add_output(parser.add_argument_group("output"))
        add_gate(parser.add_argument_group("gate"))
        parser.set_defaults(for_all=None, certificate=None, repair=False, rules=False, option=())

    def run(self, args: argparse.Namespace) -> int:
        """Play the script, decide it, and print the result.

        Raises:
            UsageError: An option that cannot be, or a script that fails.
        """
        settle(args)
        args.paths = [args.script]
        given = {
            "model": args.model,
            "select": args.select,
            "ignore": args.ignore,
            "fail-on": args.fail_on,
        }
        start = None if args.no_config else Path.cwd()
        settings = load_settings(given, file=args.config, start=start)
        if args.show_settings:
            print(settings.shown(), end="")
            return 0
        file = None if args.module else args.script
        targets = targets_of(args, [file, args.config, args.baseline])
        chosen = outputs_of(args, targets)
        patched = None if args.patch is None else targets.claim(args.patch, "--patch")
        job = Job.of(args, settings, targets)
        started = time.perf_counter()
        played = _Played(args, settings)
        plan, verdict = played.decide()  # before a file is opened
        verdict = replace(verdict, plan=replace(verdict.plan, file=args.script))
        verdict = apply_policy(verdict, args.script, settings, plan=plan, baseline=job.baseline)
        result = Result(args.script, plan, verdict, seconds=time.perf_counter() - started)
        with ExitStack() as stack:
            outputs = [stack.enter_context(output) for output in chosen.open(job.options)]
            for reporter in (chosen.printer(job.options), *(one.reporter for one in outputs)):
                reporter.add(result)
                reporter.close()
        for output in outputs:
            print(output.announcement, file=sys.stderr)
        if args.fix:
            print(_announced(played.patch, patched, verdict), file=sys.stderr)
        code = job.finish([result])
        if played.is_interrupted:
            print("interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED
        return code


@dataclass
class _Played:
    """One script, played for every assignment that is chosen."""

    args: argparse.Namespace
    settings: Settings
    _told: float = field(default_factory=time.monotonic)
    _known: set[Site] = field(default_factory=set)
    _first: Play | None = None
    _journal: Journal | None = None
    patch: Patch | None = None
    is_interrupted: bool = False
    named: tuple[str, str] | None = None  # the model of the backend, and the line that names it

    def decide(self) -> tuple[Plan, Verdict]:
        """Play, and join the verdicts.

        Raises:
            UsageError: A rank cannot be played, or raises and nobody waits for it.
        """
        from planguard.capture.batches.sampled import Door, Supply, decide
        from planguard.capture.batches.samples import choose

        rows = variations(self.args)
        kinds = len(rows[0])
        supply = Supply(
            lambda number, rank: rows[rank][number],
            lambda number, rank: rows[rank][number].words,
            "samples" if kinds > 1 else "data" if self.args.steps_per_rank else "",
        )
        chosen = choose(kinds, self.args.ranks, self.args.most_assignments)
        _warm(self.args)
        door = Door(self._play, self._judge, self._run, self._tell)
        began = time.monotonic()
        try:
            answer = decide(supply, chosen, door, self.args.budget)
            if self.args.fix and answer.verdict.unsafe:
                answer = self._fixed(answer, supply, chosen, door)
            elif self.args.vary and not answer.verdict.unsafe:
                answer = self._beyond(answer, door, began + self.args.budget)
        except UsageError as error:
            raise UsageError(error.message, hint=_frames(error.hint)) from error
        except KeyboardInterrupt:
            answer = self._interrupted()
        finally:
            if self._journal is not None:
                self._journal.close()
        return answer.plan, told(answer.verdict, self.args, rows, self.named)

    def _interrupted(self) -> Answer:
        """Decide what the first play had issued when the command was interrupted.

        Raises:
            KeyboardInterrupt: Nothing of it was recorded yet.
        """
        from planguard.capture.batches.sampled import Answer
        from planguard.capture.precheck import judge

        play = self._first
        if play is None or not play.logs:
            raise KeyboardInterrupt
        self.is_interrupted = True
        play.note_interrupted()
        name, model = Path(self.args.script).name, self.settings.model
        plan, verdict = judge(play, name=name, model=model or self._named(play), known=None)
        return Answer(verdict, plan, ())

    def _named(self, play: Play) -> str | None:
        """Return the model of the backend that a play names, and keep the line that does."""
        from planguard.capture.play.named_backends import model_of

        self.named = model_of(play) or self.named
        return None if self.named is None else self.named[0]

    def _fixed(self, answer: Answer, supply: Supply, chosen: Chosen, door: Door) -> Answer:
        """Search an edit of the source, and put it, or that there is none, into the finding."""
        from planguard.capture.batches.patches import SCRIPT, Patch, find_patch, with_patch

        found = find_patch(answer, supply, chosen, door, self.args.budget, SCRIPT)
        self.patch = found if isinstance(found, Patch) else None
        return with_patch(answer, found)

    def _beyond(self, answer: Answer, door: Door, end: float) -> Answer:
        """Decide the script for batches that are made up, like the first one of each loader."""
        from planguard.capture.batches.sampled import Supply, left_open, play_one
        from planguard.capture.batches.subjects import Walking
        from planguard.capture.batches.unlike import Beyond
        from planguard.capture.play.script import Variation, batches_in

        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            keep = Supply(lambda *_: Variation(kept=folder), lambda *_: "", "")
            play_one(self._play(), door, keep, (0,) * self.args.ranks)
            batches = batches_in(folder)
            if not batches:
                reason = "no batch of a loader can be kept"
                return replace(answer, verdict=left_open(answer.verdict, reason))

            def job(played: PlayedRank, given: dict[str, Any]) -> None:
                self._run(played, Variation(batches=given, kept=folder))

            door = replace(door, job=job)
            return Beyond(Walking(folder), [batches], self.args.ranks, door, end).decide(answer)

    def _play(self) -> Play:
        from planguard.capture.play.journal import Journal
        from planguard.capture.play.mailbox import LARGE_BYTES, SMALL_BYTES
        from planguard.capture.play.ranks import Play

        self._journal = self._journal or Journal()
        varied = self.args.samples or self.args.set or self.args.lengths or self.args.vary
        play = Play(
            self.args.ranks,
            is_every=True,
            small=SMALL_BYTES if varied else LARGE_BYTES,
            local_size=-(-self.args.ranks // self.args.nodes),
            timeout=self.args.timeout,
            compute="real" if self.args.compute == "real" else "zeros",
            is_quiet=True,
            journal=self._journal,
            model=self.settings.model,
            body=self.args.script,
        )
        if self._first is not None:  # what the program is told of devices was settled there
            play.devices_at, play.devices_why = self._first.devices_at, self._first.devices_why
        self._first = self._first or play
        return play

    def _run(self, played: PlayedRank, variation: Variation) -> None:
        from planguard.capture.play.script import Script, varied

        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # N ranks show N bars, in each play
        script = Script(self.args.script, self.args.module, tuple(self.args.rest))
        with varied(variation, played.session.recorder):
            script(played.devices)

    def _judge(self, play: Play) -> tuple[Plan, Verdict]:
        from planguard.capture.precheck import judge

        name, model = Path(self.args.script).name, self.settings.model
        if model is None:
            model = self._named(play)
        is_any = self.args.samples is None and not self.args.vary
        plan, verdict = judge(play, name=name, model=model, known=self._known, data=is_any)
        if verdict.safe:
            refuse_without_effect(play, self.args)
        return plan, verdict

    def _tell(self, played: int, chosen: int) -> None:
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY and chosen > 1:
            self._told = now
            print(f"played {played} of {chosen} assignments", file=sys.stderr)


def _announced(patch: Patch | None, target: Target | None, verdict: Verdict) -> str:
    """Write the patch where a file was named for it, and return what to say.

    Raises:
        OSError: It cannot be written.
    """
    if patch is None:
        why = "the finding says why" if verdict.unsafe else f"the script is {verdict.outcome.value}"
        return f"--fix: no patch ({why})"
    if target is None:
        return "--fix: a proved patch is in the finding; write it to a new file with: --patch FILE"
    write(target, patch.diff)
    path = shlex.quote(str(target.path))
    return f"wrote {target.path} (the patch, proved); apply it with: git apply {path}"


def _frames(trace: str) -> str:
    """Leave out of the frames of an exception those that are none of the script's."""
    kept: list[str] = []
    is_left_out = False
    for line in trace.splitlines():
        found = re.match(r'  File "(.+?)", line', line)
        if found is not None:
            is_left_out = is_own(found[1]) or found[1].startswith("<frozen")
        elif not line.startswith("    "):
            is_left_out = False
        if not is_left_out:
            kept.append(line)
    return "\n".join(kept)


def _warm(args: argparse.Namespace) -> None:
    """Import what takes seconds once, where the script's text says that every rank will."""
    from planguard.capture.play.imports import warm

    if not args.module:
        text = Path(args.script).read_bytes()
        if b"DistributedDataParallel" in text or b"accelerate" in text or b"lightning" in text:
            warm("torch._dynamo")
        if b"fsdp" in text:
            warm("torch._dynamo", "torch.distributed.fsdp")
