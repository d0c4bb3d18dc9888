"""SAFE with a certificate: how a run completed, in every order; accepted by the checker first."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.cases import cases
from planguard.certificate.format import Cases, Certificate, Picks, digest, encode, proof_of
from planguard.certificate.orders import Orders
from planguard.certificate.picks import EAGER_BYTES, explore
from planguard.certificate.turns import without_turns
from planguard.certificate.verify import verify
from planguard.errors import InternalError
from planguard.execution.certifying.orders import completions, settle_all
from planguard.execution.certifying.refute import refutation
from planguard.execution.running.completion import completion_order
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.plan.actions import ASYNC, KIND_MASK, Kind
from planguard.plan.content import has_kind
from planguard.plan.flatten import flat_lines
from planguard.plan.format import read
from planguard.semantics.model import ExecutionModel, Family, find_model, strict

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

MAX_ACTIONS = 10**6
"""Actions beyond which writing an order costs more than it is worth."""

_BEHIND = {
    "cycle": "; SAFE rests on a search: no order follows a cycle of waits",
    "smt": "; SAFE rests on the solver",
    "explorer": "; SAFE rests on exhaustion",
}
"""What stands behind SAFE by a route, where the certificate does not."""


@dataclass(frozen=True)
class Certified:
    """A certificate, or the reason why there is none."""

    certificate: Certificate | Cases | Picks | None = None
    reason: str = ""


def with_certificate(
    verdict: Verdict,
    plan: Plan,
    columns: Any,
    *,
    pinned: bool = False,
    eager_bytes: int = EAGER_BYTES,
) -> Verdict:
    """Return a verdict with its certificate; SAFE without one says why in ``reasons``.

    Args:
        verdict: Any verdict of the plan.
        plan: The plan.
        columns: Its columns.
        pinned: Options say how many kernels a device holds, or in which order it starts them.
        eager_bytes: Bytes up to which a send may finish early, where the model has such sends.

    Raises:
        InternalError: The independent checker rejects what the engine calls safe.
    """
    if not verdict.safe:
        return verdict
    made = Certified(reason="options pin the launches of a device, a certificate knows only models")
    if not pinned:
        made = certify(plan, columns, find_model(verdict.model), eager_bytes)
    if made.certificate is None:
        behind = "".join(_BEHIND.get(route, "") for route in verdict.evidence.route[-1:])
        reason = f"no certificate: {made.reason}{behind}"
        return replace(verdict, reasons=(*verdict.reasons, reason))
    certificate = made.certificate.to_json()
    evidence = replace(verdict.evidence, certificate=digest(encode(certificate)))
    return replace(verdict, certificate=certificate, evidence=evidence)


def certify(
    plan: Plan, columns: Any, model: ExecutionModel, eager_bytes: int = EAGER_BYTES
) -> Certified:
    """Return a certificate, accepted by the independent checker, of a plan that is safe.

    Args:
        plan: A plan that the engine calls safe.
        columns: Its columns.
        model: The execution model.
        eager_bytes: Bytes up to which a send may finish early, where the model has such sends.

    Raises:
        InternalError: The checker rejects the certificate.
    """
    if model.one_lock and plan.actions <= MAX_ACTIONS:
        try:
            without_turns(json.loads(b"".join(flat_lines(plan))))
        except OutsideError as error:
            return Certified(reason=str(error))
    if has_kind(plan, Kind.CHOICE_BEGIN) or plan.fusion:
        return _over_cases(plan, model, eager_bytes)
    if plan.actions > MAX_ACTIONS:
        return Certified(reason=f"the plan has {plan.actions} actions, more than {MAX_ACTIONS}")
    flat = b"".join(flat_lines(plan))
    made = _over_picks(plan, columns, flat, model, eager_bytes)
    if made is not None:
        return made
    if columns.has_markers:
        return _over_orders(flat, model)
    execution = execute(plan, columns, model, strict(model), origins=True)
    certificate = Certificate(model.name, digest(flat), tuple(completion_order(execution)))
    try:
        verify(flat, encode(certificate.to_json()))
    except OutsideError as error:
        return Certified(reason=str(error))
    except RejectedError as error:
        if _is_read_more_strictly(plan, model):
            return Certified(reason=f"{error} (the checker lets the host wait for more)")
        hint = "no verdict is given: please report the plan"
        raise InternalError(f"the checker rejects the certificate: {error}", hint=hint) from error
    return Certified(certificate)


def _over_cases(plan: Plan, model: ExecutionModel, eager_bytes: int) -> Certified:
    """Return a certificate of a plan with branches: one for every combination of them."""
    if plan.actions > MAX_ACTIONS:
        return Certified(reason=f"the plan has {plan.actions} actions, more than {MAX_ACTIONS}")
    flat, proofs, actions = b"".join(flat_lines(plan)), list[dict[str, Any]](), 0
    try:
        for where, case in cases(json.loads(flat), model.name):
            part = read({key: value for key, value in case.items() if key != "approximations"})
            actions += part.actions
            if actions > MAX_ACTIONS:
                return Certified(reason=f"its cases have more than {MAX_ACTIONS} actions together")
            made = certify(part, expand(part), model, eager_bytes)
            if made.certificate is None or isinstance(made.certificate, Cases):
                return Certified(reason=f"where {where}: {made.reason}")
            proofs.append(proof_of(made.certificate))
    except OutsideError as error:
        return Certified(reason=str(error))
    except RejectedError as error:
        hint = "no verdict is given: please report the plan"
        raise InternalError(f"the checker finds another case: {error}", hint=hint) from error
    certificate = Cases(model.name, digest(flat), tuple(proofs))
    _confirm(flat, certificate)
    return Certified(certificate)


def _over_picks(
    plan: Plan, columns: Any, flat: bytes, model: ExecutionModel, eager_bytes: int
) -> Certified | None:
    """Return a certificate of a plan in which something is picked while it runs; None of others.

    The checker finds the ends by itself; two independent searches have to agree on all of them.

    Raises:
        InternalError: The checker finds an end that is not complete.
    """
    is_contested = columns.has_any_source or columns.has_any_tag or columns.has_wait_choice
    is_contested |= has_kind(plan, Kind.PROBE)
    has_threads = model.family is Family.HOST and has_kind(plan, Kind.THREADS_BEGIN)
    if model.family is Family.DEVICE or not (is_contested or has_threads):
        return None
    eager = max(eager_bytes, EAGER_BYTES)
    try:
        ends = explore(json.loads(flat), model.name, eager)
    except OutsideError as error:
        # Threads that block together ask for more than threads that block alone.
        together = Certified() if is_contested else _over_orders(flat, model)
        return together if together.certificate is not None else Certified(reason=str(error))
    except RejectedError as error:
        if eager > eager_bytes:
            return Certified(reason=f"{error} (where sends of {eager} bytes may finish early)")
        hint = "no verdict is given: please report the plan"
        raise InternalError(f"the checker finds another end: {error}", hint=hint) from error
    certificate = Picks(model.name, digest(flat), tuple(ends), eager)
    _confirm(flat, certificate)
    return Certified(certificate)


def _confirm(flat: bytes, certificate: Certificate | Cases | Picks) -> None:
    """Give a certificate that was made to the checker.

    Raises:
        InternalError: The checker rejects it.
    """
    try:
        verify(flat, encode(certificate.to_json()))
    except RejectedError as error:
        hint = "no verdict is given: please report the plan"
        raise InternalError(f"the checker rejects the certificate: {error}", hint=hint) from error


def _over_orders(flat: bytes, model: ExecutionModel) -> Certified:
    """Return a certificate of a plan with open order, or what the checker misses.

    The checker is stricter than the engine in more places than for a fixed order, so a plan
    that it does not follow is no contradiction; a certificate that was made has to be accepted.
    """
    try:
        orders = Orders(json.loads(flat), model.name)
        order = tuple(completions(orders, model))
        orders.follow([list(step) for step in order])
    except RejectedError as error:
        return Certified(reason=str(error))
    settled, missing = settle_all(orders)
    refuted: tuple[tuple[int, ...], ...] | None = None
    if missing:
        try:
            clauses = refutation(orders)
        except RejectedError as error:
            return Certified(reason=f"{missing}; {error}")
        if clauses is None:
            return Certified(reason=missing)
        refuted = tuple(tuple(clause) for clause in clauses)
    certificate = Certificate(model.name, digest(flat), order, tuple(settled), refuted)
    _confirm(flat, certificate)
    return Certified(certificate)


def _is_read_more_strictly(plan: Plan, model: ExecutionModel) -> bool:
    """Whether the checker lets the host wait for more than the model does.

    It takes the synchronization of one stream for that of the device, and lets the host stand at an
    asynchronous barrier of gloo. Both only lose certificates.
    """
    ops = {
        (op & (KIND_MASK | ASYNC), bool(arg))
        for program in plan.code.programs
        for op, arg in zip(program.code[::6], program.code[1::6], strict=True)
    }
    if model.family is Family.DEVICE:
        return (Kind.HOST_SYNC, True) in ops
    return model.barrier_last and bool(ops & {(Kind.BARRIER | ASYNC, one) for one in (False, True)})
