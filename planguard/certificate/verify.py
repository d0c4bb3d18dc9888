"""Which checker a certificate needs: one order, every order, every pick, or case by case."""

from __future__ import annotations

import json

from planguard.certificate import cases, checker, orders, picks


def verify(text: bytes, certificate: bytes) -> str:
    """Return what a certificate of any kind proves of the text of a flat plan.

    Raises:
        RejectedError: It proves nothing; the message says why.
    """
    kind = json.loads(certificate)["kind"]
    if kind == "cases":
        return cases.check(text, certificate, verify)
    if kind == "picks":
        return picks.check(text, certificate)
    if kind == "orders":
        return orders.check(text, certificate)
    return checker.check(text, certificate)
