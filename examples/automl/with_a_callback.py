"""A search of one's own with the gate in front: a plain callback, no framework.

python examples/automl/with_a_callback.py
"""

from __future__ import annotations

import itertools

from small_model import to_plan, train

from planguard.screen.gate import Gate


def main():
    """Search a grid; what is blocked is recorded and never trained."""
    blocked = []

    def record(params, decision):
        blocked.append((params["batch"], decision.code))
        return float("inf")

    objective = Gate(to_plan).screened(train, blocked=record)
    names = ("batch", "drop_last", "bucket_mb", "lr")
    grid = itertools.product((5, 10, 15, 16, 24), (True, False), (1, 4), (0.1, 0.2))
    candidates = [dict(zip(names, values, strict=True)) for values in grid]
    best = min(candidates, key=objective)
    trained = len(candidates) - len(blocked)
    codes = sorted({code for _, code in blocked})
    batches = sorted({batch for batch, _ in blocked})
    print(f"{trained} trials trained, {len(blocked)} blocked: {codes} with {batches} per rank")
    print(f"best error {train(best):.4f} with {best['batch']} per rank")


if __name__ == "__main__":
    main()
