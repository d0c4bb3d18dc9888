"""The command line: which commands exist, and how an exception becomes an exit code.

Results go to stdout, progress and messages to stderr. The exit code is the same for every output
format (ADR 0005). A command's module is imported only when the command is called, so that
``planguard --version`` costs an interpreter start and little more.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from planguard.cli.common import add_common, say_end, say_start
from planguard.cli.parser import Help, Parser
from planguard.errors import (
    PACKAGES,
    InternalError,
    MissingPackageError,
    PlanError,
    PlanGuardError,
    ReplayError,
    UnsafePlanError,
    UsageError,
    shorten,
)
from planguard.sources import is_own

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_SAFE = 0
EXIT_FINDINGS = 1
EXIT_INPUT = 2
EXIT_UNDECIDED = 3
EXIT_INTERNAL = 4
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""What a shell reports for a program that SIGPIPE ended: ``planguard check ... | head``."""
_STDOUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})

_EPILOG = """\
examples:
  planguard check plan.json               under the plan's own model, else nccl
  planguard check plan.json --model all   under all nine execution models
  planguard check plans --format jsonl    a folder; one result per line
  planguard precheck train.py --ranks 4   a script, played here, no devices
  planguard audit dumps                   what a hung job was waiting for
  planguard explain PG001                 what a finding code means

exit codes:
  0 safe   1 findings   2 usage, unreadable or refused input
  3 undecided   4 internal error
"""


class Command(Protocol):
    """What a command module's class offers."""

    name: str
    help: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and return an exit code."""


@dataclass(frozen=True)
class CommandEntry:
    """Where a command lives; enough for ``--help`` without importing it.

    Attributes:
        name: The verb.
        module: The module to import when the verb is used; it defines one class of that ``name``.
        help: One line for the list of commands.
    """

    name: str
    module: str
    help: str

    def load(self) -> Command:
        """Import the module and make the command."""
        # datetime first: a Ctrl-C in msgspec's own import of it is lost, and the first decoder then
        # ends the process with a segmentation fault (docs/bugs-found.md).
        import datetime as dt  # noqa: F401
        import importlib

        from planguard.garbage import no_collection

        with no_collection():  # nothing that is loaded is ever garbage: a tenth of the start
            module = importlib.import_module(self.module)
        for value in vars(module).values():
            if isinstance(value, type) and value.__dict__.get("name") == self.name:
                command: Command = value()
                return command
        raise InternalError(f"{self.module} defines no command named {self.name!r}")


COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry("check", "planguard.cli.check", "decide plans"),
    CommandEntry("init", "planguard.cli.init", "a project's settings file"),
    CommandEntry("convert", "planguard.cli.convert", "planner formats to plan files"),
    CommandEntry("schema", "planguard.cli.schema", "JSON Schema of a plan or a result"),
    CommandEntry("explain", "planguard.cli.explain", "the page of a finding code"),
    CommandEntry("audit", "planguard.cli.audit", "what a recorded run was stuck in"),
    CommandEntry("screen", "planguard.cli.screen", "many plans: what is blocked, and why"),
    CommandEntry("precheck", "planguard.cli.precheck", "a training script on any data"),
    CommandEntry("dryrun", "planguard.cli.dryrun", "record a job and decide what it did"),
    CommandEntry("guard", "planguard.cli.guard", "run a job, and say which ranks are stuck"),
    CommandEntry("report", "planguard.cli.report", "pictures of a plan"),
    CommandEntry("replay", "planguard.cli.replay", "run a witness on real processes"),
    CommandEntry("complete", "planguard.cli.complete", "completions for bash, zsh and fish"),
    CommandEntry("doctor", "planguard.cli.doctor", "what is installed, what is missing"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never raises, never exits by itself.

    Args:
        argv: Arguments without the program name; None takes them from ``sys.argv``.
    """
    from planguard.files import record_reads

    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    try:
        with record_reads():
            code = _answer(arguments)
            if is_verbose(arguments):
                say_end(code)
        # What was printed counts where it has arrived: a full disk is known here at the latest.
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        _tell("interrupted")
        return EXIT_INTERRUPTED
    except OSError as error:
        return _report(error, arguments)
    return code


