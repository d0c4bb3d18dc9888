"""Compile the MPI interposer with the user's mpicxx.

It is no part of the compiled package: MPI_Comm is a pointer in Open MPI and an integer in MPICH, so
one binary cannot serve both. Every function of the user's own mpi.h that is neither recorded nor
local gets a wrapper that marks it as not followed: nothing that communicates goes by in silence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from planguard.errors import UsageError
from planguard.files import write
from planguard.sources import package_folder

_PROTOTYPE = re.compile(r"\bint\s+MPI_(\w+)\s*\(([^;{}]*?)\)\s*(?:__attribute__[^;]*)?;")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
_OWN = re.compile(
    r"\bMPI_(\w+)\s*\(|\b(?:I?SEND|INIT|MAKING|WINDOW)\((\w+)|\b(?:BOTH|REDUCES)\((\w+), (\w+)"
)
_LOCAL = re.compile(
    r"T_|Type_|Group_|Info_|Error_|Errhandler_|Get_|Op_|Status_|Attr_|Keyval_|Buffer_|Pack|Unpack"
    r"|Address|Aint_|Initialized$|Finalized$|Query_|Is_thread|Dims_create|Alloc_mem|Free_mem"
    r"|Pcontrol|Abort$|Topo_test|Cart_(?:coords|get|rank|shift)$|Cartdim_get|Graph_(?:get|neigh)"
    r"|Graphdims_get|Comm_(?:rank|size|group|compare|test_inter|remote|get_|set_|call_|create_errh"
    r"|create_keyval|free_keyval|delete_attr|free$|c2f|f2c)|Add_error|Remove_error|Reduce_local$|Test_cancelled$|Init(?:_thread)?$"
    r"|Win_(?:get_|set_|call_|create_errh|create_keyval|free_keyval|delete_attr|attach|detach|shared_q"
    r"|sync$|c2f|f2c)|(?:Put|Get|Accumulate|Fetch_and_op|Compare_and_swap)$"
)
"""Functions that involve no other process, by the MPI standard 4.1 ("local" procedures).

MPI_Comm_free is collective there, and its handle may be used by nobody after it; both libraries
free without waiting for the others. What is put, got and accumulated blocks nobody: the epoch that
it needs is what is followed, or marked.
"""


def sources() -> Path:
    """Return the folder of the interposer's sources.

    Raises:
        UsageError: They were not installed.
    """
    native = find_spec("planguard._native")
    found = []
    if native is not None and native.origin is not None:
        found.append(Path(native.origin).parent / "preload_sources")
    found.append(package_folder().parent / "native" / "preload")
    for folder in found:
        if (folder / "mpi.cpp").is_file():
            return folder
    raise UsageError("the sources of the MPI interposer are missing", hint="reinstall planguard")


def build(folder: Path, compiler: str | None = None) -> Path:
    """Compile the interposer into a folder and return it.

    Args:
        folder: Where it goes.
        compiler: The MPI library's C++ compiler; the environment's ``MPICXX``, else ``mpicxx``.

    Raises:
        UsageError: There is no such compiler, or it fails.
    """
    compiler = compiler or os.environ.get("MPICXX") or "mpicxx"
    path = shutil.which(compiler)
    if path is None:
        hint = (
            "install an MPI library with its compiler, such as libopenmpi-dev or libmpich-dev, or "
            "name one by MPICXX"
        )
        raise UsageError(f"no {compiler} found", hint=hint)
    at = sources()
    own = {name for found in _OWN.findall((at / "mpi.cpp").read_text("utf-8")) for name in found}
    header = _run([path, "-x", "c", "-E", "-"], "#include <mpi.h>\n")
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "mpi_others.inc", others(header, own))
    library = folder / "libplanguard_mpi.so"
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
    files = [str(at / "mpi.cpp"), str(at / "log.cpp")]
    _run([path, *flags, f"-I{folder}", f"-I{at}", *files, "-o", str(library), "-ldl", "-lpthread"])
    _refuse_holes(library, header)
    return library


def _refuse_holes(library: Path, header: str) -> None:
    """Raise unless every function of the header that is not local is wrapped in the library."""
    symbols = _run(["nm", "-D", "--defined-only", str(library)])
    defined = set(re.findall(r" [TW] MPI_(\w+)", symbols))
    wanted = {name for name, params in _PROTOTYPE.findall(header) if "..." not in params}
    holes = sorted(name for name in wanted - defined if _counts(name))
    if holes or not wanted:
        raise UsageError(
            f"MPI functions without a wrapper: {', '.join(holes[:5]) or 'no prototype was read'}",
            hint="what they send would not be seen: report this mpi.h",
        )


def _counts(name: str) -> bool:
    return not (_LOCAL.match(name) or re.search(r"_(?:c2f|f2c|c2f08|f082c)$", name))


def others(header: str, own: set[str]) -> str:
    """Return wrappers that mark what is not followed, for the functions of a preprocessed mpi.h."""
    wrappers: dict[str, str] = {}
    for name, params in _PROTOTYPE.findall(header):
        if name in own or not _counts(name):
            continue
        plain = " ".join(params.split())
        listed = [] if plain in ("", "void") else plain.split(",")
        names = [_NAME.search(one.strip()) for one in listed]
        if "..." in plain:
            continue
        given = ", ".join(one.group(1) for one in names if one is not None)
        wrappers[name] = (
            f'int MPI_{name}({plain}) {{ not_followed("MPI_{name}"); '
            f"return PMPI_{name}({given}); }}"
        )
    return "\n".join(wrappers[name] for name in sorted(wrappers)) + "\n"


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(  # noqa: S603 - the user's own MPI compiler
        command, input=given, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise UsageError(f"{command[0]} failed: {done.stderr.strip()[-400:]}")
    return done.stdout
