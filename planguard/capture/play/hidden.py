"""What could tell a played rank something that no message of the job brings: files, sockets, dice.

That a rank does the same for every sample is an argument for assignments that were not played only
if nothing but messages and the store reaches it (``batches/untold``). So its process notes the
first file that it opens and that is no code, memory that it maps, a process that it starts, a
socket, and a number drawn from torch's generator while nobody had set a seed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planguard.capture.groups.recorder import Recorder

_CODE = (".py", ".pyc", ".pyi", ".so", ".pth", ".pyd", "pyvenv.cfg", "METADATA", "PKG-INFO")
"""How files end that an interpreter reads for itself."""
_SYSTEM = ("/proc/", "/sys/", "/dev/null", "/dev/urandom", "/etc/")
"""Where the machine tells of itself, to all ranks alike."""
_WAYS = {
    "mmap.__new__": "maps memory", "os.fork": "starts a process", "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process", "subprocess.Popen": "starts a process",
    "os.system": "starts a process", "socket.connect": "opens a socket",
    "socket.bind": "opens a socket", "sqlite3.connect": "opens a database",
    "shutil.copyfile": "copies files", "os.remove": "removes files", "os.rename": "moves files",
    "os.mkdir": "makes folders", "os.truncate": "changes files", "os.link": "links files",
    "os.symlink": "links files", "os.rmdir": "removes folders", "os.utime": "changes files",
    "os.kill": "sends a signal", "socket.__new__": "opens a socket",
    "ctypes.dlopen": "loads a library",
}  # fmt: skip
"""Events of Python's audit that are no reading of a file, and what they are called here."""


def watch_hidden(recorder: Recorder, *, is_followed: bool) -> None:
    """Note what this process does beside its messages.

    Args:
        recorder: Told what it does, in words.
        is_followed: This process ends with its rank, so that a hook need not be taken off again,
            and draws that it makes are seen. Else it is noted that nothing is known.
    """
    note = recorder.note_hidden
    if not is_followed:
        note("is not followed")
        return

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path = args[0]
            if isinstance(path, (str, bytes)):
                name = os.fsdecode(path)
                if not name.endswith(_CODE) and not name.startswith(_SYSTEM):
                    note("opens a file")
            else:
                note("opens a file")
        elif event in _WAYS:
            note(_WAYS[event])

    sys.addaudithook(hear)


def draws(func: Any) -> bool:
    """Tell whether an operator of torch draws numbers from a generator."""
    import torch

    return torch.Tag.nondeterministic_seeded in func.tags


def note_draw(recorder: Recorder) -> None:
    """Note that a number is drawn, unless somebody had set torch's seed: then it is no chance."""
    import torch

    if torch.initial_seed() >= _CHOSEN_SEEDS:
        recorder.note_hidden("draws numbers without a seed")


_CHOSEN_SEEDS = 1 << 32
"""Seeds below are somebody's choice (as in ``own_answers``)."""
