"""Walking through a program as one device would run it, and noting what it communicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from . import collectives as c
from .agreed import agreed
from .scope import (
    Ref,
    Scope,
    at,
    branch_scope,
    branch_taken,
    call_arguments,
    call_result,
    known_trips,
    loop_part,
    loop_state,
    loop_test,
    next_state,
)
from .steps import (
    Choice,
    Collective,
    Exchange,
    Loop,
    Message,
    Sending,
    Step,
    Wait,
    essence,
    is_sized,
)
from .values import Value
from .walking import Walking

if TYPE_CHECKING:
    from .model import Instruction

MAX_NESTING = 40
_UNROLLED = 4096
_LAUNCHED = (Collective, Exchange, Message)


class Walker(Walking):
    """Runs the program of one device without its data."""

    def _walk(self, scope: Scope) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self._fail(scope.computation.instructions[0], "control flow is nested too deeply")
        for instruction in self._reach.relevant(scope.computation.name):
            self._step(scope, instruction)
        self._nesting -= 1

    def _step(self, scope: Scope, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if c.is_host_transfer(instruction):
            scope.bind(instruction.name, lambda _: Value())
            message = f"{instruction.name} talks with the host, which is taken to answer"
            self.trace.doubt("host-transfer", message, "exact")
        elif c.communicates(instruction):
            self._communicate(scope, instruction)
        elif opcode == "while":
            self._loop(scope, instruction)
        elif opcode == "conditional":
            self._branch(scope, instruction)
        elif opcode in {"async-done", "async-update"}:
            self._passed_on(scope, instruction)
        elif opcode == "fusion":
            self._fusion(scope, instruction)
        elif opcode in {"call", "async-start"} and len(instruction.calls) == 1:
            self._call(scope, instruction)
        elif opcode == "custom-call":
            self._foreign(instruction)
        elif c.may_communicate(instruction):
            message = f"{instruction.name} is a {opcode}, which is not known"
            self.trace.doubt("unsupported-op", message)
        else:
            message = f"{instruction.name} is a {opcode} that calls communicating code"
            self.trace.doubt("unsupported-op", message)

    def _foreign(self, instruction: Instruction) -> None:
        target = c.foreign_call(instruction, self._options.local_calls)
        message = f"the custom call {target!r} may communicate; local_calls says that it does not"
        self.trace.doubt("custom-call", message)

    def _communicate(self, scope: Scope, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode in c.MESSAGES:
            self._message(scope, instruction)
        elif opcode in c.MESSAGE_DONES or opcode.endswith("-done"):
            self._wait(scope, instruction)
        else:
            self._launch(scope, instruction)

    def _launch(self, scope: Scope, instruction: Instruction) -> None:
        strange = c.unknown_attributes(instruction)
        if strange:
            message = f"{instruction.name} has the attribute {', '.join(strange)}, not understood"
            self.trace.doubt("unknown-attribute", message)
        origin = self._origin(instruction)
        shapes = [scope.find(operand).shape for operand in instruction.operands]
        started = instruction.opcode.endswith("-start") and not c.is_synchronous_start(instruction)
        handle = origin.text if started or self._in_async else None
        alike, kind = False, c.base(instruction.opcode)
        step: Collective | Exchange
        if kind == c.PERMUTE:
            self._machine.asked = True
            step = self._translator.exchange(instruction, self._device, origin, shapes)
        else:
            step, alike = self._translator.collective(instruction, self._device, origin, shapes)
        if len(step.group if isinstance(step, Collective) else step.domain) == 1:
            handle = None  # a group of one device: nothing moves
        else:
            self._add_sized(replace(step, handle=handle), instruction)
        value = Value(None, not alike, handle or "")
        scope.bind(instruction.name, lambda _: value)

    def _message(self, scope: Scope, instruction: Instruction) -> None:
        self._machine.asked = True
        origin = self._origin(instruction)
        shapes = [scope.find(operand).shape for operand in instruction.operands]
        step = self._translator.message(instruction, self._device, origin, shapes)
        if step is not None:
            self._add_sized(step, instruction)
        value = Value(None, True, step.handle if step else "")
        scope.bind(instruction.name, lambda _: value)

    def _add_sized(self, step: Sending, instruction: Instruction) -> None:
        """Add a communication; one without a size is compared with nobody's."""
        if not is_sized(step):
            self.trace.doubt("unknown-size", f"the size of {instruction.name} is not in the text")
        self._add(step, instruction)

    def _wait(self, scope: Scope, instruction: Instruction) -> None:
        if not instruction.operands:
            self._fail(instruction, "a done without the start that it waits for")
        started = scope.get(instruction.operands[0])
        if started.handle is None:
            self.trace.undecided += 1
            message = f"which start {instruction.name} waits for is not known"
            self.trace.doubt("unknown-handle", message)
        elif started.handle:
            self._add(Wait(self._origin(instruction), started.handle), instruction)
        value = Value(None, started.varies, "")
        scope.bind(instruction.name, lambda _: value)

    def _call(self, scope: Scope, instruction: Instruction) -> None:
        inner = scope.inside(instruction.calls[0], call_arguments(scope, instruction))
        self._prefix.append("" if inner.computation.inner else f"{instruction.name}/")
        before = len(self.trace.steps)
        was, self._in_async = self._in_async, self._in_async or instruction.opcode == "async-start"
        self._walk(inner)
        self._in_async = was
        self._prefix.pop()
        if instruction.opcode != "async-start":
            scope.bind(instruction.name, call_result(instruction, inner))
            return
        handles = [s.handle for s in self.trace.steps[before:] if isinstance(s, _LAUNCHED)]
        joined = " ".join(handle for handle in handles if handle)
        value = Value(None, True, joined)
        scope.bind(instruction.name, lambda _: value)

    def _passed_on(self, scope: Scope, instruction: Instruction) -> None:
        if not instruction.operands:
            self._fail(instruction, "a done without the start that it waits for")
        started = scope.get(instruction.operands[0])
        if (
            started.handle is None
            and self._reach.has_async
            and not self._is_local_start(scope, instruction)
        ):
            self.trace.undecided += 1
            message = f"which start {instruction.name} waits for is not known"
            self.trace.doubt("unknown-handle", message)
        if instruction.opcode == "async-done":
            for handle in (started.handle or "").split():
                self._add(Wait(self._origin(instruction), handle), instruction)
            started = Value(None, True, "")
        scope.bind(instruction.name, lambda _: started)

    def _is_local_start(self, scope: Scope, instruction: Instruction) -> bool:
        """Tell whether an async operation goes back to a start that communicates nothing."""
        start = scope.find(instruction.operands[0])
        while start.opcode == "async-update" and start.operands:
            start = scope.find(start.operands[0])
        inside = any(self._reach.computation(name) for name in start.calls)
        return start.opcode == "async-start" and not inside

    def _fusion(self, scope: Scope, instruction: Instruction) -> None:
        """Walk a fusion; the TPU backend spreads one collective over several of them.

        The first has a custom call ``AsyncCollectiveStart``, the last ``AsyncCollectiveDone``, and
        each repeats the collective with its channel. They are one collective. A second one that
        begins on the channel meanwhile would be taken for the first, so that is left open.
        """
        computation = self._translator.module.computations[instruction.calls[0]]
        targets = {i.attrs.get("custom_call_target", "") for i in computation.instructions}
        inside = [i for i in computation.instructions if c.communicates(i)]
        channel = c.channel_of(inside[0]) if len(inside) == 1 else ""
        begins = bool(channel) and '"AsyncCollectiveStart"' in targets
        if channel in self._pending:
            if begins:
                message = f"{instruction.name} begins a collective whose channel has one under way"
                self.trace.doubt("unknown-handle", message)
            if '"AsyncCollectiveDone"' in targets:
                handle = self._pending.pop(channel)
                self._add(Wait(self._origin(instruction), handle), instruction)
            scope.bind(instruction.name, lambda _: Value())
            return
        was, self._in_async = self._in_async, begins
        before = len(self.trace.steps)
        self._call(scope, instruction)
        self._in_async = was
        launched = [s for s in self.trace.steps[before:] if isinstance(s, _LAUNCHED)]
        if begins and launched:
            self._pending[channel] = launched[0].handle or ""

    def _branch(self, scope: Scope, instruction: Instruction) -> None:
        test = scope.get(instruction.operands[0])
        taken = branch_taken(instruction, test)
        if taken is not None and not test.varies:
            self._take(scope, instruction, taken)
            return
        doubts, undecided, pending = dict(self.trace.doubts), self.trace.undecided, self._pending
        inner = [branch_scope(scope, instruction, n) for n in range(len(instruction.calls))]
        branches = [self._arm(instruction, n, branch) for n, branch in enumerate(inner)]
        if len({essence(branch) for branch in branches}) == 1:
            # The devices take different branches to one and the same communication.
            self.trace.steps += branches[0]
        elif taken is not None:
            self.trace.doubts, self.trace.undecided = doubts, undecided
            self._pending = pending
            self._take(scope, instruction, taken)
            return
        else:
            self.trace.undecided += 1
            self._choose(instruction, [tuple(b) for b in branches], uniform=not test.varies)
        result = inner[taken].result if taken is not None else lambda _: Value(None, varies=True)
        scope.bind(instruction.name, result)

    def _choose(
        self, instruction: Instruction, branches: list[tuple[Step, ...]], *, uniform: bool
    ) -> None:
        if uniform:
            message = f"every device is taken to compute the same predicate of {instruction.name}"
            self.trace.doubt("uniform-branch", message, "exact")
        self._add(Choice(self._origin(instruction), uniform, tuple(branches)), instruction)

    def _take(self, scope: Scope, instruction: Instruction, taken: int) -> None:
        inner = branch_scope(scope, instruction, taken)
        self.trace.steps += self._arm(instruction, taken, inner)
        scope.bind(instruction.name, inner.result)

    def _arm(self, instruction: Instruction, number: int, inner: Scope) -> list[Step]:
        """Return the steps of a branch; regions number their values alike, computations do not."""
        self._prefix.append(f"{instruction.name}.{number}/" if inner.computation.inner else "")
        steps = self._apart(inner)
        self._prefix.pop()
        return steps

    def _loop(self, scope: Scope, instruction: Instruction) -> None:
        trips = self._trips(scope, instruction)
        if trips is None and self._agreed(scope, instruction):
            return
        if self._reach.computation(loop_part(instruction, "condition")):
            message = f"the condition of {instruction.name} communicates"
            self.trace.doubt("unsupported-op", message)
        if trips == 0:
            begin = loop_state(scope, instruction)
            scope.bind(instruction.name, lambda path: at(begin, path))
            return
        doubts, undecided = dict(self.trace.doubts), self.trace.undecided
        body = self._alike(scope, instruction)
        if self.trace.undecided == undecided and trips is not None:
            self._add_loop(instruction, trips, body)
            scope.bind(instruction.name, lambda _: Value())
            return
        self.trace.doubts, self.trace.undecided = doubts, undecided
        self._passes(scope, instruction, trips)

    def _agreed(self, scope: Scope, instruction: Instruction) -> bool:
        """Add a loop whose passes all devices count alike, if it is one."""
        doubts, undecided = dict(self.trace.doubts), self.trace.undecided
        pending = dict(self._pending)
        self._rounds.append("[{i}]")
        found = agreed(scope, instruction, self._apart)
        self._rounds.pop()
        if found is None or self.trace.undecided != undecided or pending != self._pending:
            self.trace.doubts, self.trace.undecided = doubts, undecided
            self._pending = pending
            return False
        origin = self._origin(instruction)
        message = (
            f"how often {instruction.name} runs depends on data that all devices share; none, one "
            "and two passes stand for any number"
        )
        self.trace.doubt("agreed-loop", message, "exact")
        if found.before:
            self._add(Loop(origin, 1, tuple(found.before)), instruction)
        passes = [(Loop(origin, times, tuple(found.again)),) for times in (2, 1)]
        self._add(Choice(origin, True, (*passes, ())), instruction)
        scope.bind(instruction.name, found.state)
        return True

    def _add_loop(self, instruction: Instruction, trips: int, body: list[Step]) -> None:
        if body:
            self._add(Loop(self._origin(instruction), trips, tuple(body)), instruction)

    def _alike(self, scope: Scope, instruction: Instruction) -> list[Step]:
        """Walk the body once in an unknown state: what it does in every pass, if decided."""
        state: list[Ref] = [lambda _: Value() for _ in loop_state(scope, instruction)]
        self._rounds.append("[{i}]")
        pending = dict(self._pending)
        steps = self._apart(scope.inside(loop_part(instruction, "body"), state))
        if pending != self._pending:
            self.trace.undecided += 1
            self._pending = pending
        self._rounds.pop()
        return steps

    def _trips(self, scope: Scope, instruction: Instruction) -> int | None:
        """Return how often a loop runs: as told, as the compiler found, or by its counter."""
        if instruction.name in self._options.trip_counts:
            return self._options.trip_counts[instruction.name]
        known = known_trips(instruction)
        if known is not None:
            return known
        state = loop_state(scope, instruction)
        for count in range(_UNROLLED):
            test = loop_test(scope, instruction, state)
            if test.data is None:
                return None
            if not test.data[0]:
                return count
            state = next_state(scope.inside(loop_part(instruction, "body"), state), state)
        return None

    def _passes(self, scope: Scope, instruction: Instruction, trips: int | None) -> None:
        """Walk the passes one by one, because they differ; merge equal neighbors again."""
        state = loop_state(scope, instruction)
        told = trips is not None
        for count in range(min(trips, _UNROLLED) if trips is not None else _UNROLLED):
            if not told:
                test = loop_test(scope, instruction, state)
                if test.data is None:
                    self._endless(scope, instruction, state, count, uniform=not test.varies)
                    return
                if not test.data[0]:
                    break
            self._rounds.append(f"[{count}]")
            body = scope.inside(loop_part(instruction, "body"), state)
            self._walk(body)
            self._rounds.pop()
            state = next_state(body, state)
        else:
            if trips is None or trips > _UNROLLED:
                message = f"{instruction.name} runs too often to be followed pass by pass"
                self.trace.doubt("long-loop", message)
        scope.bind(instruction.name, lambda path: at(state, path))

    def _pass(
        self, scope: Scope, instruction: Instruction, state: list[Ref], count: int
    ) -> tuple[list[Step], list[Ref]]:
        """Return the steps of one pass of a loop, and the state that it leaves."""
        self._rounds.append(f"[{count}]")
        body = scope.inside(loop_part(instruction, "body"), state)
        steps = self._apart(body)
        self._rounds.pop()
        return steps, next_state(body, state)

    def _endless(
        self, scope: Scope, instruction: Instruction, state: list[Ref], count: int, *, uniform: bool
    ) -> None:
        """Note a loop whose end the data decides: one more pass, or none.

        Where all devices agree on that pass and may not on a further one, that is another choice.
        """
        steps, after = self._pass(scope, instruction, state, count)
        if steps and uniform and loop_test(scope, instruction, after).varies:
            more, _ = self._pass(scope, instruction, after, count + 1)
            steps.append(Choice(self._origin(instruction), False, ((), tuple(more))))
        if steps:
            hint = "option trip_counts says how often"
            message = f"how often {instruction.name} runs depends on data; {hint}"
            self.trace.doubt("unknown-trip-count", message)
            self.trace.undecided += 1
            self._choose(instruction, [(), tuple(steps)], uniform=uniform)
        scope.bind(instruction.name, lambda _: Value())
