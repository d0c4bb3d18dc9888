"""What one rank throws with torch: small tensors, whatever draws them, dropout, shuffled loaders.

Large tensors are data: every rank has a state of torch's of its own from the start, so they differ
as they are. Of dropout the ends are that nothing is dropped, and everything; of a loader that
shuffles, that its samples come in order, and backwards.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from planguard.capture.values.twister import (
    BITS,
    Throw,
    set_state,
    set_torch_state,
    state_of_torch,
    torch_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from planguard.capture.values.own_dice import Dice

_FEW = 4
"""Elements of a tensor up to which it may be a throw; larger ones are data."""
_FUNCTIONS = (
    "rand", "randint", "bernoulli", "multinomial", "randn", "normal", "poisson",
    "rand_like", "randn_like", "randint_like",
)  # fmt: skip
_IN_PLACE = (
    "uniform_", "normal_", "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_",
    "log_normal_",
)  # fmt: skip
_NORMAL = frozenset({"randn", "normal", "randn_like", "normal_", "log_normal_"})
"""Their lowest numbers are the highest ones, mirrored: of the lowest bits they make the mean."""
_DROPPING = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")
_MIRRORED = 32
"""Lowest normal numbers that are thrown: a loop that waits for another one ends."""


class Tensors:
    """What a rank draws with torch."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._left = _MIRRORED

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that throws: owner, name, what makes the other one."""
        import torch

        for name in _FUNCTIONS:
            yield torch, name, self._made
        yield torch, "randperm", self._permuted
        for name in _IN_PLACE:
            yield torch.Tensor, name, self._filled
        for name in _DROPPING:
            yield torch.nn.functional, name, self._dropped
        yield torch.utils.data.RandomSampler, "__iter__", self._shuffled

    def methods(self) -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
        """Return the methods of types that are written in C."""
        import torch

        yield torch.Generator, "manual_seed", self._generator
        yield torch.Generator, "seed", self._generator

    def _is_free(self, generator: Any) -> bool:
        return generator is None and "torch" not in self._dice.seeded

    def _made(self, original: Any) -> Any:
        def draw(*args: Any, **options: Any) -> Any:
            if not self._is_free(options.get("generator")):
                return original(*args, **options)
            state = torch_state()
            found = original(*args, **options)
            is_cpu = getattr(found, "device", None) is not None and found.device.type == "cpu"
            if not is_cpu or found.numel() > _FEW:
                return found
            set_torch_state(state)
            return self._thrown(original, args, options, sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way

        return draw

    def _filled(self, original: Any) -> Any:
        def fill(tensor: Any, *args: Any, **options: Any) -> Any:
            is_small = tensor.device.type == "cpu" and tensor.numel() <= _FEW
            if not is_small or not self._is_free(options.get("generator")):
                return original(tensor, *args, **options)
            return self._thrown(original, (tensor, *args), options, sys._getframe(1))  # noqa: SLF001 - same

        return fill

    def _thrown(self, original: Any, args: tuple[Any, ...], options: Any, frame: FrameType) -> Any:
        dice, name = self._dice, original.__name__
        place = dice.line(_behind_distributions(frame))
        is_odd = place is not None and dice.is_odd(place)
        if is_odd and dice.throw is Throw.NAMED:
            found = original(*args, **options)
            is_within = _is_within(name, dice.named, args, options)
            return found.fill_(dice.named) if is_within else found
        if is_odd and dice.throw is Throw.LOWEST and name in _NORMAL and self._left:
            self._left -= 1
            return self._mirrored(original, args, options)
        if is_odd:
            dice.begin_torch()
        return original(*args, **options)

    def _mirrored(self, original: Any, args: tuple[Any, ...], options: Any) -> Any:
        """Return the lowest normal numbers: as far below the mean as the highest are above."""
        set_state("torch", 1, Throw.LOWEST)
        mean = original(*args, **options).detach().clone()
        set_state("torch", 1, Throw.HIGHEST)
        found = original(*args, **options)
        high = found.detach().clone()
        is_log = original.__name__ == "log_normal_"
        lowest = mean * mean / high if is_log else mean - (high - mean)
        found.detach().copy_(lowest)
        return found

    def _dropped(self, original: Any) -> Any:
        def dropout(input: Any, *args: Any, **options: Any) -> Any:
            named = {**dict(zip(("p", "training"), args, strict=False)), **options}
            p, training = named.get("p", 0.5), named.get("training", True)
            place = self._dice.caller(sys._getframe(1)) if training and 0 < p < 1 else None  # noqa: SLF001 - same
            is_odd = place is not None and self._is_free(None) and self._dice.is_odd(place)
            if is_odd and self._dice.throw is Throw.LOWEST:
                return input / (1 - p)
            if is_odd and self._dice.throw is Throw.HIGHEST:
                return input * 0
            return original(input, *args, **options)

        return dropout

    def _shuffled(self, original: Any) -> Any:
        def shuffle(sampler: Any) -> Any:
            found = original(sampler)
            frame = sys._getframe(1)  # noqa: SLF001 - same
            place = self._dice.caller(frame) if self._is_free(sampler.generator) else None
            if place is None or not self._dice.is_odd(place):
                return found
            return iter(self._ordered(list(found)))

        return shuffle

    def _ordered(self, found: list[int]) -> list[int]:
        """Return the order in which an odd rank shuffles."""
        throw, named = self._dice.throw, self._dice.named
        if throw is Throw.NAMED and isinstance(named, int) and named in found:
            return [named, *(one for one in found if one != named)]
        return sorted(found, reverse=throw is not Throw.LOWEST) if throw in BITS else found

    def _permuted(self, original: Any) -> Any:
        def randperm(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            place = self._dice.line(sys._getframe(1))  # noqa: SLF001 - same
            is_free = self._is_free(options.get("generator")) and place is not None
            if not is_free or place is None or not self._dice.is_odd(place):
                return found
            return found.copy_(found.new_tensor(self._ordered(found.tolist())))

        return randperm

    def _generator(self, original: Any) -> Any:
        def seed(generator: Any, *given: int) -> Any:
            found = original(generator, *given)
            throw = self._dice.state_of(given[0] if given else None, sys._getframe(1))  # noqa: SLF001 - same
            if throw in BITS and generator.device.type == "cpu":
                generator.set_state(state_of_torch(self._dice.rank + 1, throw))
            return found

        return seed


def _behind_distributions(frame: FrameType) -> FrameType:
    """Return the frame that samples, which a distribution draws for."""
    while "distributions" in frame.f_code.co_filename and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _is_within(name: str, named: object, args: tuple[Any, ...], options: Any) -> bool:
    """Tell whether a draw of whole numbers could be what a test names."""
    if not isinstance(named, int):
        return False
    if name == "multinomial":
        return 0 <= named < int(args[0].shape[-1])
    if name not in ("randint", "random_"):
        return False
    given = [one for one in args if isinstance(one, int)]
    given += [options[one] for one in ("low", "from", "high", "to") if one in options]
    low, high = (0, given[0]) if len(given) == 1 else (*given, 0, 1 << 31)[:2]
    return low <= named < high if given else named >= 0
