"""Walk the step function of one rank and write down what the rank does, in order."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import prims
from .executor import Executor
from .launches import Launches
from .model import Call, Comm, Leave, Program
from .module import dotted
from .rank import Rank, at_line
from .values import UNKNOWN, Sample, Tensor, part_of, tensors

_EXECUTOR = "nnscaler.runtime.executor."
_SKIP_REDUCER = "nnscaler.flags.RuntimeFlag.skip_reducer"
_FLAGS = frozenset({_SKIP_REDUCER, "nnscaler.flags.RuntimeFlag.skip_zero_grad"})


@dataclass
class Walker:
    """Reads the code of one rank.

    Attributes:
        rank: The rank.
        env: Variables of the step function.
    """

    rank: Rank
    env: dict[str, Any] = field(default_factory=dict)
    executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        self.executor = Executor(self.rank, Launches(self.rank))

    def walk(self) -> Program:
        """Write the program of the rank.

        Raises:
            PlanError: The code is not as nnScaler generates it.
        """
        module, options = self.rank.module, self.rank.options
        try:
            self._start()
            if options.step == "infer":
                self._function("_infer_step")
            elif "_train_step" in module.functions.keys() | module.aliases.keys():
                self._train()
            else:
                self._forward_and_backward()
            if options.step == "train" and options.optimizer:
                self.executor.launches.gather_params()
        except prims.Raises as error:
            self._leave(error)
        return self.rank.program

    def _leave(self, error: prims.Raises) -> None:
        module, program = self.rank.module, self.rank.program
        where = module.where(at_line(error.lineno), module.function_at(error.lineno))
        program.steps.append(Leave(error.error, where))
        message = (
            f"rank {program.rank} raises {error.error} ({where[0]}, line {where[1]}) and is taken "
            "to go no further"
        )
        program.notes.append(("python-error", message, "exact"))

    def _start(self) -> None:
        """Run ``__init__``: process groups in order, then the reducers."""
        for ranks, where in self.rank.module.groups:
            if any(not 0 <= rank < self.rank.world_size for rank in ranks):
                self.rank.check(Comm(op="init_group", where=where, ranks=ranks))
            self.rank.create(ranks, where)
        self.executor.launches.start()

    def _train(self) -> None:
        samples = 1 if self.rank.module.use_scheduler else self.rank.options.samples
        self.executor.launches.zero_grad()
        for number in range(samples):
            self.rank.skip_reducer = number < samples - 1
            self._function("_train_step")

    def _function(self, name: str) -> None:
        module = self.rank.module
        name = module.aliases.get(name, name)
        node = module.functions.get(name)
        if node is None:
            module.source.fail(
                None,
                f"there is no function {name}",
                hint="the code was generated without use_end2end",
            )
        names = [argument.arg for argument in node.args.args]
        self.env = dict.fromkeys([*names, "model"], UNKNOWN)
        for statement in node.body:
            try:
                self._statement(statement, name)
            except prims.Raises as error:
                error.lineno = error.lineno or statement.lineno
                raise

    # --- statements of a step function -----------------------------------------------------------

    def _statement(self, node: ast.stmt, function: str) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node, node.targets[0], node.value, function)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                name = dotted(target)
                self._lookup(name, node)
                del self.env[name]
        elif isinstance(node, ast.Return):
            self._return(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._bare_call(node.value, function)
        elif not isinstance(node, ast.Pass):
            self._refuse(node, "a statement that nnScaler does not generate")

    def _refuse(self, node: ast.AST, message: str) -> NoReturn:
        source = self.rank.module.source
        source.fail(node, message, value=source.text(node))

    def _assign(self, node: ast.Assign, target: ast.expr, value: ast.expr, function: str) -> None:
        name = dotted(target)
        if name in _FLAGS:
            if not isinstance(value, ast.Constant) or not isinstance(value.value, bool):
                self._refuse(node, "a flag that is neither True nor False")
            if name == _SKIP_REDUCER:
                self.rank.skip_reducer = value.value
            return
        targets = _names(target)
        if targets is None:
            self._refuse(node, "an assignment to something that is no variable")
        if isinstance(value, ast.Constant):
            self.env[targets[0]] = value.value
        elif isinstance(value, ast.Call):
            self._bind(targets, self._call(value, targets, function), node)
        else:
            self._refuse(node, "an assignment that nnScaler does not generate")

    def _bind(self, targets: list[str], result: Any, node: ast.Assign) -> None:
        if len(targets) == 1:
            self.env[targets[0]] = result
            return
        values = result if isinstance(result, tuple) else None
        if values is not None and len(values) != len(targets):
            raise prims.Raises(
                f"ValueError: expected {len(targets)} values to unpack, got {len(values)}",
                node.lineno,
            )
        for at, name in enumerate(targets):
            part = Tensor(expression=part_of(result, at)) if values is None else None
            self.env[name] = values[at] if values is not None else part

    def _bare_call(self, call: ast.Call, function: str) -> None:
        name = dotted(call.func)
        if name in {"model.zero_grad", "nnscaler.runtime.function.print_time"}:
            return
        if not name.startswith(_EXECUTOR):
            self._refuse(call, "a call that nnScaler does not generate")
        self._call(call, ["_"], function)

    def _return(self, node: ast.Return) -> None:
        several = isinstance(node.value, (ast.Tuple, ast.List))
        whole = self.rank.module.microbatches == 1 or not several
        entries = [node.value] if whole else getattr(node.value, "elts", [])
        for entry in entries:
            names = [n.id for n in ast.walk(entry) if isinstance(n, ast.Name)] if entry else []
            for name in names:
                self._lookup(name, node)
            self.rank.program.outputs.append(tuple(names))

    def _lookup(self, name: str, node: ast.AST) -> Any:
        if name not in self.env:
            line = getattr(node, "lineno", 0)
            raise prims.Raises(f"NameError: name {name!r} is not defined", line)
        return self.env[name]

    # --- calls -----------------------------------------------------------------------------------

    def _call(self, call: ast.Call, targets: list[str], function: str) -> Any:
        name = dotted(call.func)
        if name == "next":
            return self._next(call, targets)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "detach":
            value = self._lookup(dotted(call.func.value), call)
            return _copy(value) if isinstance(value, Tensor) else value
        if name == f"{_EXECUTOR}fexecute":
            return self._forward(call, targets, function)
        if name == f"{_EXECUTOR}aexecute":
            return self._adapter(call, targets)
        if name != f"{_EXECUTOR}backward":
            self._refuse(call, "a call that nnScaler does not generate")
        return self._backward(call, targets, function)

    def _next(self, call: ast.Call, targets: list[str]) -> Any:
        self._arguments(call)
        self.rank.program.samples += targets
        found = Sample(self.rank.options.sample())
        return found.whole() if len(targets) == 1 else tuple(map(found.get, range(len(targets))))

    def _arguments(self, call: ast.Call) -> tuple[list[str], list[Any]]:
        """Return names and values of the starred tuple that calls take their arguments from."""
        starred = [arg.value for arg in call.args if isinstance(arg, ast.Starred)]
        entries = starred[0].elts if starred and isinstance(starred[0], ast.Tuple) else []
        return self._entries(entries)

    def _entries(self, entries: list[ast.expr]) -> tuple[list[str], list[Any]]:
        names: list[str] = []
        values: list[Any] = []
        for entry in entries:
            found = [node.id for node in ast.walk(entry) if isinstance(node, ast.Name)]
            names += [name for name in found if name != "model"]
            known = [self._lookup(name, entry) for name in found]
            if isinstance(entry, ast.Constant):
                values.append(entry.value)
            else:
                values.append(known[0] if isinstance(entry, ast.Name) else UNKNOWN)
        return names, values

    def _method(self, call: ast.Call, at: int) -> str:
        name = dotted(call.args[at]).removeprefix("model.") if len(call.args) > at else ""
        if not name:
            self._refuse(call, "expected model.<method>")
        if name not in self.rank.module.methods:
            error = f"AttributeError: 'GenModel' object has no attribute {name!r}"
            raise prims.Raises(error, call.lineno)
        return name

    def _new_call(self, callee: str, names: list[str]) -> int:
        kept = tuple(name for name in dict.fromkeys(names) if name != "_")
        self.rank.program.calls.append(Call(callee, kept))
        return len(self.rank.program.calls) - 1

    def _forward(self, call: ast.Call, targets: list[str], function: str) -> Any:
        method = self._method(call, 1)
        names, values = self._arguments(call)
        number = self._new_call(method, [*names, *targets])
        where = self.rank.module.where(call, function)
        return self.executor.forward(method, values, number, where, grad=_flag(call))

    def _adapter(self, call: ast.Call, targets: list[str]) -> Any:
        method = self._method(call, 0)
        names, values = self._arguments(call)
        node = self.rank.module.methods[method]
        reducer = _reducer_of(node)
        if reducer is not None:
            self.executor.launches.synchronize(reducer, self.rank.module.where(node, method))
            return None
        number = self._new_call(method, [*names, *targets])
        # Names of gradients begin with a g in front of the tensor's own name.
        phase = "B" if any(name[:1] == "g" for name in [*names, *targets]) else "F"
        return self.executor.adapter(method, values, number, phase, grad=_flag(call))

    def _backward(self, call: ast.Call, targets: list[str], function: str) -> Any:
        name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        parts = [arg.elts for arg in call.args[1:] if isinstance(arg, ast.Tuple)]
        if not isinstance(name, str) or len(parts) != 3:
            self._refuse(call, "expected backward(name, inputs, outputs, gradients)")
        (in_names, _), (out_names, outputs), (grad_names, grads) = map(self._entries, parts)
        number = self._new_call(name, [*in_names, *out_names, *grad_names, *targets])
        where = self.rank.module.where(call, function)
        return self.executor.backward(name, outputs, grads, number, where)

    # --- code without an end-to-end step ---------------------------------------------------------

    def _forward_and_backward(self) -> None:
        """Run ``forward``, the caller's ``loss.backward()`` and ``sync_grad``."""
        module, program = self.rank.module, self.rank.program
        node = module.methods.get("_forward_impl")
        inner = next((n for n in ast.walk(node) if _is_segment(n)), None) if node else None
        if node is None or not isinstance(inner, ast.Call):
            module.source.fail(None, "neither a _train_step nor a generated forward")
        given = {argument.arg: self._input(argument.arg) for argument in node.args.args[1:]}
        method = dotted(inner.func).removeprefix("self.")
        if method not in module.methods:
            self._refuse(inner, "a call of a segment that does not exist")
        number = self._new_call(method, [dotted(argument) for argument in inner.args])
        where = module.where(inner, "_forward_impl")
        values = [given.get(dotted(argument), UNKNOWN) for argument in inner.args]
        result = self.executor.forward(method, values, number, where, grad=True)
        self.executor.backward(method, list(tensors(result)), [], number, where)
        for name in module.reducers:
            self.executor.launches.synchronize(name, module.where(node, "_forward_impl"))
        message = (
            "the code has no step: one forward, a backward from every output and sync_grad are "
            "taken to follow"
        )
        program.notes.append(("backward-by-caller", message, "exact"))

    def _input(self, name: str) -> Tensor | Sample:
        sample = Sample(self.rank.options.sample(), name)
        return sample.get(name) if isinstance(sample.spec, dict) else sample.whole()


def _copy(value: Tensor) -> Tensor:
    made = Tensor(value.shape, value.dtype, steps=value.steps)
    made.expression = value.expression
    return made


def _flag(call: ast.Call) -> bool:
    given = [k.value for k in call.keywords if k.arg == "requires_grad"]
    return not (given and isinstance(given[0], ast.Constant) and given[0].value is False)


def _names(target: ast.expr) -> list[str] | None:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
        return [entry.id for entry in target.elts if isinstance(entry, ast.Name)]
    return None


def _reducer_of(node: ast.FunctionDef) -> str | None:
    for statement in node.body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        name = dotted(value.func) if isinstance(value, ast.Call) else ""
        if name.startswith("self.") and name.endswith(".sync_grads"):
            return name.split(".")[1]
    return None


def _is_segment(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func).startswith("self.segment")
