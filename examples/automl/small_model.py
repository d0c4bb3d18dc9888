"""The trial behind the gate: a two-layer network on a made-up task, trained with plain numpy.

What the trial would do on a cluster is a plan: data parallelism with gradient buckets in which the
ranks of the last, uneven batch either take part (``drop_last=True`` drops it) or do not.
"""

from __future__ import annotations

import numpy as np

from planguard import PlanBuilder

WORLD = 4
SAMPLES = 240
HIDDEN = 16


def to_plan(params):
    """The gradient exchange of one epoch: ranks without a last batch do not take part in it."""
    per_step = params["batch"] * WORLD
    steps, rest = divmod(SAMPLES, per_step)
    plan = PlanBuilder(WORLD, name="uneven-batches")
    buckets = max(1, round(4 / params["bucket_mb"]))
    for rank in range(WORLD):
        own = steps
        if rest and not params["drop_last"] and rank * params["batch"] < rest:
            own += 1
        program = plan.program(rank)
        for _ in range(own * buckets):
            program.all_reduce(bytes=int(params["bucket_mb"] * (1 << 20)))
    return plan.build()


def train(params, epochs=30):
    """Train, and return the mean squared error on data that was not trained on."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2 * SAMPLES, 3))
    y = np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:]
    w1, b1 = rng.normal(0, 0.6, (3, HIDDEN)), np.zeros(HIDDEN)
    w2, b2 = rng.normal(0, 0.3, (HIDDEN, 1)), np.zeros(1)
    size = params["batch"] * WORLD
    for _ in range(epochs):
        for start in range(0, SAMPLES, size):
            part, want = x[start : start + size], y[start : start + size]
            if params["drop_last"] and len(part) < size:
                continue
            hidden = np.tanh(part @ w1 + b1)
            error = 2 * (hidden @ w2 + b2 - want) / len(part)
            back = (error @ w2.T) * (1 - hidden**2)
            w2 -= params["lr"] * hidden.T @ error
            b2 -= params["lr"] * error.sum(0)
            w1 -= params["lr"] * part.T @ back
            b1 -= params["lr"] * back.sum(0)
    hidden = np.tanh(x[SAMPLES:] @ w1 + b1)
    return float(np.mean((hidden @ w2 + b2 - y[SAMPLES:]) ** 2))
