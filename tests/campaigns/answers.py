"""Write tests/oracle/answers.txt anew: the tests that use it ask the enumerator everything.

    python tests/campaigns/answers.py [pytest's arguments]

Needed when the enumerator's source has changed, and worth it when tests have new plans. The tests
have to pass: what they assert of the checker is what they are for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from oracle import answers  # noqa: E402


def users():
    """List the files of tests that look into the list."""
    files = sorted(TESTS.rglob("test_*.py"))
    return [file for file in files if "from oracle.answers import outcome_of" in file.read_text()]


def main():
    """Run the tests, then write what they asked."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]
        environment = {**os.environ, "PLANGUARD_ANSWERS_TO": folder}
        subprocess.run([*command, *users()], env=environment, check=True)
        noted = {
            line for file in Path(folder).glob("*.txt") for line in file.read_text().split("\n")
        }
    lines = sorted(noted - {""})
    answers.LIST.write_text("\n".join([answers.head(), *lines, ""]))
    print(f"{len(lines)} answers in {answers.LIST}")


if __name__ == "__main__":
    main()
