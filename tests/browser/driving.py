"""What tests of pages share: the panels, and waiting for what a page shows."""

from __future__ import annotations

import json
import time

PANELS = ("verdict", "waits", "timeline", "overview", "matrices", "strategy", "topology", "tables")
ALL = "open=" + ",".join(PANELS)


def until(tab, expression, limit=10.0):
    """Wait until an expression holds; the policy of the page leaves no other way to ask it."""
    end = time.monotonic() + limit
    while not tab.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        tab.wait_for_timeout(20)


def shows(tab, panel, text):
    """Wait until a panel shows a text."""
    until(tab, f"document.querySelector('#panel-{panel}').innerText.includes({json.dumps(text)})")
