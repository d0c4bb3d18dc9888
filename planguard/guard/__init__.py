"""Plans inside a search loop: decided once per communication signature, again after small edits."""

from __future__ import annotations

from planguard.guard.cache import GuardStats
from planguard.guard.guard import Guard
from planguard.guard.incremental import Change, Incremental
from planguard.guard.nogood import Nogood, make_nogood
from planguard.guard.signature import CommunicationSignature, communication_signature

__all__ = [
    "Change",
    "CommunicationSignature",
    "Guard",
    "GuardStats",
    "Incremental",
    "Nogood",
    "communication_signature",
    "make_nogood",
]
