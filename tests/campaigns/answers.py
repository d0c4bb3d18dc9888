"""Write tests/oracle/answers.txt anew: the tests that use it ask the enumerator everything.

    python tests/campaigns/answers.py [pytest's arguments]

Needed when the enumerator's source has changed, and worth it when tests have new plans: what the
list has already is not asked again. The tests have to pass: what they assert of the checker is what
they are for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from oracle import answers  # noqa: E402


def users():
    """List the files of tests that look into the list, by themselves or by the campaign."""
    looks = re.compile(r"^(from oracle\.answers import outcome_of|import campaign)$", re.MULTILINE)
    return [file for file in sorted(TESTS.rglob("test_*.py")) if looks.search(file.read_text())]


def main():
    """Run the tests, then write what they asked."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]
        environment = {**os.environ, "PLANGUARD_ANSWERS_TO": folder}
        subprocess.run([*command, *users()], env=environment, check=True)
        if not any(Path(folder).iterdir()):
            raise SystemExit("no test asked anything: the list stays as it is")
        print(f"{answers.write(Path(folder))} lines in {answers.LIST}")


if __name__ == "__main__":
    main()
