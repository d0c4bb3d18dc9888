"""Turns the recorder, or the live guard, of this process on and off between two steps of a job.

Everything is timed within one process. Blocks of some steps are bare and not in turns, the order in
a pair of blocks by lot, so that what else the machine does meets both alike. The steps behind a
turn are not timed: what is put in and out makes the interpreter look its attributes up anew. Where
the recorder is timed, a bare step has the real process group behind a method of one line
(``_passing``). The guard's thread runs all the time; what it takes is added to the guarded steps.
"""

import json
import os
import random
import time
from pathlib import Path

import torch.distributed as dist

from planguard.capture.run import start
from planguard.capture.run.record_group import _OTHER_NAME, record_group_class
from planguard.live import guard
from planguard.plan.vocabulary import METHODS

NAMES = [name for names in METHODS for name in names]
FIRST = 10
"""Steps before the first block."""
UNTIMED = 1
"""Steps behind a turn that are not timed."""


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

        start._set = noted  # noqa: SLF001 - for good: some are replaced only when they are needed
        start._patch(self.run)  # noqa: SLF001 - same
        self.off()

    def on(self):
        self._put(self.places)

    def off(self):
        for restore in reversed(self.run.undo):
            restore()
        self._put(self.bare)

    def beside(self):
        """Return the processor time of what runs beside the steps: nothing."""
        return 0.0

    def _put(self, places):
        for owner, name, value in places:
            setattr(owner, name, value)


class Guarded:
    """A live guard: its hooks are put in and out, its thread runs."""

    def __init__(self):
        self.guard = guard(60)
        self.hooks = self.guard._hooks  # noqa: SLF001 - this is what is timed
        thread = self.guard._thread  # noqa: SLF001 - same
        self.clock = time.pthread_getcpuclockid(thread.ident)
        self.hooks.remove()

    def on(self):
        self.hooks.install()

    def off(self):
        self.hooks.remove()

    def beside(self):
        """Return the processor time that the guard's thread has taken until now."""
        return time.clock_gettime(self.clock)


class Ways:
    """Changes the way after every block of ``length`` steps; ``step`` is called behind each."""

    def __init__(self, length):
        self.length = length + UNTIMED
        self.steps = 0
        self.is_on = False
        self.began = self.beside = 0.0
        self.turns = random.Random(20)  # the same on every rank: both have the same way in a step
        self.next = []
        self.rows = []
        self.what = None

    def step(self):
        """Take note that a step has ended."""
        now = time.process_time()
        self.steps += 1
        done = self.steps - FIRST
        if done < 0:
            return
        if not done:
            self.what = Recorded() if start._run is not None else Guarded()  # noqa: SLF001 - same
            self.first = self.what.beside(), self.steps
        place = done % self.length
        if done and (place == 0 or place > UNTIMED):
            taken = now - self.began - (self.what.beside() - self.beside)
            self.rows.append((self.is_on, done // self.length - (place == 0), taken))
        if not place:
            self._turn()
        self.beside = self.what.beside()
        self.began = time.process_time()

    def _turn(self):
        if not self.next:
            self.next = self.turns.choice(([False, True], [True, False]))[:]
        way = self.next.pop()
        if way != self.is_on:
            (self.what.on if way else self.what.off)()
            self.is_on = way

    def tell(self):
        """Write what was timed, on rank 0: every step, and what ran beside all of them."""
        beside = (self.what.beside() - self.first[0]) / max(self.steps - self.first[1], 1)
        if isinstance(self.what, Recorded):
            if not self.is_on:
                self.what.on()
        else:
            if self.is_on:
                self.what.off()
            self.what.guard.stop()
        if dist.get_rank() == 0:
            said = {"steps": self.rows, "beside, s a step": beside}
            Path(os.environ["TRAINERS_STEPS"]).write_text(json.dumps(said))
