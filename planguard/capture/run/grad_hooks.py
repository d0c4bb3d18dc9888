"""Hooks of our own in front of those that a program registers on its parameters.

They say where a gradient lies when it is ready, before the program copies it anywhere (``held``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.capture.run.held import Followed


def watch_hooks(
    replace: Callable[[Any, str, Any], None], following: Callable[[], Followed | None]
) -> None:
    """Put a hook of our own in front of the first one that a program registers on a parameter.

    Args:
        replace: Sets an attribute, undone at the end of the recording.
        following: Returns what follows gradients, and begins it; None while nothing is recorded.
    """
    import sys

    import torch

    after = torch.Tensor.register_post_accumulate_grad_hook
    before = torch.Tensor.register_hook

    def is_users(parameter: Any) -> bool:
        caller = sys._getframe(2)  # noqa: SLF001 - the interpreter has no public way
        leaf = isinstance(parameter, torch.nn.Parameter) and parameter.is_leaf
        return bool(leaf and not is_library(caller.f_code.co_filename))

    def register_post_accumulate_grad_hook(self: Any, hook: Any) -> Any:
        if is_users(self) and (followed := following()) is not None:
            _once(self, "after", lambda: after(self, lambda p: followed.ready(p, p.grad)))
        return after(self, hook)

    def register_hook(self: Any, hook: Any) -> Any:
        if is_users(self) and (followed := following()) is not None:
            _once(self, "before", lambda: before(self, lambda g: followed.ready(self, g)))
        return before(self, hook)

    replace(torch.Tensor, "register_post_accumulate_grad_hook", register_post_accumulate_grad_hook)
    replace(torch.Tensor, "register_hook", register_hook)


_MARK = "_planguard_followed"


def _once(parameter: Any, which: str, register: Callable[[], Any]) -> None:
    """Register a hook on a parameter that has none of ours."""
    if not hasattr(parameter, _MARK):
        setattr(parameter, _MARK, which)
        register()
