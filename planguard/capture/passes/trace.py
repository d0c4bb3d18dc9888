"""The three tracers of torch that make graphs: AOTAutograd, make_fx and torch.export."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from planguard.capture.planner import fx_planner
from planguard.errors import UsageError
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TRACERS = ("aot", "make_fx", "export")


def trace(
    target: Any,
    inputs: Sequence[Any],
    *,
    tracer: str,
    loss: Callable[[Any], Any] | None,
    options: dict[str, Any],
) -> Any:
    """Trace a module or function in this process and return its ``FxProgram`` without groups.

    Raises:
        UsageError: If the tracer is unknown, or torch cannot trace the target.
    """
    if tracer not in TRACERS:
        raise UsageError(f"no tracer is called {tracer!r}", hint=f"one of {', '.join(TRACERS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates its own internals while it traces
        if tracer == "aot":
            return _aot(target, inputs, loss, options)
        return _make_fx(target, inputs, options) if tracer == "make_fx" else _export(target, inputs)


def _aot(
    target: Any, inputs: Sequence[Any], loss: Callable[[Any], Any] | None, options: dict[str, Any]
) -> Any:
    """Run the target once under torch.compile and keep what the partitioner hands to compilers."""
    import torch
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    planner = fx_planner()
    forward: list[Any] = []
    backward: list[Any] = []

    def backend(module: Any, example: Any) -> Any:
        names = planner.convert.input_names(module)

        def keep(found: list[Any], phase: str) -> Callable[[Any, Any], Any]:
            def compiler(graph: Any, _: Any) -> Any:
                found.append(planner.convert.convert_graph(graph, phase=phase, inputs=names))
                return make_boxed_func(graph.forward)

            return compiler

        compile_both = aot_autograd(
            fw_compiler=keep(forward, "forward"), bw_compiler=keep(backward, "backward")
        )
        return compile_both(module, example)

    torch._dynamo.reset()  # noqa: SLF001 - torch or the interpreter has no public way
    compiled = torch.compile(
        target,
        backend=backend,
        fullgraph=options.get("fullgraph", True),
        dynamic=options.get("dynamic"),
    )
    result = compiled(*inputs)
    scalar = loss(result) if loss is not None else _sum(result)
    if scalar is not None and scalar.requires_grad:
        scalar.backward()
    return planner.FxProgram(forward, backward or None)


def _sum(result: Any) -> Any:
    """Return the sum of every differentiable output, None when there is none."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    parts = [tensor.float().sum() for tensor in tensors if tensor.requires_grad]
    return sum(parts) if parts else None


def _make_fx(target: Any, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = options.get("tracing_mode", "real")
    _keep_user_frames()
    _keep_communication()
    if not isinstance(target, torch.nn.Module):
        graph = make_fx(target, tracing_mode=mode, record_stack_traces=True)(*inputs)
        return fx_planner().FxProgram(graph)
    state = {**dict(target.named_parameters()), **dict(target.named_buffers())}

    def call(values: dict[str, Any], *args: Any) -> Any:
        return torch.func.functional_call(target, values, args)

    graph = make_fx(call, tracing_mode=mode, record_stack_traces=True)(state, *inputs)
    return fx_planner().FxProgram(graph, inputs=tuple(state))


def _keep_communication() -> None:
    """Keep make_fx from dropping collectives whose result nobody uses.

    The schemas of the ``c10d`` operators do not say that they write their arguments, so dead-code
    elimination would take ``dist.all_reduce(x)`` for useless.
    """
    import torch
    from torch.fx.node import has_side_effect

    spaces = fx_planner().operations.NAMESPACES
    for name in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - no public list exists
        space, _, rest = name.partition("::")
        if space in spaces:
            packet, _, overload = rest.partition(".")
            operator = getattr(getattr(torch.ops, space), packet)
            has_side_effect(getattr(operator, overload or "default"))


def _keep_user_frames() -> None:
    """Let make_fx record where the caller's code is, whatever its functions are called.

    torch keeps frames of functions named ``forward`` only. This process ends after the capture, so
    the change is not undone.
    """
    import traceback

    from torch.fx.proxy import TracerBase

    def own_frames(_: Any, summary: Any) -> Any:
        kept = [frame for frame in summary if not is_library(frame.filename)]
        return traceback.StackSummary.from_list(kept)

    TracerBase._filter_traceback_frames = own_frames  # noqa: SLF001 - torch or the interpreter has no public way


def _export(target: Any, inputs: Sequence[Any]) -> Any:
    import torch

    _keep_user_frames()
    module = target
    if not isinstance(target, torch.nn.Module):
        module = torch.nn.Module()
        module.forward = target
    return fx_planner().FxProgram(torch.export.export(module, tuple(inputs)))
