"""The base of every dispatcher mode of the capture."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def infra_mode() -> Any:
    """Return a class of dispatcher modes under which ``torch.compile`` still traces.

    It is made when it is first asked for: importing this module does not import torch.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class InfraMode(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
        @classmethod
        def is_infra_mode(cls) -> bool:
            return True  # torch.compile refuses to trace under any other mode

    return InfraMode
