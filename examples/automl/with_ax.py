"""An Ax experiment in which unsafe trials are abandoned before they train.

pip install 'planguard[ax]'
python examples/automl/with_ax.py
"""

from __future__ import annotations

import logging
from collections import Counter

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels
from small_model import to_plan, train

from planguard.screen.ax import Screened

TRIALS = 8


def make_client():
    """The space and the goal: the least error."""
    client = Client(random_seed=0)
    client.configure_experiment(
        parameters=[
            ChoiceParameterConfig(
                name="batch", parameter_type="int", values=[5, 10, 15, 16, 24], is_ordered=True
            ),
            ChoiceParameterConfig(name="drop_last", parameter_type="bool", values=[True, False]),
            ChoiceParameterConfig(
                name="bucket_mb", parameter_type="float", values=[0.5, 1.0, 4.0], is_ordered=True
            ),
            RangeParameterConfig(
                name="lr", parameter_type="float", bounds=(0.01, 0.3), scaling="log"
            ),
        ]
    )
    client.configure_optimization(objective="-error")
    return client


def main():
    """Train trials that may run, and say what was abandoned, and why."""
    set_ax_logger_levels(logging.ERROR)
    behind = Screened(make_client(), to_plan)
    tried = {}
    while len(tried) < TRIALS:
        for index, params in behind.get_next_trials(max_trials=2).items():
            tried[index] = params
            behind.client.complete_trial(index, raw_data={"error": train(params)})
    codes = Counter(decision.code for decision in behind.blocked.values())
    print(f"{len(tried)} trials trained, {len(behind.blocked)} abandoned: {dict(codes)}")
    best, *_ = behind.client.get_best_parameterization()
    print(f"best with {best['batch']} per rank")
    table = behind.client.summarize()
    status = dict(zip(table["trial_index"], table["trial_status"], strict=True))
    for index in behind.blocked:
        assert status[index] == "ABANDONED", (index, status)
    for index, params in tried.items():
        assert status[index] == "COMPLETED", (index, status)
        assert not 240 % (4 * params["batch"]) or params["drop_last"], params


if __name__ == "__main__":
    main()