def is_verbose(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for ``--verbose``; what follows ``--`` is a job's."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "-v" in own or "--verbose" in own


def _answer(arguments: list[str]) -> int:
    """Run the command and map what it raises to an exit code."""
    try:
        return _dispatch(arguments)
    except SystemExit as stop:  # argparse: --help, --version, a usage error
        return stop.code if isinstance(stop.code, int) else EXIT_INPUT
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the one place that maps exceptions to exit codes
        return _report(error, arguments)


def _open_streams() -> None:
    """Give a closed standard stream a place, so that no other file gets its number.

    Writing to a closed standard output fails as it should; a closed standard error loses messages,
    which must not go to standard output instead (``print(file=None)`` writes there).
    """
    if sys.stdout is None or sys.stderr is None or sys.stdin is None:
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _drop_stdout() -> None:
    """Point stdout at nothing, or the interpreter's own flush at exit would fail once more."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stdout.fileno() == 1:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.close(null)


def _tell(text: str) -> None:
    """Print a last line on stderr, wherever that leads."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr)


def _dispatch(arguments: list[str]) -> int:
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    parser, verbs, commands = _parser(chosen)
    own, rest = arguments, []
    if chosen is not None and getattr(commands.get(chosen), "takes_rest", False):
        at = arguments.index("--") if "--" in arguments else len(arguments)
        own, rest = arguments[:at], arguments[at + 1 :]
    args, extra = parser.parse_known_args(own)
    args.rest = rest
    if extra:
        (verbs.get(args.command) or parser).refuse_unknown(extra)
    if args.command is None:
        parser.print_help(sys.stderr)
        return EXIT_INPUT
    if args.verbose:
        say_start()
    return commands[args.command].run(args)


def whole_parser() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser with the arguments of every command, and those of the commands."""
    parser, verbs, _ = _parser(None, is_whole=True)
    return parser, verbs


def _parser(
    chosen: str | None, *, is_whole: bool = False
) -> tuple[Parser, dict[str, Parser], dict[str, Command]]:
    """Build the parsers; only the chosen command is imported and declares its arguments."""
    parser = Parser(
        prog="planguard",
        description="Decide whether a parallelization plan can deadlock, before it runs.",
        epilog=_EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version)
    verbs = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    commands: dict[str, Command] = {}
    for entry in COMMANDS:
        sub = verbs.add_parser(
            entry.name,
            help=entry.help,
            formatter_class=Help,
            allow_abbrev=False,
        )
        if is_whole or entry.name == chosen:
            commands[entry.name] = command = entry.load()
            sub.description = command.help
            command.add_arguments(sub)
            add_common(sub)
    return parser, dict(verbs.choices), commands


class _Version(argparse.Action):
    """``--version``, which reads the version only when asked."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from planguard import __version__

        print(f"planguard {__version__}")
        parser.exit()


def _report(error: Exception, arguments: list[str]) -> int:
    """Print an exception for people and return its exit code."""
    if isinstance(error, UnsafePlanError):
        code = EXIT_FINDINGS
    elif isinstance(error, (PlanError, UsageError, ReplayError)):
        code = EXIT_INPUT
    elif isinstance(error, OSError):
        _tell(f"error: {_of_the_machine(error)}")
        return EXIT_INPUT
    elif isinstance(error, ModuleNotFoundError) and _package(error) in PACKAGES:
        verb = next((word for word in arguments if not word.startswith("-")), "")
        _tell(f"error: {MissingPackageError(_package(error), f'planguard {verb}')}")
        return EXIT_INPUT
    elif isinstance(error, MemoryError):
        _tell("error: there is not enough memory on this machine; nothing more was decided")
        return EXIT_INPUT
    else:
        with contextlib.suppress(OSError, ValueError):
            _report_internal(error, arguments)
        return EXIT_INTERNAL
    _tell(f"error: {error}")
    return code


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]


def _of_the_machine(error: OSError) -> str:
    """Say which file, stream or limit of the machine failed, and how."""
    reason = error.strerror or type(error).__name__
    if error.filename is not None:
        return f"{shorten(str(error.filename), 200)}: {reason}"
    if error.errno in _STDOUT_ERRORS:  # every file that is written names itself
        _drop_stdout()
        return f"standard output: {reason}; the result is not whole"
    return f"the system refused: {reason}"


def _report_internal(error: Exception, arguments: list[str]) -> None:
    """Say what broke, where, and how to see it again."""
    import platform
    import shlex
    import traceback
    from pathlib import Path

    from planguard import __version__

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_own(frame.filename)]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    message = error.message if isinstance(error, PlanGuardError) else str(error)
    versions = f"planguard {__version__}, Python {platform.python_version()}, {sys.platform}"
    print(
        f"internal error[PG999]: {type(error).__name__}: {shorten(message, 200)}{where}\n"
        "  a defect of PlanGuard, not a statement about the plan: nothing was decided\n"
        f"  reproduce: planguard {shlex.join(arguments)}\n"
        f"  versions:  {versions}\n"
        "  -v or PLANGUARD_DEBUG=1 prints the traceback; please report both",
        file=sys.stderr,
    )
    if os.environ.get("PLANGUARD_DEBUG") or is_verbose(arguments):
        traceback.print_exception(error)
