"""One job under precheck, in a process of its own: ``play.py JOB WORLD [argument ...]``."""

import importlib.util
import json
import sys
from pathlib import Path


def main():
    file, world = Path(sys.argv[1]), int(sys.argv[2])
    sys.argv = [str(file), *sys.argv[3:]]
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location("__job__", file)
    job = importlib.util.module_from_spec(spec)
    sys.modules["__job__"] = job
    spec.loader.exec_module(job)
    from planguard.capture import precheck
    from planguard.errors import UsageError

    run = getattr(job, "play", job.main)
    try:
        options = {"model": "gloo", "on_unsafe": "return", "timeout": 90}
        verdict = precheck(world, ranks="all", **options).run(run)
    except UsageError as error:
        print("\nPRECHECK " + json.dumps({"outcome": "REFUSED", "why": [str(error)]}))
        return
    why = [f"{one.code}: {one.message}" for one in verdict.findings]
    why += [one.message for one in verdict.approximations]
    said = {"outcome": verdict.outcome.name, "why": why, "text": str(verdict)[:4000]}
    print("\nPRECHECK " + json.dumps(said))


main()
