"""What walking through a program rests on: the state of one device's walk, and its trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .scope import Device, Ref, Scope, input_value
from .steps import Origin, Step, Trace

if TYPE_CHECKING:
    from .collectives import Translator
    from .model import Computation, Instruction
    from .options import XlaOptions
    from .reach import Reach

MAX_STEPS = 1_000_000


class Walking(ABC):
    """The state of a walk; ``Walker`` says what every instruction does."""

    def __init__(
        self, translator: Translator, reach: Reach, options: XlaOptions, device: int
    ) -> None:
        module = translator.module
        self._translator = translator
        self._reach = reach
        self._options = options
        self._device = device
        self._machine = Device(module, *divmod(device, module.partitions))
        self._pending: dict[str, str] = {}
        self._rounds: list[str] = []
        self._prefix: list[str] = []
        self._nesting = 0
        self._count = 0
        self._in_async = False
        self.trace = Trace()

    def run(self) -> Trace:
        """Walk the entry computation.

        Raises:
            PlanError: A communicating instruction is malformed, or there is no end to them.
        """
        module = self._translator.module
        entry = module.computations[module.entry]
        scope = Scope(self._machine, entry, self._inputs(entry))
        self._walk(scope)
        return self.trace

    @property
    def asked(self) -> bool:
        """Whether another device might have walked otherwise, but for the groups it is in."""
        return self._machine.asked

    @abstractmethod
    def _walk(self, scope: Scope) -> None:
        """Walk a computation."""

    def _inputs(self, entry: Computation) -> list[Ref]:
        parameters = [i for i in entry.instructions if i.opcode == "parameter"]
        ordered = sorted(parameters, key=lambda i: int(i.literal or 0))
        return [input_value(one, self._translator.module.replicas) for one in ordered]

    def _fail(self, instruction: Instruction, message: str) -> None:
        self._translator.module.fail(instruction.line, message, value=instruction.name)

    def _add(self, step: Step, instruction: Instruction) -> None:
        self._count += 1
        if self._count > MAX_STEPS:
            self._fail(instruction, f"a device has more than {MAX_STEPS} communications")
        self.trace.steps.append(step)

    def _origin(self, instruction: Instruction) -> Origin:
        return self._translator.origin(instruction, "".join(self._prefix), "".join(self._rounds))

    def _apart(self, scope: Scope) -> list[Step]:
        """Walk a computation and return its steps instead of adding them."""
        kept, self.trace.steps = self.trace.steps, []
        self._walk(scope)
        found, self.trace.steps = self.trace.steps, kept
        return found
