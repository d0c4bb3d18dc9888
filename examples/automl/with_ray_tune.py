"""A Ray Tune experiment in which unsafe trials ask for no GPU and end at once.

pip install 'ray[tune]'
python examples/automl/with_ray_tune.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)

import ray  # noqa: E402
from ray import tune  # noqa: E402
from small_model import to_plan, train  # noqa: E402

from planguard.screen.tune import CODE, screened  # noqa: E402


def trainable(config):
    """Train, and report the error."""
    tune.report({"error": train(config)})


def main():
    """Run every combination and say what was blocked, and why."""
    # On a cluster: resources={"gpu": 8}. Blocked trials never ask for them.
    behind = screened(trainable, to_plan, metric="error", resources={"cpu": 1})
    space = {
        "batch": tune.grid_search([10, 16]),
        "drop_last": tune.grid_search([True, False]),
        "bucket_mb": 1,
        "lr": 0.1,
    }
    paths = [HERE, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}},
    )
    with tempfile.TemporaryDirectory() as folder:
        run = tune.RunConfig(storage_path=folder, verbose=0)
        compared = tune.TuneConfig(metric="error", mode="min")
        tuner = tune.Tuner(behind, param_space=space, run_config=run, tune_config=compared)
        results = tuner.fit()
    codes = Counter(result.metrics.get(CODE, "") for result in results)
    print(f"{codes['']} trials trained, {len(results) - codes['']} blocked: {dict(codes)}")
    best = results.get_best_result(metric="error", mode="min")
    print(f"best error {best.metrics['error']:.4f} with {best.config['batch']} per rank")
    for result in results:
        uneven = 240 % (4 * result.config["batch"]) and not result.config["drop_last"]
        assert (CODE in result.metrics) == bool(uneven), result.config
    ray.shutdown()


if __name__ == "__main__":
    main()
