"""An Optuna study in which unsafe trials are pruned before they train.

pip install 'planguard[optuna]'
python examples/automl/with_optuna.py
"""

from __future__ import annotations

from collections import Counter

import optuna
from small_model import to_plan, train

from planguard.screen.optuna import CODE, screened


def suggest(trial):
    """The parameters of a trial."""
    return {
        "batch": trial.suggest_categorical("batch", [5, 10, 15, 16, 24]),
        "drop_last": trial.suggest_categorical("drop_last", [True, False]),
        "bucket_mb": trial.suggest_categorical("bucket_mb", [0.5, 1, 4]),
        "lr": trial.suggest_float("lr", 0.01, 0.3, log=True),
    }


def main():
    """Run 40 trials and say what was pruned, and why."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(screened(train, to_plan, params=suggest), n_trials=40)
    states = Counter(trial.state.name for trial in study.trials)
    codes = Counter(trial.user_attrs.get(CODE, "") for trial in study.trials)
    print(f"{states['COMPLETE']} trials trained, {states['PRUNED']} pruned: {dict(codes)}")
    print(f"best error {study.best_value:.4f} with {study.best_params['batch']} per rank")
    for trial in study.trials:
        uneven = 240 % (4 * trial.params["batch"]) and not trial.params["drop_last"]
        assert (trial.state.name == "PRUNED") == bool(uneven), trial.params


if __name__ == "__main__":
    main()
