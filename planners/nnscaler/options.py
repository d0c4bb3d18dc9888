"""Options of the adapter, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ..common.options import is_integer, known_options, wrong

if TYPE_CHECKING:
    from .values import SampleSpec

Step = Literal["train", "infer"]
ReducerOrder = Literal["autograd", "any"]

_LARGEST = (1 << 63) - 1
_MOST_SAMPLES, _MOST_RANKS = 1 << 10, 1 << 20
_CHOICES: dict[str, tuple[object, ...]] = {
    "step": get_args(Step),
    "reducer_order": get_args(ReducerOrder),
}


@dataclass(frozen=True, kw_only=True)
class NnScalerOptions:
    """Options of the ``nnscaler`` adapter.

    Attributes:
        step: ``train`` reads ``_train_step`` (without end-to-end code: forward, the caller's
            backward and ``sync_grad``), ``infer`` reads ``_infer_step``.
        inputs: Shapes of the sample: a map from key to shape, or the shape of a sample that is one
            tensor. ``([4, 16], "i64")`` names a dtype other than f32. For code without end-to-end
            step, a map from argument to shape, or to a map.
        samples: Samples that one ``train_step`` of a plan without scheduler accumulates over; only
            the last one reduces gradients.
        optimizer: With ZeRO, gather the parameters after the step, as the hook of nnScaler's
            optimizer does.
        reducer_order: ``autograd`` launches the buckets of an asynchronous reducer where autograd
            does, as soon as their last gradient is there; ``any`` lets each rank launch those of
            one backward in any order.
        init: Begin with the ``new_group`` calls of ``__init__``.
        world_size: Number of ranks that the directory must have; None takes what is there. An
            ``ExecutionPlan`` made for fewer devices is replicated up to it, as nnScaler does.
        config: nnScaler's ``ComputeConfig``, or a map with its fields, for plans in memory: number
            of ranks, ZeRO, asynchronous reducers and bucket size stand only there.
        name: Name of the plan; None takes the name of the directory.
        model: Execution model the plan asks for.
    """

    step: Step = "train"
    inputs: object = None
    samples: int = 1
    optimizer: bool = True
    reducer_order: ReducerOrder = "autograd"
    init: bool = True
    world_size: int | None = None
    config: object = None
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise wrong(
                    "nnscaler", name, getattr(self, name), f"one of {', '.join(map(str, choices))}"
                )
        for name, most in (("samples", _MOST_SAMPLES), ("world_size", _MOST_RANKS)):
            value = getattr(self, name)
            left_out = value is None and name == "world_size"
            if not (left_out or is_integer(value, 1, most)):
                raise wrong("nnscaler", name, value, f"an integer from 1 to {most}")
        for name in ("optimizer", "init"):
            if not isinstance(getattr(self, name), bool):
                raise wrong("nnscaler", name, getattr(self, name), "True or False")
        self.sample()

    def setting(self, name: str, default: object) -> object:
        """Return a field of ``config``."""
        if isinstance(self.config, Mapping):
            return self.config.get(name, default)
        return getattr(self.config, name, default)

    def reducer_fields(self) -> dict[str, object]:
        """Return the settings of reducers that ``config`` implies."""
        cap = self.setting("reducer_bucket_cap_mb", None)
        return {
            "reduce_op": "sum",
            "async_op": bool(self.setting("use_async_reducer", False)),
            "zero": bool(self.setting("use_zero", False)),
            "max_bucket_size_bytes": int(cap * 2**20) if isinstance(cap, (int, float)) else None,
            "zero_use_reduce_scatter": bool(self.setting("zero_use_reduce_scatter", False)),
            "zero_ngroups": self.setting("zero_ngroups", 1),
        }

    def sample(self) -> SampleSpec | None:
        """Return ``inputs`` as shape and dtype, per key if it is a map.

        Raises:
            UsageError: It is neither.
        """
        return None if self.inputs is None else _described(self.inputs)


def read_options(options: Mapping[str, object]) -> NnScalerOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return NnScalerOptions(**known_options("nnscaler", options, NnScalerOptions))


def _described(value: object) -> SampleSpec:
    if isinstance(value, Mapping):
        return {str(key): _described(entry) for key, entry in value.items()}
    return _shape(value)


def _shape(value: object) -> tuple[tuple[int, ...], str]:
    dtype = "f32"
    if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], str):
        value, dtype = value
    if not isinstance(value, (list, tuple)) or not all(
        is_integer(size, 0, _LARGEST) for size in value
    ):
        raise wrong(
            "nnscaler", "inputs", value, "shapes such as {'data': [4, 16], 'ids': ([4, 8], 'i64')}"
        )
    return tuple(value), dtype
