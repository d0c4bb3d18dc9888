"""One job under ``dryrun --stub`` and precheck, as it is and with its slip.

``play.py JOB WORLD SLIP [argument ...]``, in a folder of its own: writes ``played.json`` and what
was printed. Every command runs in a fork of this process, which has imported torch once.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

PATIENCE = float(os.environ["TRAINERS_PATIENCE"])


def precheck(file, world):
    """Check ``main`` of a job with precheck."""
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location("__job__", file)
    job = importlib.util.module_from_spec(spec)
    sys.modules["__job__"] = job
    spec.loader.exec_module(job)
    from planguard.capture import precheck
    from planguard.errors import UsageError

    options = {"model": "gloo", "on_unsafe": "return", "timeout": PATIENCE}
    try:
        verdict = precheck(world, ranks="all", **options).run(job.main)
    except UsageError as error:
        print(f"error: {error}")
        return 2
    for one in verdict.findings:
        print(f"{one.severity}[{one.code}]: {one.message}")
    for reason in verdict.reasons:
        print(f"    open:      {reason}")
    print(f"verdict: {verdict.outcome.name}   model {verdict.model}")
    return verdict.unsafe + 3 * verdict.unknown


def stub(file, world, arguments):
    """Check a job with the command."""
    from planguard.cli import main

    words = ["torchrun", "--nproc-per-node", str(world), str(file), *arguments]
    output = f"stub-{os.environ['TRAINERS_SLIP'] and 'slip'}"
    options = ["--model", "gloo", "--timeout", str(PATIENCE), "-o", output]
    return main(["dryrun", "--stub", *options, "--", *words])


def said(name, run, *arguments):
    """Run a command in a fork of its own; return how long it took and what it printed."""
    file = Path(name)
    begin = time.monotonic()
    child = os.fork()
    if not child:
        code = 70
        try:
            out = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
            os.dup2(out, 1)
            os.dup2(out, 2)
            code = run(*arguments)
        except BaseException as error:  # noqa: BLE001 - what a command lets out is its answer
            print(f"error: {type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status), "text": file.read_text(errors="replace"),
        "s": round(time.monotonic() - begin, 1),
    }  # fmt: skip


def main():
    file, world, slip = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    arguments = sys.argv[4:]
    sys.argv = [str(file), *arguments]
    import torch.distributed

    import planguard.capture.play.ranks
    import planguard.cli.stub

    assert torch.distributed.is_available()
    assert planguard.cli.stub.run_stub
    assert planguard.capture.play.ranks.Play
    found = {}
    for name, made in (("intact", ""), ("slip", slip)):
        os.environ["TRAINERS_SLIP"] = made
        found[f"stub-{name}"] = said(f"stub-{name}.txt", stub, file, world, arguments)
        found[f"precheck-{name}"] = said(f"precheck-{name}.txt", precheck, file, world)
        Path("played.json").write_text(json.dumps(found))


main()
