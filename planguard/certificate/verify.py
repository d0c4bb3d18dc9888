"""Which checker a certificate needs: one order, every order, or the cases of what is picked."""

from __future__ import annotations

import json

from planguard.certificate import cases, checker, orders


def verify(text: bytes, certificate: bytes) -> str:
    """Return what a certificate of any kind proves of the text of a flat plan.

    Raises:
        RejectedError: It proves nothing; the message says why.
    """
    kind = json.loads(certificate)["kind"]
    if kind == "cases":
        return cases.check(text, certificate, verify)
    if kind == "orders":
        return orders.check(text, certificate)
    return checker.check(text, certificate)
