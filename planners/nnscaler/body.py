"""Run the body of a generated method on abstract values: shapes, communications, the tape.

Nothing is executed: statements are those nnScaler generates (assignments, ``del``, ``return``,
``with`` for autocast and gradient modes, a nested ``recompute``), and every call is looked up in a
table of operators.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from . import prims
from .model import Comm, Label, Where, of_gradient
from .module import RankModule, dotted
from .shapes import NO_GRAD, getitem, infer
from .tape import Recorder
from .values import UNKNOWN, Tensor, dtype_of, part_of, tensors

_MODULES = frozenset({"torch", "nnscaler", "_operator", "builtins", "ckpt", "nnfusion"})
_NAMES: dict[str, Any] = {"inf": float("inf"), "slice": slice, "True": True, "False": False}
_TID = re.compile(r"_\d+$")


class Issuer(Protocol):
    """Takes communications of a rank as they are issued."""

    def site(self, where: Where) -> prims.Site:
        """Return where a primitive is called."""
        ...

    def issue(self, comm: Comm, reads: list[Tensor]) -> int:
        """Append a communication and return its index."""
        ...

    def forget(self, works: tuple[str, ...], where: Where) -> None:
        """Note that handles die without anybody having waited for them."""
        ...

    def parameter(self, name: str) -> Any:
        """Return the value of ``self.<name>``, None if there is none."""
        ...


@dataclass
class Body:
    """One run of a method.

    Attributes:
        module: Where the method stands.
        issuer: Takes the communications.
        function: Name of the method.
        call: Number of the step call, for labels.
        phase: ``F`` or ``B``.
        redo: Collects what a recomputed region issues, None outside of one.
    """

    module: RankModule
    issuer: Issuer
    function: str
    call: int
    phase: str = "F"
    env: dict[str, Any] = field(default_factory=dict)
    tape: Recorder = field(default_factory=Recorder)
    seen: dict[str, int] = field(default_factory=dict)
    redo: list[Comm] | None = None
    no_grad: bool = False

    def run(self, node: ast.FunctionDef, arguments: list[Any]) -> Any:
        """Run a method on its arguments and return what it returns.

        Raises:
            Raises: The code would raise.
            PlanError: A statement that nnScaler does not generate.
        """
        names = [argument.arg for argument in node.args.args if argument.arg not in ("self", "ctx")]
        if len(names) != len(arguments):
            error = f"TypeError: {node.name}() takes {len(names)} arguments, {len(arguments)} given"
            raise prims.Raises(error, node.lineno)
        self.env = dict(zip(names, arguments, strict=True))
        return self._block(node.body)

    def _block(self, statements: list[ast.stmt]) -> Any:
        for statement in statements:
            try:
                done, value = self._statement(statement)
            except prims.Raises as error:
                error.lineno = error.lineno or statement.lineno
                raise
            if done:
                return value
        return None

    def _statement(self, node: ast.stmt) -> tuple[bool, Any]:
        """Run one statement; returns whether it was a return, and its value."""
        if isinstance(node, ast.Return):
            return True, self._value(node.value) if node.value else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._delete(target)
        elif isinstance(node, ast.Expr):
            self._value(node.value)
        elif isinstance(node, ast.With):
            return self._with(node)
        elif isinstance(node, ast.FunctionDef):
            self.env[node.name] = node
        elif not isinstance(node, (ast.Pass, ast.If)) or (
            isinstance(node, ast.If) and not _is_guard(node)
        ):
            self._refuse(node, "a statement that nnScaler does not generate")
        return False, None

    def _refuse(self, node: ast.AST, message: str) -> NoReturn:
        source = self.module.source
        source.fail(node, f"{self.function}: {message}", value=source.text(node))

    def _with(self, node: ast.With) -> tuple[bool, Any]:
        names = {dotted(item.context_expr.func) for item in node.items
                 if isinstance(item.context_expr, ast.Call)}  # fmt: skip
        before = self.no_grad
        self.no_grad |= bool(names & {"torch.no_grad", "torch.inference_mode"})
        try:
            for statement in node.body:
                done, value = self._statement(statement)
                if done:
                    return done, value
        finally:
            self.no_grad = before
        return False, None

    def _delete(self, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            self._refuse(target, "del of something that is no variable")
        if target.id not in self.env:
            raise prims.Raises(f"NameError: name {target.id!r} is not defined", target.lineno)
        del self.env[target.id]

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        name = target.id if isinstance(target, ast.Name) else ""
        result = self._value(value, name)
        if isinstance(target, ast.Name):
            self.env[target.id] = result
            return
        if not isinstance(target, ast.Tuple) or not all(
            isinstance(entry, ast.Name) for entry in target.elts
        ):
            self._refuse(target, "an assignment to something that is no variable")
        values = list(result) if isinstance(result, tuple) else []
        if isinstance(result, tuple) and len(values) != len(target.elts):
            raise prims.Raises(
                f"ValueError: expected {len(target.elts)} values to unpack, got {len(values)}"
            )
        origin = result if isinstance(result, Tensor) else None
        for at, entry in enumerate(target.elts):
            assert isinstance(entry, ast.Name)  # noqa: S101 - checked above; for the type checker
            self.env[entry.id] = values[at] if values else self._part(origin, at)

    def _part(self, origin: Tensor | None, at: int) -> Tensor:
        """Return one of several results of an operator of which nothing is known."""
        part = Tensor(expression=part_of(origin, at))
        if origin is not None:
            self.tape.add([origin], part)
        return part

    # --- expressions -----------------------------------------------------------------------------

    def _value(self, node: ast.expr, target: str = "") -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(
                part
                for entry in node.elts
                for part in (
                    self._spread(entry) if isinstance(entry, ast.Starred) else [self._value(entry)]
                )
            )
        if isinstance(node, ast.Dict):
            return {
                key.value: self._value(value)
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            }
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand)
            return -value if isinstance(value, (int, float)) else UNKNOWN
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(node, target)
        return UNKNOWN

    def _spread(self, node: ast.Starred) -> list[Any]:
        value = self._value(node.value)
        return list(value) if isinstance(value, tuple) else [value]

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.env:
            return self.env[node.id]
        if node.id in _NAMES:
            return _NAMES[node.id]
        if (
            node.id in _MODULES
            or node.id in self.module.functions
            or node.id in self.module.autograd
        ):
            return UNKNOWN
        raise prims.Raises(f"NameError: name {node.id!r} is not defined", node.lineno)

    def _attribute(self, node: ast.Attribute) -> Any:
        name = dotted(node)
        if name.startswith("self.") and name.count(".") == 1:
            value = self.issuer.parameter(name[5:])
            if value is None:
                error = f"AttributeError: 'GenModel' object has no attribute {name[5:]!r}"
                raise prims.Raises(error, node.lineno)
            return value
        found = dtype_of(name)
        return UNKNOWN if found is None else found

    def _subscript(self, node: ast.Subscript) -> Any:
        value, key = self._value(node.value), node.slice
        if not isinstance(key, ast.Constant):
            return UNKNOWN
        try:
            return getitem(value, key.value)
        except (IndexError, KeyError, TypeError, ValueError):
            return UNKNOWN

    def _call(self, node: ast.Call, target: str) -> Any:
        name = dotted(node.func)
        args = [
            part
            for entry in node.args
            for part in (
                self._spread(entry) if isinstance(entry, ast.Starred) else [self._value(entry)]
            )
        ]
        kwargs = {k.arg: self._value(k.value) for k in node.keywords if k.arg is not None}
        if prims.is_primitive(name):
            return self._primitive(node, name, args, kwargs, target)
        if name == "ckpt.checkpoint":
            return self._checkpoint(node, args)
        head, _, tail = name.partition(".")
        if tail == "apply" and head in self.module.autograd:
            return self._custom(node, head, args)
        if name == "slice":
            return slice(*args) if all(_is_bound(arg) for arg in args) else UNKNOWN
        if head == "self" or (name.startswith(_GUARDED) and name not in _LOCAL):
            self._refuse(node, "a call that nnScaler does not generate")
        return self._operator(name, args, kwargs)

    def _operator(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = infer(name, args, kwargs)
        flows = name not in NO_GRAD and not self.no_grad
        self.tape.add([*args, *kwargs.values()], result, flows=flows)
        return result

    # --- communication ---------------------------------------------------------------------------

    def _primitive(
        self, node: ast.Call, name: str, args: list[Any], kwargs: dict[str, Any], target: str
    ) -> Any:
        where = self.module.where(node, self.function)
        done = prims.call(name, args, kwargs, self.issuer.site(where))
        stem = self._stem(node, name, target)
        read = [found for arg in args for found in tensors(arg)]
        steps = [self._issue(comm, stem, read) for comm in done.comms]
        duals = () if done.dual is None else (self._named(done.dual, f"{stem}.grad"),)
        self.tape.add(args[:1], done.value, flows=done.flows and not self.no_grad, duals=duals)
        if isinstance(done.value, Tensor) and not any(done.value is tensor for tensor in read):
            self._settle(done.value, read, done, tuple(steps))
        return done.value

    def _settle(
        self, value: Tensor, read: list[Tensor], done: prims.Done, steps: tuple[int, ...]
    ) -> None:
        """Keep handles where nnScaler keeps them: under the identity of a tensor.

        A gathering collective hands back its own input, so a handle which that had is forgotten.
        """
        value.steps = steps or tuple(step for tensor in read for step in tensor.steps)
        if done.keeps:
            value.pending, value.buffer = list(done.keeps), done.keeps[0]
            forgotten = [work for t in read for work in t.pending if done.comms[0].op in _IN_PLACE]
            if forgotten:
                self.issuer.forget(tuple(forgotten), done.comms[0].where)
        elif not steps and read:
            value.buffer = read[0].buffer

    def _issue(self, comm: Comm, stem: str, read: list[Tensor]) -> int:
        named = self._named(replace(comm, phase=self.phase if comm.peer is None else ""), stem)
        if self.redo is not None:
            self.redo.append(named)
        return self.issuer.issue(named, read)

    def _named(self, comm: Comm, stem: str) -> Comm:
        again = self.seen.get(f"{stem} {comm.op}", 0)
        self.seen[f"{stem} {comm.op}"] = again + 1
        return replace(comm, label=Label(f"{stem}.{again}" if again else stem, self.call))

    def _stem(self, node: ast.Call, name: str, target: str) -> str:
        """Name what is communicated, by a name that every member uses.

        A message carries one tensor, which both sides call the same. Parts of a tensor differ in
        number from rank to rank, so a collective goes by the name of the whole.
        """
        first = node.args[0] if node.args else None
        given = first.id if isinstance(first, ast.Name) else ""
        chosen = given if target in ("", "_") else target
        if name == prims.PLAIN + "move":
            return given or target or self.function
        return _TID.sub("", chosen) or self.function

    def _checkpoint(self, node: ast.Call, args: list[Any]) -> Any:
        """Run a region that the backward runs again before its own duals."""
        function = next((arg for arg in node.args if isinstance(arg, ast.Name)), None)
        body = self.env.get(function.id) if function is not None else None
        if not isinstance(body, ast.FunctionDef):
            self._refuse(node, "a checkpoint of something that is no local function")
        inner = Body(self.module, self.issuer, self.function, self.call, self.phase)
        inner.seen, inner.redo, inner.no_grad = self.seen, [], self.no_grad
        result = inner.run(body, args[1:])
        region = inner.tape.operators
        again = tuple(inner.redo or ())
        for operator in region if again else ():
            operator.redo = again
        self.tape.operators += region
        return result

    def _custom(self, node: ast.Call, name: str, args: list[Any]) -> Any:
        """Run a generated ``autograd.Function``: its forward now, its backward as the dual."""
        methods = self.module.autograd[name]
        if not {"forward", "backward"} <= methods.keys():
            self._refuse(node, f"{name} has no forward and backward")
        inner = Body(self.module, self.issuer, name, self.call, self.phase)
        result = inner.run(methods["forward"], args)
        duals: list[Comm] = []
        back = Body(self.module, Collector(self.issuer, duals), name, self.call, "B")
        grads = [
            Tensor(value.shape, value.dtype, expression=value.expression)
            for value in tensors(result)
        ]
        back.run(methods["backward"], list(grads))
        duals = [of_gradient(comm) for comm in duals]
        self.tape.add(args, result, duals=tuple(duals), flows=not self.no_grad)
        return result


_GUARDED = (prims.PLAIN, "torch.distributed.")
_IN_PLACE = frozenset({"all_gather", "all_to_all", "all_to_all_single"})
"""Asynchronous primitives that return the tensor they were given; a callback makes the result."""

_LOCAL = frozenset(prims.PLAIN + name for name in ("identity", "select", "smerge", "vmerge"))


@dataclass
class Collector:
    """An issuer that only collects, for what a backward will issue later."""

    issuer: Issuer
    comms: list[Comm]

    def site(self, where: Where) -> prims.Site:
        """Return where a primitive is called."""
        return self.issuer.site(where)

    def issue(self, comm: Comm, reads: list[Tensor]) -> int:
        """Collect a communication."""
        del reads
        self.comms.append(comm)
        return -1

    def forget(self, works: tuple[str, ...], where: Where) -> None:
        """Pass on what dies."""
        self.issuer.forget(works, where)

    def parameter(self, name: str) -> Any:
        """Return the value of ``self.<name>``."""
        return self.issuer.parameter(name)


def _is_bound(value: object) -> bool:
    return value is None or isinstance(value, int)


def _is_guard(node: ast.If) -> bool:
    """Recognize ``if x is not None: raise ...``, which generated forwards begin with."""
    return len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not node.orelse
