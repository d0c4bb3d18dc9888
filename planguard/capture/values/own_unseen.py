"""Files of a node that no patched ``open`` reads: code in C, C++ and Rust, and modules.

Readers that are known by name and take a path are given the path of what another node could hold
(``READERS``): they are patched where they lie, those of a package that is imported later, when it
is. What else opens a file through the interpreter (``io.FileIO``, ``io.open_code``, the loader of a
module) is heard of by Python's audit, but cannot be answered otherwise: who reads a file of the
node so is not decided. A reader in another language that has no name here is not seen.

The same audit tells what this rank wrote. A file that is newer than the play and that another one
wrote lies on the node of that rank alone.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from planguard.sources import is_own, is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, ModuleType

UNSEEN = "what a file of this node holds, read by code that cannot be answered otherwise"
READERS = {
    "safetensors": ("safe_open",), "safetensors.torch": ("safe_open",),
    "safetensors.numpy": ("safe_open",), "transformers.modeling_utils": ("safe_open",),
    "accelerate.utils.modeling": ("safe_open",), "accelerate.utils.offload": ("safe_open",),
    "torch": ("from_file",), "torch.jit": ("load",), "torch.jit._serialization": ("load",),
    "pyarrow": ("memory_map", "OSFile", "input_stream"),
    "pyarrow.parquet": (
        "read_table", "ParquetFile", "read_metadata", "read_schema", "ParquetDataset",
    ),
    "pyarrow.csv": ("read_csv", "open_csv"), "pyarrow.json": ("read_json",),
    "pyarrow.feather": ("read_table", "read_feather"), "pyarrow.orc": ("read_table", "ORCFile"),
    "pyarrow.dataset": ("dataset",),
    "pandas": ("read_parquet", "read_feather", "read_orc", "read_hdf"),
    "h5py": ("File",), "lmdb": ("open", "Environment"), "netCDF4": ("Dataset",),
    "polars": (
        "read_csv", "read_parquet", "read_ipc", "read_ndjson", "read_json", "read_avro",
        "scan_csv", "scan_parquet", "scan_ipc", "scan_ndjson",
    ),
    "duckdb": ("connect", "read_csv", "read_parquet", "read_json"),
    "cv2": ("imread",), "soundfile": ("read", "SoundFile"), "faiss": ("read_index",),
    "torchvision.io": ("read_file", "read_image", "read_video"), "torchaudio": ("load", "info"),
}  # fmt: skip
"""Functions and classes in C, C++ and Rust that are given a path first, by their module."""
_METHODS = {
    ("torch", "UntypedStorage"): "from_file", ("tokenizers", "Tokenizer"): "from_file",
    ("sentencepiece", "SentencePieceProcessor"): "Load",
}  # fmt: skip
"""Methods that are, by the module and the class."""
_PATHS = ("filename", "path", "source", "where", "f", "file", "uri", "io", "database")
"""Names of the argument that is the path."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CODE = (".py", ".pyc")
_HEARING: list[Callable[[str, tuple[Any, ...], FrameType], None]] = []
"""Who hears of what this process opens; the newest last."""
_hooked = threading.Event()
_now = threading.local()
_ROOTS = tuple(os.path.join(os.path.realpath(one), "") for one in sys.path)  # noqa: PTH118 - texts
"""Where modules were found when this process began: the job's code lies there on every node."""


