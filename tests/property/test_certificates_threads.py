"""Certificates of threads whose messages compete: what is safe has one, what is not has none.

The checker searches by itself, so it is asked about plans that are not safe as well: a wrong step
of it would show there, whatever the engine says.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from property.test_threads_messages import MODELS, random_plan, unlabeled_plan

import planguard
from planguard.certificate.agreement import RejectedError
from planguard.certificate.picks import EAGER_BYTES, explore
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines

if TYPE_CHECKING:
    from collections.abc import Callable

CI, CAMPAIGN = 120, 3_000


@pytest.mark.parametrize(("draw", "covered"), [(unlabeled_plan, 0.9), (random_plan, 0.7)])
@pytest.mark.timeout(3_600)  # 3,000 plans with --slow
def test_safe_is_certified_and_nothing_else(
    request: pytest.FixtureRequest, draw: Callable[[int], dict[str, Any]], covered: float
) -> None:
    """Most SAFE plans have a certificate; the checker finds a bad end of every unsafe one."""
    seen = Counter[str]()
    for seed in range(CAMPAIGN if request.config.getoption("--slow") else CI):
        model = MODELS[seed % len(MODELS)]
        try:
            plan = planguard.load(draw(seed))
        except planguard.PlanError:
            continue
        found = planguard.check(plan, options=CheckOptions(model=model, certificate=True))
        if found.safe:
            seen["certified" if found.certificate else "without"] += 1
            assert found.certificate or found.reasons[-1].startswith("no certificate: "), seed
        else:
            seen["open" if found.unknown else "unsafe"] += 1
            with pytest.raises(RejectedError):
                explore(json.loads(b"".join(flat_lines(plan))), model, EAGER_BYTES)
    assert seen["certified"] > covered * (seen["certified"] + seen["without"]), seen
    assert min(seen["certified"], seen["unsafe"]) > CI / 6, seen
