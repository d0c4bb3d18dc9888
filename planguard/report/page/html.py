"""The page as one file: readable sources joined, a policy with their hashes, packed data.

Nothing of a plan is written as markup: the data is base64, and the page puts texts in place as
text. The policy names the hashes of the one script and the one style, and no address at all.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

SCRIPTS = (
    "core", "picture", "charts", "axis", "pins", "verdict", "small", "waits", "marey", "lines",
    "timeline", "overview", "matrices", "strategy", "topology", "tables", "inside", "start",
)  # fmt: skip
"""Sources of the page's script, in the order they are joined."""
STORE_SCRIPTS = ("core", "picture", "verdict", "small", "waits", "store")
"""Sources of the script of a store's page."""

BESIDE_SCRIPTS = ("core", "picture", "charts", "small", "beside")
"""Sources of the script of two plans beside each other."""

MEMORY_SCRIPTS = ("core", "picture", "charts", "axis", "memory")
"""Sources of the script of memory snapshots."""


def asset(name: str) -> str:
    """Return one source of the page."""
    return files("planguard.report.page").joinpath("assets", name).read_text("utf-8")


def script(names: tuple[str, ...] = SCRIPTS) -> str:
    """Return the script of a page."""
    parts = "\n".join(asset(f"{name}.js") for name in names)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def assemble(data: str, names: tuple[str, ...] = SCRIPTS) -> bytes:
    """Return the page around packed data, with the scripts of these names."""
    code, style = script(names), asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'; img-src 'none'"
    )
    page = asset("page.html")
    for mark, text in (("POLICY", policy), ("STYLE", style), ("DATA", data), ("SCRIPT", code)):
        page = page.replace(f"@@{mark}@@", text, 1)
    return page.encode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
