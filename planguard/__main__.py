"""``python -m planguard``: the command line."""

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        # Here, so that an early Ctrl-C ends in one line as a late one does.
        from planguard.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
