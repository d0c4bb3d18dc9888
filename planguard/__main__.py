"""``python -m planguard``: the command line."""

from planguard.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
