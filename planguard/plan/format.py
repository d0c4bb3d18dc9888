"""The plan file: read and write ``planguard.plan/1``, strictly and within limits."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.plan.compiling.compile import compile_document
from planguard.plan.defects import refusal
from planguard.plan.document import Document, Use
from planguard.plan.limits import DEFAULT_LIMITS
from planguard.plan.nodes import Action
from planguard.plan.plan import Plan
from planguard.plan.reading.missing import no_such_file
from planguard.plan.reading.wellformed import check
from planguard.records import decoder_of, lost_a_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.errors import PlanError
    from planguard.plan.limits import Limits

_GZIP_MAGIC = b"\x1f\x8b"


def read(
    source: str | os.PathLike[str] | bytes | dict[str, Any],
    file: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Plan:
    """Read and check a plan.

    Args:
        source: Path of a ``.plan.json`` or ``.plan.json.gz`` file, its bytes, or the object in it.
        file: Name for messages, when ``source`` is not a path.
        limits: What the plan may cost.

    Raises:
        PlanError: Anything wrong with the plan; nothing else is raised for bad input.
    """
    if isinstance(source, dict):
        raw = _encode(source, file)
    elif isinstance(source, bytes):
        raw = source
    else:
        file = os.fspath(source) if file is None else file
        raw = _load(source, file, limits)
    return _plan(parse(decompress(raw, file, limits), file), limits, file, raw)


def write(plan: Plan) -> bytes:
    """Return the text of a plan file, one action per line; ``x-`` names are not kept."""
    from planguard.plan.writing.writer import document_text

    return document_text(plan.document)


def read_trusted(data: bytes, limits: Limits) -> Plan:
    """Read a plan that was encoded by this package, so that no key can occur twice.

    Raises:
        PlanError: Anything else that is wrong with it.
    """
    return _plan(_decode(data) or _parse_slowly(data, None), limits, None, data)


def read_made(head: bytes, programs: Mapping[str, bytes], whole: bytes, limits: Limits) -> Plan:
    """Read a plan that was encoded by this package, of which every program is at hand by itself.

    Ranks that do the same, word for word, share one list of actions, which is read once and
    compiled once.

    Args:
        head: The plan without these programs.
        programs: The actions of each by its selector, in the order of ``whole``.
        whole: The plan.
        limits: What the plan may cost.

    Raises:
        PlanError: As ``read_trusted``.
    """
    document, actions = _decode(head), decoder_of(list[Action])
    if document is None:
        return read_trusted(whole, limits)
    lists: dict[bytes, list[Action]] = {}
    uses = dict(document.ranks)
    try:
        for selector, text in programs.items():
            if text not in lists:
                lists[text] = actions.decode(text)
            uses[selector] = Use(actions=lists[text])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_trusted(whole, limits)
    return _plan(msgspec.structs.replace(document, ranks=uses), limits, None, whole)


def _plan(document: Document, limits: Limits, file: str | None, raw: bytes) -> Plan:
    try:
        compiled = compile_document(document, limits, file)
        check(document, compiled, limits, file)
    except RecursionError:
        raise refusal("nested too deep", file=file, hint="lower the nesting") from None
    return Plan(document, compiled, file, raw, limits)


def decoder() -> msgspec.json.Decoder[Document]:
    """Return the typed decoder of a plan file."""
    return decoder_of(Document)


def parse(data: bytes, file: str | None) -> Document:
    """Return the document in ``data``, which is not compressed.

    The typed decoder refuses wrong types, unknown fields, non-finite numbers, invalid UTF-8 and
    trailing data. It accepts duplicate keys and keeps the last; ``lost_a_key`` finds them.

    Raises:
        PlanError: The text is not a plan.
    """
    document = _decode(data)
    if document is None:
        return _parse_slowly(data, file)
    if lost_a_key(data, document):
        from planguard.plan.reading.strict import refuse_duplicate_keys

        refuse_duplicate_keys(data, file)
    return document


def _decode(data: bytes) -> Document | None:
    """Return the document, or None where it takes a closer look to say what is wrong."""
    try:
        return decoder().decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _parse_slowly(data: bytes, file: str | None) -> Document:
    from planguard.plan.reading.strict import parse_slowly

    try:
        return parse_slowly(data, file)
    except RecursionError:
        raise refusal("nested too deep", file=file, hint="lower the nesting") from None


def _encode(plan: dict[str, Any], file: str | None) -> bytes:
    try:
        return msgspec.json.encode(plan)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.EncodeError) as error:
        message = f"the object cannot be written as JSON: {error}"
        raise refusal(message, file=file, hint="use numbers, strings, lists and dicts") from None


def _load(path: str | os.PathLike[str], file: str, limits: Limits) -> bytes:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib costs import time here
            raw = stream.read(limits.file_bytes + 1)
    except FileNotFoundError:
        raise no_such_file(file) from None
    except (OSError, ValueError) as error:
        hint = "give the path of a .plan.json or .plan.json.gz file"
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refusal(f"cannot read the file: {reason}", file=file, hint=hint) from None
    return raw


def _too_large(file: str | None, limits: Limits) -> PlanError:
    message = f"more than {limits.file_bytes} bytes of plan"
    hint = "use templates and repeat, or raise Limits.file_bytes"
    return refusal(message, file=file, hint=hint)


def decompress(raw: bytes, file: str | None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the text of a plan file, which may be compressed with gzip.

    Raises:
        PlanError: Damaged, truncated or beyond the limit before or after decompression.
    """
    if len(raw) > limits.file_bytes:
        raise _too_large(file, limits)
    if not raw.startswith(_GZIP_MAGIC):
        return raw
    text, rest = bytearray(), raw
    try:
        while rest:
            member = zlib.decompressobj(wbits=31)
            text += member.decompress(rest, limits.file_bytes + 1 - len(text))
            if len(text) > limits.file_bytes:
                raise _too_large(file, limits)
            if not member.eof:
                raise refusal("the gzip data ends early", file=file, hint="write the file again")
            rest = member.unused_data
    except zlib.error as error:
        message = f"the gzip data is damaged: {error}"
        raise refusal(message, file=file, hint="write the file again") from None
    return bytes(text)
