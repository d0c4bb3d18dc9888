"""Open orders of a job in small: creations, first uses, several groups, windows, messages."""

from __future__ import annotations

from collections import Counter

import pytest
from oracle import job_orders
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.program import OracleUnsupported

import planguard
from planguard.errors import PlanError
from planguard.execution.running.expand import expand
from planguard.options import CheckOptions
from planguard.reordering import strategy
from planguard.reordering.explorer import explore_all
from planguard.semantics.model import find_model

MODELS = ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized", "gloo")
SHORT = ("deterministic", "explorer")
"""Routes that are no shortcut: a plan without open order, or all its orders one by one."""


def against_the_enumerator(seeds, models, calls):
    """Check plans and enumerate their executions; return what differs, and routes by outcome."""
    differ, routes = {}, Counter()
    for seed in seeds:
        document = job_orders.job_plan(seed, calls)
        try:
            plan = planguard.load(document)
        except PlanError:  # a group was used before its new_group
            continue
        for model in models:
            verdict = planguard.check(plan, model=model)
            routes[verdict.outcome.value, verdict.evidence.route] += 1
            if verdict.unknown:
                continue
            try:
                wanted = outcome_of({"templates": {}, **document}, model, Effort(20_000, 0))
            except (OracleBudget, OracleUnsupported):
                continue
            if verdict.outcome.value != wanted != "UNKNOWN":
                differ[seed, model] = wanted, verdict.outcome.value
    return differ, routes


def against_all_orders(seeds, models, calls, limit):
    """Decide plans by the cheapest route and order by order; return what differs, and routes."""
    differ, routes = {}, Counter()
    for seed in seeds:
        try:
            plan = planguard.load(job_orders.job_plan(seed, calls))
        except PlanError:
            continue
        columns = expand(plan)
        for model in models:
            options = CheckOptions(model=model)
            task, problem = strategy.prepare(plan, columns, find_model(model), options)
            if problem or task.combinations(limit) > limit:
                continue
            try:
                cheap, full = strategy.decide(task), explore_all(task)
            except PlanError:  # some order is no valid program
                continue
            routes[cheap.outcome.value, cheap.route] += 1
            if cheap.outcome not in {full.outcome, planguard.Outcome.UNKNOWN}:
                differ[seed, model] = full.outcome, cheap.outcome
    return differ, routes


def test_open_orders_of_a_job_are_those_of_the_enumerator():
    """Creations and first uses in and beside blocks: the outcomes of the independent enumerator."""
    differ, routes = against_the_enumerator(range(24), ("nccl-lazy",), 4)
    assert not differ
    assert {outcome for outcome, _ in routes} >= {"SAFE", "POTENTIAL_DEADLOCK"}


def test_the_lane_of_the_host_and_all_orders_agree():
    """Where the host of a rank is a lane, the may-wait graph says what all orders together say."""
    differ, routes = against_all_orders(range(30), MODELS, 6, 60)
    assert not differ
    assert routes["SAFE", ("cycle",)]
    assert routes["POTENTIAL_DEADLOCK", ("cycle",)] > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 2_000, 100))
def test_a_thousand_plans_of_a_job_against_the_enumerator(first):
    """1,000 plans of three ranks under nccl-lazy; with more than five calls it takes minutes."""
    differ, _ = against_the_enumerator(range(first, first + 100), ("nccl-lazy",), 5)
    assert not differ


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2_000, 6_000, 500))
def test_many_plans_of_a_job_against_all_orders(first):
    """4,000 plans under five models: a shortcut never contradicts all orders one by one."""
    differ, routes = against_all_orders(range(first, first + 500), MODELS, 8, 300)
    assert not differ
    assert sum(n for (_, route), n in routes.items() if route[0] not in SHORT) > 500
