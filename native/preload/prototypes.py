"""The parameters of NCCL's functions as the calling convention sees them.

    python native/preload/prototypes.py NCCL_H            print the table of a release
    python native/preload/prototypes.py NCCL_H --check    fail when prototypes.txt is another

The table is kept beside this file, so that the interposer is held against it wherever the tests
run; the gate holds the table against the header of the release.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("prototypes.txt")
NOT_COMMUNICATION = re.compile(
    r"nccl(Mem(Alloc|Free)|Get(Version|ErrorString)|ResetDebugInit|SetEncryption|Param\w+)$"
)
POINTERS = {"ncclComm_t", "cudaStream_t", "ncclWindow_t", "Comm", "Stream", "Window"}
WORDS = {"size_t", "std::size_t", "uint64_t"}
IDS = {"ncclUniqueId", "UniqueId"}


def prototypes(text: str) -> dict[str, str]:
    """Return the parameters of every `ncclX(...)` in C or C++ text, one word each."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    found: dict[str, str] = {}
    for name, arguments in re.findall(r"\b(nccl[A-Z]\w*)\s*\(([^()]*)\)\s*[;{]", text):
        parts = [part.strip() for part in arguments.split(",") if part.strip() not in {"", "void"}]
        found.setdefault(name, " ".join(map(_shape, parts)))
    return found


def _shape(parameter: str) -> str:
    words = set(parameter.replace("*", " * ").split())
    if "*" in words or words & POINTERS:
        return "pointer"
    if words & WORDS:
        return "word"
    return "id" if words & IDS else "int"


def table(header: str) -> str:
    """Return the communication and communicator functions of a header, one a line."""
    found = {n: p for n, p in prototypes(header).items() if not NOT_COMMUNICATION.match(n)}
    return "".join(f"{name} {found[name]}".rstrip() + "\n" for name in sorted(found))


def read_table() -> dict[str, str]:
    """Return the table that is kept: name to parameters."""
    lines = (line.partition(" ") for line in TABLE.read_text().splitlines())
    return {name: parameters for name, _, parameters in lines}


def main() -> int:
    """Print or check the table."""
    made = table(Path(sys.argv[1]).read_text())
    if "--check" not in sys.argv:
        sys.stdout.write(made)
        return 0
    if made != TABLE.read_text():
        sys.stderr.write(f"{TABLE.name} is not the table of {sys.argv[1]}\n")
        return 1
    sys.stdout.write(f"{TABLE.name}: {len(made.splitlines())} functions, as in the header\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
