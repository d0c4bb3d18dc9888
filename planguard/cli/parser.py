"""The parser of the command line: what it refuses it says in two lines, with what was meant."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from typing import Any, NoReturn

from planguard.explain.lines import columns_of

_CHOICE = re.compile(r"invalid choice: (?P<given>.*?) \(choose from (?P<known>.*)\)", re.DOTALL)


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal: no line of an example is broken by the screen."""

    def __init__(self, prog: str, *places: int, **options: Any) -> None:
        # argparse makes a formatter for every argument that is declared. Of itself it imports
        # shutil, and with it three compressions, for the width of a help that nobody asked for.
        options.setdefault("width", columns_of(sys.stdout) - 2)
        super().__init__(prog, *places, **options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            indent + piece for line in text.splitlines() for piece in fitted(line, width)
        )


def fitted(line: str, width: int) -> list[str]:
    """Return a line of help in pieces that fit a width.

    A comment goes below its command, a row of short entries is broken between two of them, and
    a command of a shell goes on behind a backslash.
    """
    if len(line) <= width or not line.strip():
        return [line]
    margin = line[: len(line) - len(line.lstrip())]
    entries = re.split(r" {2,}", line.strip())
    is_command = entries[0].startswith(("planguard ", "planner ", "python "))
    if is_command:
        shown = _wrapped(entries[0], width - 2, margin, margin + "    ")
        shown = [f"{piece} \\" for piece in shown[:-1]] + shown[-1:]
        notes = " ".join(entries[1:])
        return [*shown, *_wrapped(notes, width, margin + "    # ", margin + "    # ")]
    if len(entries) == 1:
        return _wrapped(line.strip(), width, margin, margin)
    if entries[0][:1].isdigit():  # exit codes, in a row
        rows = [margin + entries[0]]
        for entry in entries[1:]:
            if len(rows[-1]) + 3 + len(entry) <= width:
                rows[-1] += "   " + entry
            else:
                rows.append(margin + entry)
        return rows
    column = " " * line.index(entries[1])
    return _wrapped(line.strip(), width, margin, column)


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


class Parser(argparse.ArgumentParser):
    """An ``argparse`` parser without the wall of its usage in front of an error."""

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help and errors; unlike argparse's own, tell when standard output takes nothing."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Print the error and a hint, and exit with 2."""
        from planguard.plan.defects import nearest

        found = _CHOICE.search(message)
        hint = ""
        if found is not None:
            known = re.findall(r"[\w.-]+", found["known"])
            hint = nearest(found["given"].strip("'\""), known)
            hint = hint or f"one of {', '.join(known)}"
            what = message[: found.start()].removeprefix("argument ")
            message = f"{what if what.startswith('-') else ''}there is no {found['given']}"
        self.refuse(message.removeprefix("argument "), hint)

    def refuse(self, message: str, hint: str = "") -> NoReturn:
        """Print what is wrong and where to read on, and exit with 2."""
        more = f"{self.prog} --help lists what there is"
        if hint:
            more = f"{hint}{'' if hint.endswith('?') else ';'} {more}"
        self.exit(2, f"error: {message}\nhint: {more}\n")

    def refuse_unknown(self, extra: list[str]) -> NoReturn:
        """Refuse arguments that nothing takes, naming the option that was meant."""
        first = next((word for word in extra if word.startswith("-")), extra[0])
        name = first.partition("=")[0]
        if not name.startswith("-"):
            self.refuse(f"{self.prog} takes no further argument: {name!r}")
        from planguard.plan.defects import nearest

        options = [word for action in self._actions for word in action.option_strings]
        self.refuse(f"{self.prog} has no option {name}", nearest(name, options))
