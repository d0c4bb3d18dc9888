"""Read the class and the functions of a generated file: groups, parameters, reducers, methods."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .values import Dtype, dtype_of

if TYPE_CHECKING:
    from .model import Ranks, Shape, Where
    from .source import RankSource


@dataclass(frozen=True)
class Parameter:
    """A parameter or buffer that ``__init__`` registers.

    Attributes:
        name: Attribute.
        shape: Of this rank's part.
        dtype: In the plan format, None if it has none.
        origin: Name in the user's module.
        trained: False for buffers.
    """

    name: str
    shape: Shape
    dtype: str | None
    origin: str
    trained: bool


@dataclass(frozen=True)
class ReducerSpec:
    """A ``Reducer(...)`` that ``__init__`` makes.

    Attributes:
        name: Attribute, ``wreducer170``.
        ranks: Sorted members.
        fields: Keyword arguments, names of ``__init__`` arguments replaced by their defaults.
        params: Attribute names, in order of ``add_param``.
        where: Source.
    """

    name: str
    ranks: Ranks
    fields: dict[str, Any]
    params: tuple[str, ...]
    where: Where


@dataclass
class RankModule:
    """Everything a generated file defines that matters for communication."""

    source: RankSource
    use_scheduler: bool = False
    microbatches: int = 1
    version: str = "unknown"
    groups: list[tuple[Ranks, Where]] = field(default_factory=list)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    reducers: dict[str, ReducerSpec] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    autograd: dict[str, dict[str, ast.FunctionDef]] = field(default_factory=dict)

    def where(self, node: ast.AST, function: str) -> Where:
        """Return the place of a node."""
        return self.source.file, getattr(node, "lineno", 1), function

    def function_at(self, line: int) -> str:
        """Return the name of the function or method around a line."""
        for name, node in (self.methods | self.functions).items():
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                return name
        return "GenModel"


def read_module(source: RankSource) -> RankModule:
    """Read one file.

    Raises:
        PlanError: A part is missing or not as nnScaler generates it.
    """
    module = RankModule(source)
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef):
            module.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            _read_class(module, node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            _read_constant(module, node.targets[0].id, node.value)
    if "__init__" not in module.methods:
        source.fail(None, "no class GenModel with an __init__", hint="is it a gencode file?")
    _read_init(module, module.methods["__init__"])
    return module


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for a name or an attribute of names, else ""."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _read_constant(module: RankModule, name: str, value: ast.expr) -> None:
    if name == "runtime_version" and isinstance(value, ast.Constant):
        module.version = str(value.value)[:40]
    elif isinstance(value, ast.Name):
        module.aliases[name] = value.id


def _read_class(module: RankModule, node: ast.ClassDef) -> None:
    methods = {entry.name: entry for entry in node.body if isinstance(entry, ast.FunctionDef)}
    if node.name != "GenModel":
        if any(dotted(base) == "torch.autograd.Function" for base in node.bases):
            module.autograd[node.name] = methods
        return
    module.methods = methods
    for entry in node.body:
        if isinstance(entry, ast.Assign) and isinstance(entry.targets[0], ast.Name):
            _read_attribute(module, entry.targets[0].id, entry)


def _read_attribute(module: RankModule, name: str, node: ast.Assign) -> None:
    source = module.source
    value = literal(source, node.value)
    if name == "use_scheduler":
        module.use_scheduler = bool(value)
    elif name == "nmicros_per_scheduler_step":
        if not isinstance(value, int) or not 1 <= value <= 1 << 20:
            source.fail(node, "not a number of microbatches", value=value)
        module.microbatches = value
    elif name == "rank" and value != source.rank:
        source.fail(
            node, f"the file of rank {source.rank} was generated for another rank", value=value,
            hint="files of ranks are not interchangeable; restore their names",
        )  # fmt: skip


def literal(source: RankSource, node: ast.expr, names: dict[str, Any] | None = None) -> Any:
    """Return the value of a literal: numbers, strings, tuples, lists, dtypes, given names.

    Raises:
        PlanError: It is something else.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(source, node.operand, names)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(literal(source, entry, names) for entry in node.elts)
    if isinstance(node, ast.Name) and names is not None and node.id in names:
        return names[node.id]
    found = dtype_of(dotted(node))
    if found is None:
        source.fail(node, "expected a literal", value=source.text(node))
    return found


