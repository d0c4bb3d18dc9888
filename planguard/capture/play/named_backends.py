"""Which execution model a script means by the backend that it names.

``init_process_group("gloo")`` runs on gloo wherever it runs. What a script chooses by what it finds
here (``"nccl" if torch.cuda.is_available() else "gloo"``) is another backend where the job runs, so
that a file which says nccl anywhere else than in a constant of the call names none; nor does one
that asks torch for the backend of a device.
"""

from __future__ import annotations

import ast
import linecache
from typing import TYPE_CHECKING, Any

from planguard.capture.names.source import call_of
from planguard.sources import is_program

if TYPE_CHECKING:
    from types import FrameType

    from planguard.capture.play.ranks import Play

_MODELS = {"gloo": "gloo", "cpu:gloo": "gloo", "nccl": "nccl", "cuda:nccl": "nccl"}

_CHOSEN = ("nccl", "get_default_backend_for_device")
"""What a file says that chooses its backend by what it finds."""


def named_backend(backend: Any, frame: FrameType | None) -> list[str]:
    """Return the backend that a call names, and its line; no backend where it depends."""
    while frame is not None and not is_program(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return ["", ""]
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    call = call_of(frame)
    given = [*call.args, *(one.value for one in call.keywords)] if call is not None else []
    is_constant = any(isinstance(one, ast.Constant) and one.value == backend for one in given)
    text = "".join(linecache.getlines(frame.f_code.co_filename))
    is_chosen = not is_constant and any(one in text.lower() for one in _CHOSEN)
    return ["" if is_chosen or not backend else str(backend).lower(), place]


def model_of(play: Play) -> tuple[str, str] | None:
    """Return the model of the backend that all ranks name for all groups, and the first line."""
    named = [one for _, log in sorted(play.logs.items()) for one in log.backends]
    models = {_MODELS.get(backend) for backend, _ in named}
    (model,) = models if len(models) == 1 else (None,)
    return None if model is None else (model, named[0][1])


def words_of(named: tuple[str, str]) -> str:
    """Say under which model a script is decided, and why."""
    model, place = named
    return f"decided under {model}, the backend that {place} names; --model decides another one"
