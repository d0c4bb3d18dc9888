"""Values of a program as far as they are asked for: lazily, for one device.

A tuple is never built. A value is asked for by the name of an instruction and a path into its
tuple, and only what a predicate, a trip count or a handle needs is ever computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from .values import Value, apply, constant

if TYPE_CHECKING:
    from .model import Computation, Instruction, Module

Path = tuple[int, ...]
Ref = Callable[[Path], Value]
_PASSING = frozenset({"copy", "bitcast", "optimization-barrier", "copy-done", "domain"})
_CALLING = frozenset({"fusion", "call"})
_MOODY = frozenset({
    "rng", "rng-get-and-update-state", "infeed", "recv", "recv-done", "custom-call", "partition-id",
    "replica-id",
})  # fmt: skip
_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,12})"?')
MAX_DEPTH = 120
MAX_TRIPS = 10_000


class Device:
    """Who asks: one device of a module, how deep the question has gone, and whether it mattered.

    Attributes:
        asked: The answer depended on which device it is.
    """

    def __init__(self, module: Module, replica: int, partition: int) -> None:
        self.module = module
        self.replica = replica
        self.partition = partition
        self.depth = 0
        self.asked = False


class Scope:
    """The values of one computation while it runs once."""

    def __init__(
        self,
        device: Device,
        computation: Computation,
        arguments: list[Ref],
        parent: Scope | None = None,
    ) -> None:
        self.device = device
        self.computation = computation
        self._arguments = arguments
        self._parent = parent
        self._named = device.module.named(computation)
        self._bound: dict[str, Ref] = {}
        self._known: dict[tuple[str, Path], Value] = {}
        self._inner: dict[str, Scope] = {}

    def bind(self, name: str, value: Ref) -> None:
        """Say what an instruction that was executed returned."""
        self._bound[name] = value

    def find(self, name: str) -> Instruction:
        """Return the instruction that makes a value, here or in what surrounds a region."""
        if name not in self._named and self._parent is not None:
            return self._parent.find(name)
        return self._named[name]

    def ref(self, name: str) -> Ref:
        """Return a reference to a value of this scope."""
        return lambda path: self.get(name, path)

    def part(self, name: str, index: int) -> Ref:
        """Return a reference to an element of a tuple."""
        return lambda path: self.get(name, (index, *path))

    def inside(self, name: str, arguments: list[Ref]) -> Scope:
        """Return a scope for a computation that runs within this one."""
        computation = self.device.module.computations[name]
        return Scope(self.device, computation, arguments, self if computation.inner else None)

    def result(self, path: Path) -> Value:
        """Return what the computation returns."""
        return self.get(self.computation.root, path) if self.computation.root else Value()

    def get(self, name: str, path: Path = ()) -> Value:
        """Return what is known about a value."""
        if name not in self._named and self._parent is not None:
            return self._parent.get(name, path)
        key = name, path
        if key not in self._known:
            if self.device.depth >= MAX_DEPTH:
                return Value()
            self.device.depth += 1
            try:
                self._known[key] = self._compute(self._named[name], path)
            finally:
                self.device.depth -= 1
        return self._known[key]

    def _compute(self, instruction: Instruction, path: Path) -> Value:
        opcode = instruction.opcode
        if instruction.name in self._bound:
            return self._bound[instruction.name](path)
        if opcode == "parameter":
            return self._parameter(instruction, path)
        if opcode == "get-tuple-element":
            index = int(instruction.attrs.get("index", "0"))
            return self.get(instruction.operands[0], (index, *path))
        if opcode == "tuple":
            return self._tuple(instruction, path)
        if opcode in _PASSING and len(instruction.operands) == 1:
            if path or instruction.shape.dtype == "tuple":
                return self.get(instruction.operands[0], path)
        elif opcode in _CALLING and len(instruction.calls) == 1:
            return call_result(instruction, self._called(instruction))(path)
        elif opcode == "while":
            return self._looped(instruction, path)
        elif opcode == "conditional":
            return self._branched(instruction, path)
        return self._plain(instruction, path)

    def _parameter(self, instruction: Instruction, path: Path) -> Value:
        number = int(instruction.literal) if instruction.literal.isdigit() else -1
        return self._arguments[number](path) if 0 <= number < len(self._arguments) else Value()

    def _tuple(self, instruction: Instruction, path: Path) -> Value:
        if not path:
            return Value()
        first, *rest = path
        if first >= len(instruction.operands):
            return Value()
        return self.get(instruction.operands[first], tuple(rest))

    def _called(self, instruction: Instruction) -> Scope:
        if instruction.name not in self._inner:
            inner = self.inside(instruction.calls[0], call_arguments(self, instruction))
            self._inner[instruction.name] = inner
        return self._inner[instruction.name]

    def _looped(self, instruction: Instruction, path: Path) -> Value:
        state = loop_state(self, instruction)
        for _ in range(MAX_TRIPS):
            test = loop_test(self, instruction, state)
            if test.data is None:
                return Value(varies=True)
            if not test.data[0]:
                break
            body = self.inside(loop_part(instruction, "body"), state)
            state = next_state(body, state)
        else:
            return Value()
        return at(state, path)

    def _branched(self, instruction: Instruction, path: Path) -> Value:
        test = self.get(instruction.operands[0])
        taken = branch_taken(instruction, test)
        numbers = range(len(instruction.calls)) if taken is None else [taken]
        results = [branch_scope(self, instruction, n).result(path) for n in numbers]
        if taken is not None:
            return results[0]
        return Value(None, test.varies or any(result.varies for result in results))

    def _plain(self, instruction: Instruction, path: Path) -> Value:
        device, opcode = self.device, instruction.opcode
        if opcode == "constant":
            return constant(instruction.literal, instruction.shape)
        if opcode in {"partition-id", "replica-id"}:
            device.asked = True
        if opcode == "partition-id":
            return Value((device.partition,), varies=device.module.partitions > 1)
        if opcode == "replica-id":
            return Value((device.replica,), varies=device.module.replicas > 1)
        if opcode in _MOODY or path:
            return Value()
        operands = [self.get(operand) for operand in instruction.operands]
        shapes = [self.find(operand).shape for operand in instruction.operands]
        return apply(instruction, operands, shapes)


def call_arguments(scope: Scope, instruction: Instruction) -> list[Ref]:
    """Return the arguments of what an instruction calls.

    A manual computation takes arrays apart that are one for all devices. Where it wants all of an
    array, every device gets the same; where it wants a part, devices get different ones, unless all
    elements of a constant are equal.
    """
    arguments = [scope.ref(operand) for operand in instruction.operands]
    cuts = instruction.attrs.get("in")
    if cuts is None:
        return arguments
    return [one if cut == "r" else _part_of(one) for one, cut in zip(arguments, cuts, strict=True)]


def _part_of(whole: Ref) -> Ref:
    def part(path: Path) -> Value:
        known = whole(path)
        if known.data and len(set(known.data)) == 1 and not known.varies:
            return Value(known.data[:1], varies=False)
        return Value(None, varies=True)

    return part


def call_result(instruction: Instruction, inner: Scope) -> Ref:
    """Return the result of what an instruction called.

    A manual computation puts the parts of devices together again. Cut along all manual axes, they
    are one array, whatever is in them. Otherwise several devices give the same part, and that they
    agree has to be seen: nobody checks it when the program runs.
    """
    cuts = instruction.attrs.get("out")
    if cuts is None:
        return inner.result

    def result(path: Path) -> Value:
        cut = cuts[path[0] if len(cuts) > 1 and path else 0]
        if cut == "a":
            return Value(None, varies=False)
        found = inner.result(path)
        return found if cut == "r" and not found.varies else Value(None, found.varies)

    return result


def loop_part(instruction: Instruction, part: str) -> str:
    """Return the name of the ``body`` or of the ``condition`` of a loop."""
    return instruction.attrs[part].lstrip("%")


def loop_state(scope: Scope, instruction: Instruction) -> list[Ref]:
    """Return the state in which a loop begins, as arguments of its body.

    HLO hands one tuple to the body; StableHLO one argument for each value.
    """
    if len(instruction.operands) == 1 and "flat" not in instruction.attrs:
        return [scope.ref(instruction.operands[0])]
    return [scope.ref(operand) for operand in instruction.operands]


def loop_test(scope: Scope, instruction: Instruction, state: list[Ref]) -> Value:
    """Return what the condition of a loop says in a state."""
    return scope.inside(loop_part(instruction, "condition"), state).result(())


def next_state(body: Scope, state: list[Ref]) -> list[Ref]:
    """Return the state after one pass through the body."""
    if not body.computation.inner:
        return [body.result]
    return [_element(body, index) for index in range(len(state))]


def _element(body: Scope, index: int) -> Ref:
    return lambda path: body.result((index, *path))


def at(state: list[Ref], path: Path) -> Value:
    """Return a value of the state in which a loop ends."""
    if len(state) == 1:
        return state[0](path)
    return state[path[0]](path[1:]) if path and path[0] < len(state) else Value()


def branch_taken(instruction: Instruction, test: Value) -> int | None:
    """Return the number of the branch that a predicate or an index picks, None if unknown."""
    if test.data is None or not test.data:
        return None
    if "true_computation" in instruction.attrs or "if" in instruction.attrs:
        return 0 if test.data[0] else 1
    index, last = test.data[0], len(instruction.calls) - 1
    return index if 0 <= index <= last else last


def branch_scope(scope: Scope, instruction: Instruction, number: int) -> Scope:
    """Return the scope of a branch: HLO hands one operand to each, StableHLO none."""
    own = instruction.operands[1 + number : 2 + number]
    return scope.inside(instruction.calls[number], [scope.ref(operand) for operand in own])


def known_trips(instruction: Instruction) -> int | None:
    """Return how often a loop runs if the compiler wrote it down."""
    known = _TRIPS.search(instruction.attrs.get("backend_config", ""))
    return None if known is None else int(known[1])


def input_value(parameter: Instruction, replicas: int) -> Ref:
    """Return what is known of an input of the program: whether all devices get the same.

    A sharding is about the partitions of one replica; replicas have inputs of their own.
    """
    same = replicas == 1 and (
        parameter.attrs.get("sharding", "") == "{replicated}" or "global" in parameter.attrs
    )
    return lambda _: Value(None, not same)