def _read_init(module: RankModule, init: ast.FunctionDef) -> None:
    defaults = _defaults(module, init)
    for statement in init.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            _read_call(module, statement.value)
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            _read_reducer(module, statement, statement.value, defaults)


def _defaults(module: RankModule, init: ast.FunctionDef) -> dict[str, Any]:
    """Return the defaults of ``__init__``: they are the settings of the reducers."""
    arguments = init.args
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {
        argument.arg: literal(module.source, default)
        for argument, default in pairs
        if default is not None
    }


def _read_call(module: RankModule, call: ast.Call) -> None:
    name, source = dotted(call.func), module.source
    if name == "self.init_group":
        module.groups.append((_ranks(module, call), module.where(call, "__init__")))
    elif name in {"self.register_parameter", "self.register_buffer"}:
        _read_parameter(module, call, trained=name == "self.register_parameter")
    elif name == "self.add_full_map":
        _read_origin(module, call)
    elif name.startswith("self.") and name.endswith(".add_param"):
        attribute = name.split(".")[1]
        if attribute not in module.reducers:
            source.fail(call, "add_param of a reducer that does not exist", value=attribute)
        _add_parameter(module, attribute, call)


def _ranks(module: RankModule, call: ast.Call) -> Ranks:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "ranks"] or call.args
    value = literal(module.source, given[0]) if given else None
    plain = isinstance(value, tuple) and all(
        isinstance(rank, int) and not isinstance(rank, bool) for rank in value
    )
    if not plain or not value:
        module.source.fail(call, "expected ranks=[...]", value=module.source.text(call))
    if len(set(value)) != len(value):
        module.source.fail(call, "a rank twice in one group", value=list(value), code="PG409")
    return tuple(sorted(value))


def _read_parameter(module: RankModule, call: ast.Call, *, trained: bool) -> None:
    calls = [node for node in ast.walk(call) if isinstance(node, ast.Call)]
    empty = next((c for c in calls if dotted(c.func) == "torch.empty"), None)
    name = literal(module.source, call.args[0]) if call.args else None
    if empty is None or not isinstance(name, str) or not empty.args:
        module.source.fail(call, "expected a name and torch.empty(shape, dtype=)")
    shape = literal(module.source, empty.args[0])
    if not isinstance(shape, tuple) or not all(
        isinstance(size, int) and 0 <= size < 1 << 48 for size in shape
    ):
        module.source.fail(call, "not a shape", value=shape)
    dtypes = [literal(module.source, k.value) for k in empty.keywords if k.arg == "dtype"]
    dtype = dtypes[0].name if dtypes and isinstance(dtypes[0], Dtype) else None
    module.parameters[name] = Parameter(name, shape, dtype, name, trained)


def _read_origin(module: RankModule, call: ast.Call) -> None:
    """Read ``add_full_map(attribute, tid, is_param, original name, ...)``."""
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) < 2 or strings[0] not in module.parameters:
        module.source.fail(call, "add_full_map of a parameter that is not registered")
    was = module.parameters[strings[0]]
    module.parameters[was.name] = Parameter(was.name, was.shape, was.dtype, strings[1], was.trained)


def _read_reducer(
    module: RankModule, statement: ast.Assign, call: ast.Call, defaults: dict[str, Any]
) -> None:
    if dotted(call.func) != "nnscaler.runtime.adapter.Reducer":
        return
    name = dotted(statement.targets[0]).removeprefix("self.")
    fields = {
        keyword.arg: literal(module.source, keyword.value, defaults)
        for keyword in call.keywords
        if keyword.arg is not None
    }
    where = module.where(call, "__init__")
    module.reducers[name] = ReducerSpec(name, _ranks(module, call), fields, (), where)


def _add_parameter(module: RankModule, attribute: str, call: ast.Call) -> None:
    was = module.reducers[attribute]
    name = dotted(call.args[0]).removeprefix("self.") if call.args else ""
    if name not in module.parameters:
        module.source.fail(call, "add_param of a parameter that is not registered", value=name)
    if name in was.params:
        return  # nnScaler ignores a shared parameter with a warning
    params = (*was.params, name)
    module.reducers[attribute] = ReducerSpec(was.name, was.ranks, was.fields, params, was.where)
