"""Ray Tune behind the gate: an unsafe trial asks for no GPU, reports its code and ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planguard.errors import MissingPackageError, UsageError
from planguard.screen.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CODE = "planguard_code"
OUTCOME = "planguard_outcome"
MESSAGE = "planguard_message"
WORST = {"min": math.inf, "max": -math.inf}
"""Worst value of a metric, by the mode of the search."""
BLOCKED_RESOURCES = {"cpu": 1}


def screened(
    trainable: Callable[[dict[str, Any]], Any],
    to_plan: Callable[[dict[str, Any]], Any],
    *,
    metric: str | None = None,
    mode: str = "min",
    resources: Mapping[str, float] | None = None,
    blocked: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return a trainable for ``ray.tune.Tuner`` that checks the plan of a configuration first.

    Tune asks for the resources of a trial when it knows its configuration. An unsafe one asks for
    one core, so no GPU waits for it; it reports ``planguard_outcome``, ``planguard_code`` and
    ``planguard_message`` and ends.

    Tune ends a search when a trial does not report the metric that it compares, so an unsafe trial
    reports the worst value of it: no searcher and no scheduler then prefers it.

    Args:
        trainable: A function of the configuration.
        to_plan: Makes a plan from the configuration.
        metric: The metric of ``TuneConfig``, and what it is called in ``tune.report``.
        mode: ``"min"`` or ``"max"``, as in ``TuneConfig``.
        resources: What a trial that trains asks for; one core if None.
        blocked: What an unsafe trial reports as well, or instead of the worst value; ``{}`` and no
            metric where Tune compares nothing.
        options: Keywords of ``planguard.screen.gate.Gate``.

    Raises:
        MissingPackageError: Ray Tune is not installed.
        UsageError: Neither ``metric`` nor ``blocked`` is given.
    """
    if mode not in WORST:
        raise UsageError(f"mode={mode!r}", hint='"min" or "max", as in TuneConfig')
    if metric is None and blocked is None:
        raise UsageError(
            "an unsafe trial has no value to report, and Tune would end the search",
            hint='say what TuneConfig compares: metric="loss", mode="min"; blocked={} if nothing',
        )
    try:
        from ray import tune
    except ImportError:
        raise MissingPackageError("ray.tune", "a screened trainable") from None
    wanted = dict(resources or BLOCKED_RESOURCES)
    extra = ({} if metric is None else {metric: WORST[mode]}) | dict(blocked or {})

    def resources_of(config: dict[str, Any]) -> dict[str, float]:
        return dict(wanted if Gate(to_plan, **options)(config).runs else BLOCKED_RESOURCES)

    def behind(config: dict[str, Any]) -> Any:
        decision = Gate(to_plan, **options)(config)
        if decision.runs:
            return trainable(config)
        said = {OUTCOME: decision.outcome, CODE: decision.code, MESSAGE: decision.message}
        tune.report({**extra, **said})
        return None

    # A gate holds locks, so it cannot travel: each side makes its own.
    return tune.with_resources(behind, resources_of)
