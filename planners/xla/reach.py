"""Which parts of a program communicate and have to be walked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .collectives import communicates, foreign_call, is_host_transfer, may_communicate

if TYPE_CHECKING:
    from .model import Instruction, Module
    from .options import XlaOptions

MAX_CALLS = 200


class Reach:
    """Which computations communicate, themselves or in what they call."""

    def __init__(self, module: Module, options: XlaOptions) -> None:
        self._module = module
        self._options = options
        self._known: dict[str, tuple[Instruction, ...]] = {}
        self._open: set[str] = set()
        self.has_async = False

    def computation(self, name: str) -> bool:
        """Tell whether anything in a computation needs to be walked."""
        return bool(self.relevant(name))

    def relevant(self, name: str) -> tuple[Instruction, ...]:
        """Return the instructions of a computation that need to be walked."""
        if name not in self._known:
            if name in self._open or len(self._open) > MAX_CALLS:
                self._module.fail(1, "computations call each other in a circle", value=name)
            self._open.add(name)
            instructions = self._module.computations[name].instructions
            self._known[name] = tuple(i for i in instructions if self._walks(i))
            self._open.discard(name)
        return self._known[name]

    def _walks(self, instruction: Instruction) -> bool:
        inner = [name for name in instruction.calls if self.computation(name)]
        if communicates(instruction) or is_host_transfer(instruction):
            return True
        if may_communicate(instruction):
            return True
        if instruction.opcode == "async-start" and inner:
            self.has_async = True
        if instruction.opcode in {"async-update", "async-done"}:
            return True
        return bool(inner) or bool(foreign_call(instruction, self._options.local_calls))
