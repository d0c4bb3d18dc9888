"""Which checker a certificate needs: ``checker`` for one order, ``orders`` for every order."""

from __future__ import annotations

import json

from planguard.certificate import checker, orders


def verify(text: bytes, certificate: bytes) -> str:
    """Return what a certificate of any kind proves of the text of a flat plan.

    Raises:
        RejectedError: It proves nothing; the message says why.
    """
    if json.loads(certificate)["kind"] == "orders":
        return orders.check(text, certificate)
    return checker.check(text, certificate)
