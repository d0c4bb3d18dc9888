"""XML to elements with their lines, by expat: no document type, no entities, bounded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn
from xml.parsers import expat

from msgspec import Struct

from planguard.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ELEMENTS = 4_000_000
_HINT = "docs/planners/msccl.md lists the elements and their attributes"


class Element(Struct, eq=False):
    """An element: its attributes, its children and where it stands."""

    tag: str
    attributes: dict[str, str]
    line: int
    file: str
    children: list[Element] = []

    def fail(self, message: str, *, value: object = None, hint: str = _HINT) -> NoReturn:
        """Raise a PlanError about this element."""
        where = f"line {self.line}, <{self.tag}>"
        raise PlanError(message, file=self.file, path=where, value=value, hint=hint)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute."""
        value = self.attributes.get(name, default)
        if value is None:
            self.fail(f"attribute {name} is missing")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """Return an attribute that is an integer within bounds."""
        text = self.text(name)
        found = number(text)
        if found is None:
            self.fail(f"attribute {name} is no integer", value=text)
        if not low <= found <= high:
            self.fail(f"attribute {name} is not from {low} to {high}", value=text)
        return found

    def within(self, tag: str) -> Iterator[Element]:
        """Yield the children, all of which must have a tag."""
        for child in self.children:
            if child.tag != tag:
                child.fail(f"unexpected element, expected <{tag}>")
            yield child


@lru_cache(maxsize=1 << 16)
def number(text: str) -> int | None:
    """Return the integer that an attribute is; None if it is none."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None


class _Reader:
    """Collects the elements of one document and refuses what could do more than that."""

    def __init__(self, file: str, depth: int) -> None:
        self.file = file
        self.depth = depth
        self.root: Element | None = None
        self.open: list[Element] = []
        self.elements = 0
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.ExternalEntityRefHandler = self._refuse
        parser.ProcessingInstructionHandler = self._refuse

    def _refuse(self, *_: object) -> NoReturn:
        self._fail(
            "a document type, an entity or a processing instruction",
            "an algorithm needs none; they are refused, because they can make a reader load files",
        )

    def _fail(self, message: str, hint: str) -> NoReturn:
        line = f"line {self.parser.CurrentLineNumber}"
        raise PlanError(message, file=self.file, path=line, hint=hint)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if len(self.open) >= self.depth:
            self._fail("elements are nested too deeply", _HINT)
        if self.elements > MAX_ELEMENTS:
            self._fail(f"more than {MAX_ELEMENTS} elements", "split the algorithm")
        element = Element(tag, attributes, self.parser.CurrentLineNumber, self.file)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def _end(self, _: str) -> None:
        self.open.pop()

    def _characters(self, text: str) -> None:
        if not text.isspace():
            self._fail("text between elements", _HINT)


def read_elements(data: bytes, file: str, depth: int) -> Element:
    """Read a document.

    Args:
        data: The document.
        file: Its name, for messages.
        depth: Levels of elements that it may have.

    Raises:
        PlanError: It is not well-formed, exceeds a limit, or has a document type or entities.
    """
    reader = _Reader(file, depth)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}"
        message = f"not well-formed XML: {expat.ErrorString(error.code)}"
        raise PlanError(message, file=file, path=where, hint="write it again") from None
    except (UnicodeError, LookupError, ValueError) as error:
        raise PlanError(f"not readable XML: {error}", file=file, hint="use UTF-8") from None
    # The parser holds its reader: what is left with it lives on until Python looks for garbage.
    root, reader.root = reader.root, None
    if root is None:
        raise PlanError("no element", file=file, hint=_HINT)
    return root
