"""``python -m planguard``: the command line."""

import signal
import sys
from typing import NoReturn


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        # Here, so that an early Ctrl-C ends in one line as a late one does, or an early SIGTERM.
        is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if is_default:
            signal.signal(signal.SIGTERM, _interrupted)
        from planguard.cli import main as run

        if is_default:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
