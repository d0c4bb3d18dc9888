"""The page of a finding code: Markdown from ``docs/codes``, read in sections.

The pages are installed beside the package as ``planguard/docs/codes``; in a source checkout, and in
an editable install, they are read from the checkout.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from planguard.catalog import CATALOG, CERTAINTY, Code, lookup
from planguard.errors import InternalError
from planguard.sources import beside

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SECOND = {
    "progress": "Why it hangs",
    "potential": "Why it hangs",
    "matching": "What goes wrong",
    "handles": "What goes wrong",
    "groups": "What goes wrong",
    "runtime": "Why it matters",
    "performance": "Why it matters",
    "tool": "Why it matters",
}

EXAMPLE_MARKS = {"<!-- example: later -->": "later", "<!-- example: none -->": "none"}
"""``later``: no check yields the code yet; ``none``: no plan can (the tool's own failure)."""

_LINK = re.compile(r"\[(PG\d{3})\]\(PG\d{3}\.md\)")
_COMMENT = re.compile(r"<!--.*?-->\n*")


@dataclass(frozen=True)
class Example:
    """The minimal example of a page.

    Attributes:
        source: Python text that checks a small plan and asserts the code.
        status: ``run``, or a value of ``EXAMPLE_MARKS``.
    """

    source: str
    status: str


@dataclass(frozen=True)
class Page:
    """A page of ``docs/codes``.

    Attributes:
        code: Its catalog entry.
        text: The Markdown as stored.
        sections: ``(heading, body)`` in the order of the page.
    """

    code: Code
    text: str
    sections: tuple[tuple[str, str], ...]

    @property
    def example(self) -> Example:
        """The minimal example.

        Raises:
            InternalError: The page has no Python block under that heading.
        """
        body = dict(self.sections).get("Minimal example", "")
        _, fence, rest = body.partition("```python\n")
        if not fence:
            raise InternalError(f"the page of {self.code.number} has no example")
        status = next((name for mark, name in EXAMPLE_MARKS.items() if mark in body), "run")
        return Example(rest.partition("\n```")[0] + "\n", status)

    @property
    def plain(self) -> str:
        """The page for a terminal: without link targets and comments."""
        return _COMMENT.sub("", _LINK.sub(r"\1", self.text))

    def to_json(self) -> dict[str, object]:
        """Return code, name, severity, certainty, evidence and sections."""
        return {**code_json(self.code), "sections": dict(self.sections)}


def headings(code: Code) -> tuple[str, ...]:
    """Return the headings of a code's page, in order."""
    return (
        "What it is",
        _SECOND[code.family],
        "Minimal example",
        "How PlanGuard decides",
        "How to fix",
        "When it is allowed",
        "Related codes",
    )


def page(key: str) -> Page:
    """Return the page of a code.

    Args:
        key: Number or name.

    Raises:
        UsageError: No such code.
        InternalError: The page is missing from this installation.
    """
    code = lookup(key)
    text = _read(code.number)
    return Page(code, text, tuple(_sections(text)))


def code_json(code: Code) -> dict[str, object]:
    """Return the catalog entry as ``planguard explain --format json`` shows it."""
    return {
        "code": code.number,
        "name": code.name,
        "severity": code.severity,
        "certainty": [CERTAINTY[mark] for mark in code.certainty],
        "evidence": list(code.evidence),
        "reserved": code.reserved,
        "summary": code.summary,
    }


def list_text() -> str:
    """Return all codes, one per line: number, name, severity or `reserved`, summary."""
    width = max(len(code.name) for code in CATALOG.values())
    return "".join(
        f"{code.number}  {code.name:{width}}  {_standing(code):8}  {code.summary}\n"
        for code in CATALOG.values()
    )


def _standing(code: Code) -> str:
    """Return the severity of a code, or that nothing reports it."""
    return "reserved" if code.reserved else code.severity


def _read(number: str) -> str:
    installed: Traversable = resources.files("planguard") / "docs" / "codes"
    checkout = beside("docs", "codes")
    for folder in (installed, checkout) if checkout is not None else (installed,):
        file = folder / f"{number}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise InternalError(f"the page of {number} is not installed", hint="reinstall planguard")


def _sections(text: str) -> list[tuple[str, str]]:
    """Split at second-level headings; a code block may contain anything but those."""
    parts = text.split("\n## ")[1:]
    return [(head.strip(), body.strip()) for head, _, body in (p.partition("\n") for p in parts)]
