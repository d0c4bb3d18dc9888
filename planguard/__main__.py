"""``python -m planguard``: the command line."""

import gc
import os
import signal
import sys
from typing import Any, NoReturn


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _default_in_child() -> None:
    # What is forked (the ranks of a play) is ended by SIGTERM as any process is.
    if signal.getsignal(signal.SIGTERM) is _interrupted:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


_SOON = 0.01
"""Seconds behind which an interruption that was lost is raised again."""


def _lost(process: int, others: Any) -> Any:
    """Return a hook that raises an interruption again which came where Python drops exceptions.

    Those are finalizers, and what is called at a fork: logging's, which every rank of a play meets.
    """

    def hook(unraisable: Any) -> None:
        kind = unraisable.exc_type
        if not (kind and issubclass(kind, KeyboardInterrupt)) or os.getpid() != process:
            others(unraisable)
            return
        signal.signal(signal.SIGALRM, _interrupted)
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    return hook


def main() -> int:
    """Run the command line and return its exit code.

    SIGTERM ends a command as Ctrl-C does, from here to its end: what it started is ended, and a
    line is said. Who ignores it, or has a handler of its own, keeps that.
    """
    others = sys.unraisablehook
    sys.unraisablehook = _lost(os.getpid(), others)
    try:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _interrupted)
            os.register_at_fork(after_in_child=_default_in_child)
        from planguard.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    finally:
        gc.freeze()  # the process ends: to walk all that it holds, twice, would find nothing
        sys.unraisablehook = others


if __name__ == "__main__":
    raise SystemExit(main())
