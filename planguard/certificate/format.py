"""The form of a certificate: a JSON object and its one canonical text."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

SCHEMA = "planguard.certificate/1"

Step = tuple[int, int] | tuple[int, int, int]
"""Rank and action index in the flat plan, and the index inside a batch for a member of one."""


@dataclass(frozen=True)
class Certificate:
    """Communication in an order in which all of it can complete, whatever order is picked.

    Attributes:
        model: Execution model under which the plan is safe.
        plan_sha256: Hash of the text of the flat plan.
        order: Completions under the execution of the model that makes the least progress.
        settled: For a plan with open order the waits of all ranks, rank and number of the action in
            its program, in an order in which no execution of any order can stay at them.
        refuted: Where waits are left over, the clauses that show that no order stays at them.
    """

    model: str
    plan_sha256: str
    order: tuple[Step, ...]
    settled: tuple[tuple[int, int], ...] | None = None
    refuted: tuple[tuple[int, ...], ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, keys sorted."""
        about = {"model": self.model, "plan_sha256": self.plan_sha256, "schema": SCHEMA}
        order = [list(step) for step in self.order]
        if self.settled is None:
            return {"kind": "order", "order": order, **about}
        settled = [list(place) for place in self.settled]
        found: dict[str, Any] = {"kind": "orders", "order": order, "settled": settled, **about}
        if self.refuted is not None:
            found["refuted"] = [list(clause) for clause in self.refuted]
        return found


@dataclass(frozen=True)
class Cases:
    """A proof for every plan that a plan with picks can become.

    Attributes:
        model: Execution model under which the plan is safe.
        plan_sha256: Hash of the text of the flat plan.
        cases: What a certificate says of each, in the order in which the checker enumerates them.
    """

    model: str
    plan_sha256: str
    cases: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, keys sorted."""
        about = {"model": self.model, "plan_sha256": self.plan_sha256, "schema": SCHEMA}
        return {"cases": list(self.cases), "kind": "cases", **about}


@dataclass(frozen=True)
class Picks:
    """Every end of a plan in which something is picked while it runs, by the picks that lead there.

    Attributes:
        model: Execution model under which the plan is safe.
        plan_sha256: Hash of the text of the flat plan.
        endings: The picks of every end, in the order in which the checker finds them.
        eager_bytes: Bytes up to which a send may finish early, where the model has such sends.
    """

    model: str
    plan_sha256: str
    endings: tuple[Any, ...]
    eager_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, keys sorted."""
        about = {"model": self.model, "plan_sha256": self.plan_sha256, "schema": SCHEMA}
        found = {"eager_bytes": self.eager_bytes, "endings": list(self.endings)}
        return {**found, "kind": "picks", **about}


def proof_of(certificate: Certificate | Picks) -> dict[str, Any]:
    """Return what a certificate says, without the plan and the model that it says it of."""
    about = {"model", "plan_sha256", "schema"}
    return {key: value for key, value in certificate.to_json().items() if key not in about}


def encode(certificate: dict[str, Any]) -> bytes:
    """Return the canonical text of a certificate: sorted keys, no spaces, one line."""
    return json.dumps(certificate, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def digest(text: bytes) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text).hexdigest()
