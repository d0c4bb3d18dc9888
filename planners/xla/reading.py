"""From files, bytes and jax objects to modules: HLO or StableHLO, plain or gzipped, bounded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError
from planguard.files.heads import HEAD

from ..common.reading import UNREADABLE, unpacked
from .hlo import read_hlo
from .mlir import read_mlir

if TYPE_CHECKING:
    from .model import Module

MAX_BYTES = 256 * 2**20
_SHARDY = (b"mpmd.topology<", b"mpmd.mesh_tensor<", b"mpmd.fragment")
_MLIR = (b"stablehlo.", b"mhlo.", b"sdy.", b"stablehlo_")


def looks_like_hlo(head: bytes) -> bool:
    """Tell whether a text begins as HLO does."""
    for line in map(bytes.strip, head.split(b"\n")):
        if line and not line.startswith((b"//", b"#")):
            return line.startswith(b"HloModule ")
    return False


def looks_like_mlir(head: bytes) -> bool:
    """Tell whether a text begins as a StableHLO module does."""
    text = b"\n".join(
        line for line in head.split(b"\n") if not line.strip().startswith((b"//", b"#"))
    ).lstrip()
    return text.startswith((b"module ", b"module@", b'"builtin.module"')) and any(
        word in head for word in _MLIR
    )


def looks_like_shardy(head: bytes) -> bool:
    """Tell whether a text begins as a module of Shardy's ``mpmd`` dialect."""
    lines = [line.strip() for line in head.split(b"\n")]
    text = next((line for line in lines if line and not line.startswith(b"//")), b"")
    begins = (b"module", b"!", b"#", b"func.func")
    return text.startswith(begins) and any(word in head for word in _SHARDY)


def looks_like_program(head: bytes) -> bool:
    """Tell whether a text begins as a program of XLA does."""
    return looks_like_hlo(head) or looks_like_mlir(head)


def text_of(obj: str | Path | bytes | bytearray) -> tuple[str, str]:
    """Return the text of a path or of bytes, and the name of its file.

    Raises:
        PlanError: It cannot be read, is too large, or is not UTF-8.
    """
    if isinstance(obj, bytes | bytearray):
        return _decoded(bytes(obj), "program"), "program"
    try:
        data = unpacked(Path(obj), MAX_BYTES)
    except UNREADABLE as error:
        raise PlanError(f"cannot be read: {error}", file=str(obj)) from error
    return _decoded(data, str(obj)), str(obj)


def _decoded(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise PlanError(f"is larger than {MAX_BYTES} bytes", file=file)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError("is not UTF-8", file=file, path=f"line {line}") from error


def read_text(text: str, file: str) -> Module:
    """Read a program.

    Raises:
        PlanError: It is none, or it is malformed; the message names the line.
    """
    head = text[:HEAD].encode()
    is_mlir = looks_like_mlir(head)
    if looks_like_shardy(head) or (is_mlir and ("mpmd.fragment" in text or "mpmd.trans" in text)):
        raise PlanError(
            "a module of several programs, where one is expected",
            file=file,
            path="line 1",
            hint="give Shardy's text by itself: it says which devices run what",
        )
    if is_mlir:
        return read_mlir(text, file)
    if looks_like_hlo(head):
        return read_hlo(text, file)
    raise PlanError(
        "is neither HLO nor StableHLO text",
        file=file,
        path="line 1",
        value=text[:60],
        hint="give what compiled.as_text() or lowered.as_text() returns",
    )


def is_jax_object(obj: object) -> bool:
    """Tell whether an object is what jax's ``lower`` or ``compile`` returns; runs nothing."""
    cls = type(obj)
    return cls.__name__ in {"Compiled", "Lowered"} and cls.__module__.split(".")[0] == "jax"


def read_object(obj: object) -> Module:
    """Read a path, bytes, or what jax's ``lower`` or ``compile`` returned.

    Raises:
        PlanError: It is no program.
    """
    if isinstance(obj, str | Path | bytes | bytearray):
        return read_text(*text_of(obj))
    if is_jax_object(obj):
        text = obj.as_text()  # type: ignore[attr-defined]
        return read_text(text, f"jax.stages.{type(obj).__name__}")
    raise PlanError(
        "not a program of XLA",
        value=type(obj).__name__,
        hint="give a file, bytes, or what jax.jit(f).lower(...) or .compile() returns",
    )
