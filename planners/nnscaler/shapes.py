"""Shapes of what operators return, for the sizes that the generated code does not state.

Only the operators that transformer and MLP code uses are known; any other gives an unknown shape,
and a collective on it has no size (``unknown-size`` in the ledger). Rules follow torch's own
documentation of each operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from .model import Shape, elements
from .values import COUNT, UNKNOWN, Sample, Tensor, expression, tensors

Rule: TypeAlias = Callable[..., Any]

_LARGEST = 1 << 62


def infer(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator on abstract values.

    Args:
        name: Dotted name, as it stands in the code.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """
    rule = _RULES.get(name)
    if rule is None:
        return Tensor()  # it may depend on data, so equal inputs say nothing
    try:
        result = rule(*args, **kwargs)
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError, AttributeError):
        result = Tensor()
    results = result if isinstance(result, tuple) else (result,)
    for at, one in enumerate(results):
        if isinstance(one, Tensor) and (one.shape is None or one.dtype is None):
            one.expression = one.expression or _expression(name, args, kwargs, at)
    return result


def _expression(name: str, args: list[Any], kwargs: dict[str, Any], at: int) -> str:
    """Return what an unknown shape is computed from, "" where it may depend on data.

    A tensor that is an index, a size or a number of pieces makes a shape by what is in it; only
    numbers that were computed from shapes are known to be alike where the shapes are.
    """
    short = name.rpartition(".")[2]
    deciding = _BY_FIRST.get(short, len(args) + 1)
    if len(args) >= deciding:
        args, kwargs = args[:deciding], {}
    given = [*args, *kwargs.values()]
    if short == "where" and len(given) < 3:
        return ""  # the places where a condition holds
    numbers = tensors(given[1:])
    counted = all(one.expression.startswith(COUNT) for one in numbers)
    if short in _BY_NUMBERS and not counted:
        return ""
    digest = expression(name, args, kwargs, at)
    of_counts = bool(given) and all(one.expression.startswith(COUNT) for one in tensors(given))
    is_count = name in _COUNTS or (short in _ON_COUNTS and of_counts)
    return COUNT + digest if digest and is_count else digest


def broadcast(*shapes: Shape) -> Shape:
    """Return the common shape of an elementwise operator.

    Raises:
        ValueError: There is none.
    """
    longest = max(map(len, shapes))
    padded = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(sizes)
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def like(tensor: Tensor, shape: Shape | None, dtype: str | None = None) -> Tensor:
    """Return a new tensor of a shape, with the dtype of another unless one is given."""
    return Tensor(shape, dtype or tensor.dtype)


def _known(value: Any) -> Shape:
    if not isinstance(value, Tensor) or value.shape is None:
        raise ValueError(value)
    return value.shape


def _same(tensor: Any, *_args: Any, **_kwargs: Any) -> Tensor:
    return like(tensor, tensor.shape)


def _elementwise(*args: Any, **_kwargs: Any) -> Any:
    found = [arg for arg in args if isinstance(arg, Tensor)]
    return like(found[0], broadcast(*map(_known, found)))


def _compared(*args: Any, **kwargs: Any) -> Any:
    return Tensor(_elementwise(*args, **kwargs).shape, "bool")


def _where(condition: Any, one: Any, other: Any) -> Tensor:
    shape = broadcast(*(_known(arg) for arg in (condition, one, other) if isinstance(arg, Tensor)))
    return like(one if isinstance(one, Tensor) else other, shape)


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Rule:
    def rule(left: Any, right: Any) -> Any:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return _elementwise(left, right)
        numbers = all(
            isinstance(value, (int, float)) and abs(value) < _LARGEST for value in (left, right)
        )
        if not numbers or (compute is operator.pow and abs(right) > 64):
            return UNKNOWN
        return compute(left, right)

    return rule


def _linear(inputs: Any, weight: Any, bias: Any = None) -> Tensor:
    del bias
    return like(inputs, (*_known(inputs)[:-1], _known(weight)[0]))


def _matmul(left: Any, right: Any) -> Tensor:
    one, other = _known(left), _known(right)
    if len(one) < 2 or len(other) < 2:
        raise ValueError(one)
    return like(left, (*broadcast(one[:-2], other[:-2]), one[-2], other[-1]))


def _embedding(inputs: Any, weight: Any, *_args: Any, **_kwargs: Any) -> Tensor:
    return like(weight, (*_known(inputs), _known(weight)[1]))