def readings(make: Callable[[Any], Any]) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Return the readers that are loaded: owner, name, and what makes the one in its place."""
    for home in READERS:
        yield from _of(home, make)
    for home, _ in _METHODS:
        yield from _of(home, make) if home not in READERS else ()


def _of(home: str, make: Callable[[Any], Any]) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    module = sys.modules.get(home)
    if module is None:
        return
    yield from ((module, name, make) for name in READERS.get(home, ()) if hasattr(module, name))
    for (where, kind), name in _METHODS.items():
        owner = getattr(module, kind, None) if where == home else None
        if owner is not None and hasattr(owner, name):
            yield owner, name, lambda original: staticmethod(make(original))


def redirected(original: Any, path_of: Callable[[str, FrameType], str]) -> Any:
    """Return a reader that is given another path.

    Args:
        original: The reader.
        path_of: Called with the path, and who reads; gives the path that is read.
    """

    def read(*args: Any, **options: Any) -> Any:
        frame: Any = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        if frame.f_code is _Kind.__call__.__code__:
            frame = frame.f_back
        name = next((one for one in _PATHS if one in options), None)
        given = args[0] if args else options.get(name) if name is not None else None
        if not isinstance(given, (str, bytes, os.PathLike)) or getattr(_now, "reads", False):
            return original(*args, **options)  # a reader inside a reader was given its path
        path = path_of(os.fsdecode(given), frame)
        if path == os.fsdecode(given):
            return original(*args, **options)
        _now.reads = True
        try:
            if args:
                return original(path, *args[1:], **options)
            return original(**{**options, str(name): path})
        finally:
            _now.reads = False

    if isinstance(original, type):
        return _Kind(original, read)
    read.__name__ = getattr(original, "__name__", "read")
    vars(read).update(getattr(original, "__dict__", {}))
    return read


class _Kind:
    """A class that reads the path it is given; it can be asked for and inherited from as it is."""

    def __init__(self, original: type, read: Callable[..., Any]) -> None:
        self._original, self._read = original, read

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._read(*args, **options)

    def __instancecheck__(self, one: object) -> bool:
        return isinstance(one, self._original)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, self._original)

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (self._original,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


@contextmanager
def brought_later(
    put: Callable[[Any, str, Callable[[Any], Any]], None], make: Any
) -> Iterator[None]:
    """Patch the readers of packages that are imported from now on, until the end of the block."""

    def tell(home: str) -> None:
        for one in _of(home, make):
            put(*one)

    finder = _Finder(tell)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.meta_path.remove(finder)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the packages of the readers as everybody does, and tells when they are loaded."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """Return the spec of a package of a reader; None for others."""
        if name not in READERS and all(home != name for home, _ in _METHODS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = None if spec is None else spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._tell(name)

        loader.exec_module = exec_module  # type: ignore[method-assign]  # of this module alone
        return spec


@contextmanager
def heard(hear: Callable[[str, tuple[Any, ...], FrameType], None]) -> Iterator[None]:
    """Tell what this process opens or renames, until the end of the block; hooks cannot go."""
    if not _hooked.is_set():
        _hooked.set()
        sys.addaudithook(_hear)
    _HEARING.append(hear)
    try:
        yield
    finally:
        _HEARING.remove(hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event not in ("open", "os.rename") or not _HEARING or getattr(_now, "hears", False):
        return
    _now.hears = True
    try:
        _HEARING[-1](event, args, sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
    except (OSError, ValueError):
        pass  # a path that is none: whoever opens it is told so
    finally:
        _now.hears = False


def written_by(event: str, args: tuple[Any, ...]) -> str | None:
    """Return the path that an event of the audit writes; None where it writes none."""
    path = args[1] if event == "os.rename" else args[0]
    if not isinstance(path, (str, bytes, os.PathLike)):
        return None
    is_one = event == "os.rename" or bool((args[2] or 0) & _WRITES)
    return os.fsdecode(path) if is_one else None


def reader_of(path: str, frame: FrameType | None) -> str | None:
    """Return the line of the program that opens a file in a way that is only heard of.

    None where PlanGuard opens it, torch (its caches), or the import of a module from where the
    job's code lies.
    """
    if frame is None or is_own(frame.f_code.co_filename):
        return None
    is_import = "importlib" in frame.f_code.co_filename
    if is_import and path.endswith(_CODE) and os.path.realpath(path).startswith(_ROOTS):
        return None
    while frame is not None:
        file = frame.f_code.co_filename
        # ``import`` itself is a patched function (``own_installed``).
        if f"{os.sep}torch{os.sep}" in file or (is_own(file) and not is_import):
            return None
        if is_program(file):
            return f"{file}:{frame.f_lineno}"
        is_import = is_import or "importlib" in file
        frame = frame.f_back
    return None
