"""``planguard complete``: what a shell needs to complete the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.errors import MissingPackageError
from planguard.options import MODEL_NAMES

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")
FILES = frozenset({"FILE", "PATH", "PLAN", "IN", "OUT", "CODE|RESULT.json"})
"""Metavariables that stand for files."""

_EPILOG = """\
examples:
  planguard complete bash > ~/.local/share/bash-completion/completions/planguard
  planguard complete zsh > "${fpath[1]}/_planguard"
  planguard complete fish > ~/.config/fish/completions/planguard.fish
"""


class Complete:
    """The command; see ``planguard complete --help``."""

    name = "complete"
    help = "Print the completions of a shell; needs pip install 'planguard[completion]'."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        parser.add_argument("shell", choices=SHELLS, help="which shell")

    def run(self, args: argparse.Namespace) -> int:
        """Print the script.

        Raises:
            MissingPackageError: shtab is not installed.
        """
        try:
            import shtab
        except ImportError:
            raise MissingPackageError("shtab", "a completion script") from None
        from planguard.cli import whole_parser

        parser, verbs = whole_parser()
        for command in verbs.values():
            for action in command._actions:  # noqa: SLF001  argparse has no other list of them
                if action.metavar in FILES:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
                elif "--model" in action.option_strings and action.choices is None:
                    action.choices = (*MODEL_NAMES, "all")  # parsed elsewhere, with a hint
        print(shtab.complete(parser, args.shell))
        return 0
