"""What the enumerator said of the plans of the tests, so that it is not asked again in each run.

The plans are the same in each run, and so is the enumerator: what it says of one is written down in
``answers.txt``, a line for each plan and effort, a letter for each model. Three things keep the
list true:

* its first line has the digest of the enumerator's source. With another source no answer is used,
  everything is asked, and ``tests/unit/test_oracle_answers.py`` fails with the command that writes
  the list anew;
* an answer is found by the text of its plan, so a plan that a changed generator makes is asked;
* one plan in `ASKED_ANYWAY` is asked in each run and has to get the answer of the list. With
  ``PLANGUARD_ENUMERATE=1``, all are: what the list has is compared, never passed over.

Write it anew: ``python tests/campaigns/answers.py``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from oracle.enumerator import Effort, OracleBudget, enumerate_plan
from oracle.models import MODELS

HERE = Path(__file__).parent
LIST = HERE / "answers.txt"
ASKED_ANYWAY = 32
USUAL = Effort()
LETTERS = {"SAFE": "S", "DEADLOCK": "D", "MISMATCH": "M", "POTENTIAL_DEADLOCK": "P", "UNKNOWN": "U"}
OUTCOMES = {letter: outcome for outcome, letter in LETTERS.items()}
GIVEN_UP, NOT_ASKED = "-", "."
COLUMNS = {model: column for column, model in enumerate(MODELS)}


def outcome_of(plan: dict[str, Any], model: str, effort: Effort = USUAL) -> str:
    """Return ``enumerate_plan(plan, model, effort).outcome``, from the list where it has it.

    Raises:
        OracleUnsupported, OracleBudget: as `enumerate_plan` does.
    """
    key = key_of(plan, effort)
    letter = answers().get(key, NOT_ASKED * len(MODELS))[COLUMNS[model]]
    is_known = letter != NOT_ASKED
    asks_all = bool(os.environ.get("PLANGUARD_ENUMERATE"))
    if not is_known or asks_all or int(key, 16) % ASKED_ANYWAY == 0:
        said = _asked(plan, model, effort)
        if is_known and letter != said:
            raise AssertionError(f"{LIST.name} has {letter}, the enumerator says {said}: {plan}")
        letter = said
    if folder := os.environ.get("PLANGUARD_ANSWERS_TO"):
        with Path(folder, f"{os.getpid()}.txt").open("a") as notes:
            notes.write(f"{key} {model} {letter}\n")
    if letter == GIVEN_UP:
        raise OracleBudget(f"more than {effort.limit} states")
    return OUTCOMES[letter]


def _asked(plan: dict[str, Any], model: str, effort: Effort) -> str:
    """Ask the enumerator; give the letter."""
    try:
        return LETTERS[enumerate_plan(plan, model, effort).outcome]
    except OracleBudget:
        return GIVEN_UP


def key_of(plan: dict[str, Any], effort: Effort) -> str:
    """Return the name of a question: 48 bits of what is asked, in hexadecimal."""
    text = json.dumps([plan, *vars(effort).values()])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def answers() -> dict[str, str]:
    """Return key to a letter for each model; nothing where the list is of another enumerator."""
    first, *lines = LIST.read_text().splitlines()
    return dict(line.split() for line in lines) if first == head() else {}


def write(folder: Path) -> int:
    """Write the list anew from what the processes of a run noted in a folder; count its lines."""
    found: dict[str, list[str]] = {}
    for file in folder.glob("*.txt"):
        for line in file.read_text().splitlines():
            key, model, letter = line.split()
            found.setdefault(key, [NOT_ASKED] * len(MODELS))[COLUMNS[model]] = letter
    lines = [f"{key} {''.join(letters)}" for key, letters in sorted(found.items())]
    LIST.write_text("\n".join([head(), *lines, ""]))
    return len(lines)


@cache
def head() -> str:
    """Return the first line that the list has if it is of this enumerator."""
    total = hashlib.sha256()
    for source in sources():
        total.update(source.read_bytes())
    return f"enumerator {total.hexdigest()[:16]}"


def sources() -> list[Path]:
    """List the files that decide what the enumerator says: its own and what they import."""
    found, todo = set(), ["enumerator"]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        imports = ast.walk(ast.parse((HERE / f"{name}.py").read_text()))
        modules = [str(node.module) for node in imports if isinstance(node, ast.ImportFrom)]
        todo += [m.removeprefix("oracle.") for m in modules if m.startswith("oracle.")]
    return [HERE / f"{name}.py" for name in sorted(found)]