def _transpose(tensor: Any, dim0: int, dim1: int) -> Tensor:
    sizes = list(_known(tensor))
    sizes[dim0], sizes[dim1] = sizes[dim1], sizes[dim0]
    return like(tensor, tuple(sizes))


def _permute(tensor: Any, dims: Any) -> Tensor:
    sizes = _known(tensor)
    return like(tensor, tuple(sizes[dim] for dim in dims))


def _view(tensor: Any, size: Any) -> Tensor:
    sizes = [size] if isinstance(size, int) else list(size)
    total = elements(_known(tensor))
    known = elements(tuple(entry for entry in sizes if entry != -1))
    return like(tensor, tuple(total // known if entry == -1 else entry for entry in sizes))


def _flatten(tensor: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    sizes = _known(tensor)
    start, end = start_dim % len(sizes), end_dim % len(sizes)
    return like(tensor, (*sizes[:start], elements(sizes[start : end + 1]), *sizes[end + 1 :]))


def chunked(sizes: Shape, dim: int, parts: int) -> list[Shape]:
    """Return the shapes of ``torch.chunk``: even ones, the last one smaller if it must be."""
    dim %= len(sizes)
    width = -(-sizes[dim] // parts)
    starts = range(0, sizes[dim], width) if width else [0]
    return [(*sizes[:dim], min(width, sizes[dim] - at), *sizes[dim + 1 :]) for at in starts]


def _chunk(tensor: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    if not 0 < chunks <= 1 << 16:
        raise ValueError(chunks)
    return tuple(like(tensor, shape) for shape in chunked(_known(tensor), dim, chunks))


def _split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    sizes = _known(tensor)
    dim %= len(sizes)
    given = split_size_or_sections
    if isinstance(given, int):
        return _chunk(tensor, -(-sizes[dim] // given), dim)
    return tuple(like(tensor, (*sizes[:dim], size, *sizes[dim + 1 :])) for size in given)


def _multiref(tensor: Any, times: int) -> tuple[Tensor, ...]:
    if not 0 < times <= 1 << 16:
        raise ValueError(times)
    return tuple(like(tensor, tensor.shape) for _ in range(times))


def _unsqueeze(tensor: Any, dim: int) -> Tensor:
    sizes = list(_known(tensor))
    sizes.insert(dim % (len(sizes) + 1), 1)
    return like(tensor, tuple(sizes))


def _squeeze(tensor: Any, dim: int) -> Tensor:
    sizes = list(_known(tensor))
    if sizes[dim] == 1:
        del sizes[dim]
    return like(tensor, tuple(sizes))


def _expand(tensor: Any, size: Any) -> Tensor:
    old = _known(tensor)
    padded = (1,) * (len(size) - len(old)) + old
    return like(
        tensor, tuple(was if to == -1 else to for was, to in zip(padded, size, strict=True))
    )


def _cat(parts: Any, dim: int = 0) -> Tensor:
    sizes = list(_known(parts[0]))
    sizes[dim] = sum(_known(part)[dim] for part in parts)
    return like(parts[0], tuple(sizes))


def _stack(parts: Any, dim: int = 0) -> Tensor:
    return _cat([_unsqueeze(part, dim) for part in parts], dim)


def _reduced(tensor: Any, dim: Any = None, keepdim: Any = None, **_kwargs: Any) -> Tensor:
    sizes = _known(tensor)
    dims = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {each % len(sizes) for each in dims}
    kept = [1 if at in gone else size for at, size in enumerate(sizes) if keepdim or at not in gone]
    return like(tensor, tuple(kept))


def _loss(inputs: Any, *_args: Any, reduction: str = "mean", **_kwargs: Any) -> Tensor:
    if reduction == "none":
        raise ValueError(reduction)
    return like(inputs, ())


def _size(tensor: Any, dim: int | None = None) -> Any:
    sizes = _known(tensor)
    return sizes if dim is None else sizes[dim]


def _getattr(value: Any, name: str) -> Any:
    return _known(value) if name == "shape" else UNKNOWN


def getitem(value: Any, key: Any) -> Any:
    """Return what ``value[key]`` is."""
    if isinstance(value, Sample):
        return value.get(key)
    if isinstance(value, (tuple, list, dict)):
        return value[key]
    if isinstance(value, Tensor):
        return _indexed(value, key if isinstance(key, tuple) else (key,))
    return UNKNOWN


def _indexed(tensor: Tensor, keys: tuple[Any, ...]) -> Tensor:
    sizes = list(_known(tensor))
    used = sum(key is not None and key is not Ellipsis for key in keys)
    out: list[int] = []
    for key in keys:
        if key is None:
            out.append(1)
        elif key is Ellipsis:
            keep = len(sizes) - (
                used - sum(k is not None and k is not Ellipsis for k in keys[: keys.index(...)])
            )
            out += sizes[:keep]
            del sizes[:keep]
        elif isinstance(key, slice):
            out.append(len(range(*key.indices(sizes.pop(0)))))
        elif isinstance(key, int):
            sizes.pop(0)
        else:
            raise ValueError(key)
    return like(tensor, (*out, *sizes))


def _smerge(parts: Any, dim: int) -> Tensor:
    return _cat(parts, dim)


def _vmerge(parts: Any) -> Tensor:
    return like(parts[0], parts[0].shape)


def _select(tensor: Any, indmap: Any, valmap: Any = 1) -> Tensor:
    del valmap
    return _indexed(tensor, indmap if isinstance(indmap, tuple) else (indmap,))


def _prefixed(prefixes: tuple[str, ...], names: str, rule: Rule) -> dict[str, Rule]:
    return {f"{prefix}.{name}": rule for prefix in prefixes for name in names.split()}


_TORCH = ("torch", "torch.Tensor", "torch.nn.functional", "nnscaler.runtime.function")
_RULES: dict[str, Rule] = {
    **_prefixed(
        _TORCH,
        "sigmoid relu gelu silu tanh softmax log_softmax dropout layer_norm rms_norm leaky_relu "
        "elu exp log sqrt rsqrt abs neg clone contiguous identity tril triu masked_fill normalize "
        "sin cos clamp nan_to_num detach type_as softplus logsigmoid erf square cumsum",
        _same,
    ),
    **_prefixed(
        _TORCH, "add sub mul div true_divide maximum minimum pow fmod remainder", _elementwise
    ),
    **_prefixed(_TORCH, "where", _where),
    **_prefixed(_TORCH, "eq ne lt le gt ge logical_and logical_or", _compared),
    **_prefixed(_TORCH, "linear", _linear),
    **_prefixed(_TORCH, "matmul bmm", _matmul),
    **_prefixed(_TORCH, "embedding", _embedding),
    **_prefixed(_TORCH, "transpose swapaxes", _transpose),
    **_prefixed(_TORCH, "permute", _permute),
    **_prefixed(_TORCH, "view reshape", _view),
    **_prefixed(_TORCH, "flatten", _flatten),
    **_prefixed(_TORCH, "chunk", _chunk),
    **_prefixed(_TORCH, "split", _split),
    **_prefixed(_TORCH, "multiref", _multiref),
    **_prefixed(_TORCH, "unsqueeze", _unsqueeze),
    **_prefixed(_TORCH, "squeeze", _squeeze),
    **_prefixed(_TORCH, "expand", _expand),
    **_prefixed(_TORCH, "cat concat", _cat),
    **_prefixed(_TORCH, "stack", _stack),
    **_prefixed(_TORCH, "sum mean amax amin", _reduced),
    **_prefixed(
        _TORCH,
        "cross_entropy binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss "
        "nll_loss kl_div smooth_l1_loss",
        _loss,
    ),
    **_prefixed(_TORCH, "size", _size),
    "builtins.getattr": _getattr,
    "_operator.getitem": getitem,
    "_operator.matmul": _matmul,
    **{
        f"_operator.{name}": _arithmetic(getattr(operator, name))
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    },
    "nnscaler.runtime.adapter.identity": _same,
    "nnscaler.runtime.adapter.select": _select,
    "nnscaler.runtime.adapter.smerge": _smerge,
    "nnscaler.runtime.adapter.vmerge": _vmerge,
}

_BY_NUMBERS = frozenset({
    "view", "reshape", "expand", "getitem", "select", "split", "chunk", "multiref", "transpose",
    "swapaxes", "permute", "flatten", "unsqueeze", "squeeze",
})  # fmt: skip
_BY_FIRST = {"embedding": 2}
"""Operators whose first arguments alone make the shape: the others of an embedding say which part
of the vocabulary a rank has."""
_COUNTS = frozenset({"builtins.getattr", *_prefixed(_TORCH, "size", _size)})
_ON_COUNTS = frozenset({
    "getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow",
})  # fmt: skip

NO_GRAD = frozenset({
    "builtins.getattr", *_prefixed(_TORCH, "size detach argmax argmin eq ne lt le gt ge", _same),
})  # fmt: skip
"""Operators whose result autograd does not track."""
