"""Turns the recorder, or the live guard, of this process on and off between two steps of a job.

Everything is timed within one process: rounds of some steps each, bare and not in turns, so that
what else the machine does meets both alike. Where the recorder is timed, a bare round has the real
process group behind a method of one line (``_passing``): what that line costs is told beside it.
"""

import json
import os
import statistics
import time
from pathlib import Path

import torch.distributed as dist

from planguard.capture.run import start
from planguard.capture.run.record_group import _OTHER_NAME, record_group_class
from planguard.live import guard
from planguard.plan.vocabulary import METHODS

NAMES = [name for names in METHODS for name in names]
FIRST = 5
"""Steps before the first round."""


def _passing(name):
    """Return a method that hands a call to the real group."""

    def call(self, *args, **options):
        method = getattr(self.inner, name, None) or getattr(self.inner, _OTHER_NAME[name])
        return method(*args, **options)

    return call


class Recorded:
    """The recorder of this process, which ``planguard dryrun`` started."""

    def __init__(self):
        self.kind = record_group_class()
        self.run = start._run  # noqa: SLF001 - this is what is timed
        self.places = [(self.kind, name, vars(self.kind)[name]) for name in NAMES]
        self.bare = [(self.kind, name, _passing(name)) for name in NAMES]
        for restore in reversed(self.run.undo):
            restore()
        self.run.undo.clear()
        # What is replaced is replaced once, and then put in and out: its caches stay warm.
        put = start._set  # noqa: SLF001 - same

        def noted(run, owner, name, value):
            self.places.append((owner, name, value))
            put(run, owner, name, value)

        start._set = noted  # noqa: SLF001 - same
        start._patch(self.run)  # noqa: SLF001 - same
        start._set = put  # noqa: SLF001 - same
        self.off()

    def on(self):
        self._put(self.places)

    def off(self):
        for restore in reversed(self.run.undo):
            restore()
        self._put(self.bare)

    def _put(self, places):
        for owner, name, value in places:
            setattr(owner, name, value)


class Guarded:
    """A live guard."""

    def on(self):
        self.guard = guard(60)

    def off(self):
        self.guard.stop()


class Ways:
    """Changes the way after every round of ``length`` steps; ``step`` is called behind each."""

    def __init__(self, length):
        self.length = length
        self.steps = 0
        self.is_on = False
        self.began = 0.0
        self.rows = {False: [], True: []}
        self.what = None

    def step(self):
        """Take note that a step has ended."""
        now = time.process_time()
        self.steps += 1
        done = self.steps - FIRST
        if done < 0 or done % self.length:
            return
        if done:
            self.rows[self.is_on].append((now - self.began) / self.length)
            (self.what.off if self.is_on else self.what.on)()
            self.is_on = not self.is_on
        else:
            self.what = Recorded() if start._run is not None else Guarded()  # noqa: SLF001 - same
        self.began = time.process_time()

    def tell(self):
        """Write what was timed, on rank 0."""
        if self.is_on:
            self.what.off()
        if isinstance(self.what, Recorded):
            self.what.on()
        if dist.get_rank() == 0:
            Path(os.environ["TRAINERS_STEPS"]).write_text(json.dumps(self.said()))

    def said(self):
        """Return what was found: a round against the bare ones before and behind it."""
        bare, other = self.rows[False], self.rows[True]
        pairs = [2 * b / (a + c) for a, b, c in zip(bare, other, bare[1:], strict=False)]
        noise = [2 * b / (a + c) for a, b, c in zip(bare, bare[1:], bare[2:], strict=False)]
        found = {"rounds": len(pairs), "steps": self.length,
                 "bare, ms": round(1e3 * statistics.median(bare), 2)}  # fmt: skip
        for name, rows in (("ratio", pairs), ("bare against bare", noise)):
            low, middle, high = statistics.quantiles(rows, n=4)
            found[name] = [round(middle, 4), round(low, 4), round(high, 4)]
        total = sum(other[: len(bare)]) / sum(bare[: len(other)])
        found["all rounds"] = round(total, 4)
        return found
