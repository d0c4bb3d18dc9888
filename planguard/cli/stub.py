"""``planguard dryrun --stub``: the ranks of a torchrun job played on this machine."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.play.script import Script
from planguard.capture.restarts import KIND
from planguard.cli import EXIT_INTERRUPTED, EXIT_UNDECIDED
from planguard.errors import UsageError
from planguard.execution.findings.undecided import ENDED_EARLY
from planguard.files import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_FLAGS = ("standalone", "no-python", "m", "module", "run-path")


@dataclass(frozen=True)
class Job:
    """A torchrun command line.

    Attributes:
        nodes: Number of nodes.
        per_node: Ranks of a node.
        script: What every rank runs.
    """

    nodes: int
    per_node: int
    script: Script


def run_stub(command: Sequence[str], folder: Path, args: argparse.Namespace) -> int:
    """Play the ranks of a job, nothing communicated but its control plane, and check the plan.

    Raises:
        UsageError: If the command is no torchrun, or a rank fails.
    """
    from planguard.capture.play.fake_world import read_mesh
    from planguard.capture.play.journal import Journal
    from planguard.capture.play.mailbox import size_for
    from planguard.capture.play.ranks import Play
    from planguard.cli import main

    job = read_torchrun(command)
    world = job.nodes * job.per_node
    play = Play(
        world,
        read_mesh(_mesh(args.mesh), world),
        samples=args.samples,
        local_size=job.per_node,
        timeout=args.timeout,
        compute=args.compute,
        small=size_for(world),
        model=args.model,
        body=job.script.name,
    )
    name = Path(job.script.name).name
    play.journal = journal = Journal()
    is_interrupted = False
    try:
        play.run(lambda played: job.script(played.devices))
        play = _decided(play, name, args.model or _named(play)[0])
    except KeyboardInterrupt:
        if not play.logs:
            raise
        play.note_interrupted()
        is_interrupted = True
    finally:
        journal.close()
    model, said = (args.model, "") if args.model else _named(play)
    failure, is_doubted = play.failure(), play.is_doubted
    if failure is not None:
        play.note_failed()
    plan = play.plan(name=name, model=model)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "captured.plan.json"
    write(file, plan.source)
    print(f"covered: {play.coverage}", file=sys.stderr)
    if said:
        print(said, file=sys.stderr)
    if play.computed:
        print(f"computed: {play.computed}", file=sys.stderr)
    for line in _remarks(play, plan):
        print(line, file=sys.stderr)
    code = main(["check", str(file)])
    if is_interrupted:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    if failure is not None and code == EXIT_UNDECIDED and not is_doubted:
        raise failure  # nobody waits for that rank, and yet the job does not end well
    return code


def _named(play: Any) -> tuple[str | None, str]:
    """Return the model of the backend that the script names, and what to say of it."""
    from planguard.capture.play.named_backends import model_of, words_of

    found = model_of(play)
    return (None, "") if found is None else (found[0], words_of(found))


def _decided(play: Any, name: str, model: str | None) -> Any:
    """Return the play that decides, when ranks may be answered otherwise by their own machines."""
    from planguard.capture.play.odd_data import with_odd_plays
    from planguard.engine import check_plan
    from planguard.options import CheckOptions

    def decide(one: Any) -> Any:
        return check_plan(one.plan(name=name, model=model), CheckOptions(model=model))

    return with_odd_plays(play, decide)


def _remarks(play: Any, plan: Any) -> list[str]:
    """Say what a reader must know of how the plan came about."""
    found = []
    if play.like and play.reads:
        more = f" and {len(play.reads) - 1} more places" if len(play.reads) > 1 else ""
        found.append(
            f"note: the script asks for its rank at {play.reads[0]}{more}; that the "
            f"{len(play.like)} ranks which were not played are like the others is assumed"
        )
    told = (KIND, ENDED_EARLY)
    if play.stuck:
        ranks = list(play.stuck)
        found.append(f"note: ranks {ranks} wait for an object, a value or a key that nobody sends")
    found += [f"note: {note.message}" for note in plan.approximations if note.kind in told]
    found += [f"note: rank {log.rank} ended by {log.end}" for log in play.logs.values() if log.end]
    return found + [
        f"warning[PG505]: {note.message}"
        for note in plan.approximations
        if note.kind == "data-dependent-value" and note.direction == "under"
    ]


def read_torchrun(command: Sequence[str]) -> Job:
    """Read a command line of torchrun, or of ``python -m torch.distributed.run``.

    Raises:
        UsageError: It is none, or the number of ranks is not a number.
    """
    words = list(command)
    if words[1:3] == ["-m", "torch.distributed.run"]:
        words[:3] = ["torchrun"]
    if Path(words[0]).name != "torchrun" or len(words) < 2:
        raise UsageError("--stub reads a torchrun command", hint=_hint(words))
    words.pop(0)
    given = {"nnodes": "1", "nproc-per-node": "1"}
    while words and words[0].startswith("-"):
        name, joined, value = words.pop(0).lstrip("-").replace("_", "-").partition("=")
        if not joined and name not in _FLAGS:
            value = words.pop(0) if words else ""
        given[name] = value
    try:
        nodes, per_node = int(given["nnodes"]), int(given["nproc-per-node"])
    except ValueError:
        raise UsageError("--stub needs --nnodes and --nproc-per-node as numbers") from None
    is_module = "m" in given or "module" in given
    if not words or not (is_module or Path(words[0]).is_file()):
        raise UsageError("--stub needs the script of the job", hint="torchrun ... train.py")
    return Job(nodes, per_node, Script(words[0], is_module, tuple(words[1:])))


def _hint(words: Sequence[str]) -> str:
    """Say how to put a command that is none of torchrun's, as far as it names a script."""
    at = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
    if at is None:
        return "torchrun --nproc-per-node 8 x.py"
    job = shlex.join(words[at:])
    return f"torchrun --nproc-per-node N {job}, also where the script starts its N ranks by itself"


def _mesh(text: str | None) -> dict[str, int] | None:
    """Read ``dp=2,tp=4``."""
    if text is None:
        return None
    try:
        return {name: int(size) for name, size in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise UsageError(f"--mesh {text!r} is no mesh", hint="dp=2,tp=4, outermost first") from None
