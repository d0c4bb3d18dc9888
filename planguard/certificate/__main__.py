"""``python -m planguard.certificate FLAT_PLAN CERTIFICATE``: accepted (0), rejected (1)."""

from __future__ import annotations

import sys
from pathlib import Path

from planguard.certificate.agreement import RejectedError
from planguard.certificate.verify import verify

MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What reading JSON of another shape ends in."""


def main(arguments: list[str]) -> int:
    """Check one certificate and print one line; 2 where a file cannot be read."""
    if len(arguments) != 2:
        print("usage: python -m planguard.certificate FLAT_PLAN CERTIFICATE", file=sys.stderr)
        return 2
    try:
        plan, certificate = (Path(name).read_bytes() for name in arguments)
        print(f"accepted: {verify(plan, certificate)}")
    except RejectedError as error:
        print(f"rejected: {error}")
        return 1
    except OSError as error:
        print(f"unreadable: {error}", file=sys.stderr)
        return 2
    except MALFORMED as error:
        print(f"not a flat plan and a certificate: {error!r}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
