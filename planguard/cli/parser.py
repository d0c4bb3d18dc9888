"""The parser of the command line: what it refuses it says in two lines, with what was meant."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: (?P<given>.*?) \(choose from (?P<known>.*)\)", re.DOTALL)


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
        self.exit(2, f"error: {message}\nhint: {f'{hint}; ' if hint else ''}{more}\n")

    def refuse_unknown(self, extra: list[str]) -> NoReturn:
        """Refuse arguments that nothing takes, naming the option that was meant."""
        first = next((word for word in extra if word.startswith("-")), extra[0])
        name = first.partition("=")[0]
        if not name.startswith("-"):
            self.refuse(f"{self.prog} takes no further argument: {name!r}")
        from planguard.plan.defects import nearest

        options = [word for action in self._actions for word in action.option_strings]
        self.refuse(f"{self.prog} has no option {name}", nearest(name, options))
